package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/session"
)

func TestLabelsOnlyGrow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openDatabase(t, dir)
	k := sessions(t, s, 1)
	now := time.UnixMicro(1_700_000_000_000_000)
	label := func(name string, at time.Time, labels ...string) {
		t.Helper()
		if err := k.Label(t.Context(), "ann", name, labels, at, at.Add(-time.Hour)); err != nil {
			t.Fatalf("Label: %v", err)
		}
	}
	want := func(name, labels string) {
		t.Helper()
		if got, err := k.Labels(t.Context(), "ann", name); err != nil || fmt.Sprint(got) != labels {
			t.Errorf("%s has %v, %v, want %s", name, got, err, labels)
		}
	}
	label("a", now, "pii")
	label("a", now, "confidential", "pii")
	label("never", now, "pii")
	want("a", "[confidential pii]")
	if err := k.Save(t.Context(), &session.Change{Record: record("a", 1)}); err != nil {
		t.Fatalf("Save: %v", err)
	}
	if all, err := k.List(t.Context(), "ann"); err != nil || len(all) != 1 ||
		fmt.Sprint(all[0].Labels) != "[confidential pii]" {
		t.Fatalf("all = %+v, err = %v, want err == nil && len(all) == 1 && fmt.Sprint(all[0].Labels) == "+
			"\"[confidential pii]\"", all, err)
	}
	label("other", now.Add(2*time.Hour), "untrusted") // old labels without a session are deleted
	want("never", "[]")
	want("a", "[confidential pii]")
	if got, err := k.Labels(t.Context(), "bob", "a"); err != nil || len(got) != 0 {
		t.Errorf("somebody else's: %v, %v", got, err)
	}
	if err := k.End(t.Context(), record("a", 1)); err != nil {
		t.Fatalf("End: %v", err)
	}
	want("a", "[]")
}
