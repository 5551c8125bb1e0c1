package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTail keeps the arguments of calls. Small ones are in the tail, which the next process
// inherits. Many and old ones have their own rows. Each is found wherever it is, until retention
// deletes it.
func TestTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDatabase(t, dir)
	clock := wallclock.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	log := func() *audit.Log {
		a := stored(t, s)
		signer, err := a.Signer(t.Context(), "")
		if err != nil {
			t.Fatalf("Signer: %v", err)
		}
		return audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer, Clock: clock,
			Retention: retention.Policy{For: 24 * time.Hour}})
	}
	l := log()
	var all []string // texts of arguments
	call := func(text string) {
		t.Helper()
		clock.Advance(time.Millisecond) // ids are in the order of their times
		text = fmt.Sprintf(`{"text":"%d %s"}`, len(all), text)
		e, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update", Arguments: []byte(text)}, allow)
		if err == nil {
			err = e.End(t.Context(), tool.Text(false, "fine"), nil)
		}
		if err == nil {
			err = s.Settle(t.Context())
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		all = append(all, text)
	}
	is := func(what string, tail bool, rows int) {
		t.Helper()
		if has, n := store.Packs(t.Context(), s); has != tail || n != rows {
			t.Errorf("%s: in the tail: %v, rows: %d", what, has, n)
		}
		found, err := l.Records(t.Context(), audit.Query{Kind: audit.KindCall})
		if err != nil || len(found) != len(all) {
			t.Fatalf("len(found) = %v, err = %v, want err == nil && len(found) == len(all)", len(found), err)
		}
		for i, r := range found {
			data, err := l.Kept(t.Context(), r.Seq, r.Arguments.Digest)
			if want := all[len(all)-1-i]; err != nil || string(data) != want {
				t.Fatalf("%s: %q, %v, want %q", what, data, err, want)
			}
		}
		if r := verified(t, l); !r.OK() || int(r.Payloads) != len(all) {
			t.Fatalf("what = %s, r = %+v, want r.OK() && int(r.Payloads) == len(all)", what, r)
		}
	}
	call("a")
	call("b")
	is("two small ones", true, 0)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s = openDatabase(t, dir)
	l = log()
	is("another process", true, 0)
	call("c")
	is("its first one", true, 1)
	long := make([]byte, 1500)
	rand.Read(long) // so that compressing doesn't make it short
	call(hex.EncodeToString(long))
	is("much", false, 2)
	call("e")
	clock.Advance(2 * time.Minute)
	call("f")
	is("later", true, 3)
	clock.Advance(48 * time.Hour)
	if err := l.Prune(t.Context()); err != nil {
		t.Fatalf("Prune: %v", err)
	}
	if has, n := store.Packs(t.Context(), s); has || n != 0 {
		t.Errorf("after retention: in the tail: %v, rows: %d", has, n)
	}
	if r := verified(t, l); !r.OK() || r.Payloads != 0 {
		t.Errorf("after retention: %+v", r)
	}
}

// TestTailChanged changes or removes the kept data in the tail.
func TestTailChanged(t *testing.T) {
	t.Parallel()
	for query, what := range map[string]string{
		`UPDATE tail SET kept = randomblob(length(kept))`: "payload",
		`UPDATE tail SET kept_first = kept_first + 1`:     "payload",
		`UPDATE tail SET kept = x''`:                      "gone",
	} {
		s := openDatabase(t, t.TempDir())
		l := auditLog(t, s)
		fill(t, l, 2)
		sound(t, l)
		if err := s.Exec(t.Context(), query); err != nil {
			t.Fatalf("Exec: %v", err)
		}
		r := verified(t, l)
		if len(r.Faults) == 0 || r.Faults[0].What != what {
			t.Errorf("query = %s, r.Faults = %+v, want len(r.Faults) != 0 && r.Faults[0].What == what",
				query, r.Faults)
		}
	}
}
