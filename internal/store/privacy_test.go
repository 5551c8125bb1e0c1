package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

func privacyKey(t *testing.T, b byte) *secret.Key {
	t.Helper()
	k, err := secret.NewKey(bytes.Repeat([]byte{b}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	return k
}

// TestPrivacy checks that values are sealed, numbered once per owner, copied with sessions, and
// deleted with them.
func TestPrivacy(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Path: dir})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	k := s.Privacy(privacyKey(t, 1))
	number := func(of tool.Scope, most int, value string) int64 {
		t.Helper()
		e := &privacy.Entry{Token: privacy.Token{Kind: privacy.Email}, Value: value}
		if err := k.Number(t.Context(), of, most, []*privacy.Entry{e}); err != nil {
			t.Fatalf("Number: %v", err)
		}
		return e.N
	}
	work, copied := tool.Scope{Owner: "ada", Session: "work"}, tool.Scope{Owner: "ada", Session: "copy"}
	for i, c := range []struct {
		of    tool.Scope
		value string
		n     int64
	}{
		{work, "Secret@Example.com", 1}, {work, "secret@example.com", 1}, {work, "b@example.com", 2},
		{tool.Scope{Owner: "ada"}, "secret@example.com", 3},
		{tool.Scope{Owner: "eve", Session: "work"}, "secret@example.com", 1},
	} {
		if n := number(c.of, 100, c.value); n != c.n {
			t.Errorf("%d: number %d, want %d", i, n, c.n)
		}
	}
	if n := number(work, 2, "c@example.com"); n != 0 {
		t.Errorf("a full vault gave the number %d", n)
	}
	if err := k.Copy(t.Context(), work, copied); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	for range 2 { // and again in the next process
		all, err := k.Find(t.Context(), copied, []privacy.Token{{Kind: privacy.Email, N: 1}, {Kind: privacy.Card, N: 1},
			{Kind: privacy.Email, N: 3}})
		if err != nil || len(all) != 1 || all[0].Value != "Secret@Example.com" {
			t.Fatalf("all = %+v, err = %v, want err == nil && len(all) == 1 && all[0].Value == "+
				"\"Secret@Example.com\"", all, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range files {
			if raw, err := os.ReadFile(f); err == nil && bytes.Contains(bytes.ToLower(raw), []byte("secret@example")) {
				t.Errorf("%s has a value in the clear", f)
			}
		}
		if s, err = Open(t.Context(), Config{Path: dir}); err != nil {
			t.Fatalf("Open: %v", err)
		}
		k = s.Privacy(privacyKey(t, 1))
	}
	defer s.Close()
	if _, err := s.Privacy(privacyKey(t, 2)).Find(t.Context(), work,
		[]privacy.Token{{Kind: privacy.Email, N: 1}}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("another key opens it: %v", err)
	}
	if n, err := k.Expire(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 6 { // no such sessions exist
		t.Errorf("%d values expired, %v", n, err)
	}
	if n := number(work, 100, "new@example.com"); n != 4 {
		t.Errorf("number %d is given twice", n)
	}
}
