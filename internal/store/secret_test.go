package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSecrets(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	s, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	k := s.OpenSecrets(tokenKey(t, 1))
	want := func(owner, name, value string) {
		t.Helper()
		got, found, err := k.LoadSecret(ctx, owner, name)
		if got != value || found != (value != "") || err != nil {
			t.Errorf("load %q of %q: %q, %v, %v, want %q", name, owner, got, found, err, value)
		}
	}
	want("", "API", "")
	for _, c := range [][3]string{{"", "API", "first"}, {"", "API", "plainly-secret"},
		{"key:ci", "API", "own-secret"}} {
		if err := k.SaveSecret(ctx, c[0], c[1], c[2]); err != nil {
			t.Fatalf("SaveSecret: %v", err)
		}
	}
	want("", "API", "plainly-secret")
	want("key:ci", "API", "own-secret")
	want("key:other", "API", "")
	if all, err := k.ListSecrets(ctx, "key:ci"); err != nil || len(all) != 1 || all[0].Name != "API" ||
		all[0].Changed.IsZero() {
		t.Errorf("ListSecrets: %+v, %v, want one", all, err)
	}
	if _, _, err := s.OpenSecrets(tokenKey(t, 2)).LoadSecret(ctx, "", "API"); err == nil {
		t.Error("a secret was loaded with another key")
	}
	for _, want := range []bool{true, false} {
		if found, err := k.RemoveSecret(ctx, "key:ci", "API"); found != want || err != nil {
			t.Errorf("RemoveSecret: %v, %v, want %v", found, err, want)
		}
	}
	want("key:ci", "API", "")
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, name := range []string{"biplane.db", "biplane.db-wal", "biplane.ahead"} {
		raw, _ := os.ReadFile(filepath.Join(dir, name)) // some may not exist
		if bytes.Contains(raw, []byte("plainly-secret")) {
			t.Errorf("%s has a secret in plain text", name)
		}
	}
}

// One owner can't use up the space of the others.
func TestSecretsAreBounded(t *testing.T) {
	s, _ := openTokens(t, t.TempDir())
	k := s.OpenSecrets(tokenKey(t, 1))
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = k.SaveSecret(t.Context(), "key:ci", fmt.Sprintf("S%d", n), "value")
	}
	if tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Limit || n != 201 {
		t.Errorf("stored %d secrets, then %v, want a limit of 200", n-1, err)
	}
	if err := k.SaveSecret(t.Context(), "key:ci", "S0", "another value"); err != nil {
		t.Errorf("replace a secret: %v", err)
	}
	if err := k.SaveSecret(t.Context(), "key:other", "S0", "value"); err != nil {
		t.Errorf("store a secret of another owner: %v", err)
	}
}
