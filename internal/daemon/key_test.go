package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestNoNewKeyBesideADatabase checks that no key is created beside a database, which is sealed with
// another key.
func TestNoNewKeyBesideADatabase(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new")
	if err := checkKey(folder, ""); err != nil {
		t.Fatalf("checkKey: %v", err)
	}
	key := filepath.Join(folder, keyFile)
	if !fileExists(key) {
		t.Fatal("a new folder has no key")
	}
	if err := os.WriteFile(filepath.Join(folder, store.File), nil, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := checkKey(folder, ""); err != nil {
		t.Fatalf("checkKey: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	err := checkKey(folder, "")
	if tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Conflict || !strings.Contains(err.Error(), key) {
		t.Errorf("err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == tool.Conflict && "+
			"strings.Contains(err.Error(), key)", err)
	}
	if fileExists(key) {
		t.Error("there is a new key")
	}
}

// started starts a daemon in a folder, and stops it cleanly.
func started(t *testing.T, folder, key string) error {
	t.Helper()
	d, err := New(t.Context(), Config{DataDir: folder, Key: key})
	if err != nil {
		return err
	}
	return errors.Join(d.signAudit(t.Context()), d.Close())
}

// TestUsedKey checks that a used key is not mistaken for a new one if its database and witness are
// missing: no record is started with it.
func TestUsedKey(t *testing.T) {
	t.Parallel()
	const mark = "biplane.sealed"
	for name, c := range map[string]struct {
		remove []string
		empty  bool // an empty database is put in
		given  bool // the key is in $BIPLANE_KEY
	}{
		"database and witness":                           {[]string{store.File, store.WitnessFile, mark}, false, false},
		"database and witness, an empty database put in": {[]string{store.File, store.WitnessFile, mark}, true, false},
		"database":                            {[]string{store.File, mark}, false, false},
		"database of a given key":             {[]string{store.File, mark}, false, true},
		"database and witness of a given key": {[]string{store.File, store.WitnessFile}, false, true},
		"database and witness of a given key, an empty database put in": {[]string{store.File, store.WitnessFile, mark},
			true, true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			text := ""
			if c.given {
				text = strings.Repeat("0f", 32)
			}
			for range 2 {
				if err := started(t, folder, text); err != nil {
					t.Fatalf("started: %v", err)
				}
			}
			if fileExists(filepath.Join(folder, keyFile)) == c.given || fileExists(filepath.Join(folder, newKeyFile)) {
				t.Error("the key is not where it should be")
			}
			for _, name := range c.remove {
				if err := os.Remove(filepath.Join(folder, name)); err != nil {
					t.Fatalf("os.Remove: %v", err)
				}
			}
			for _, name := range []string{store.File + "-wal", store.File + "-shm"} {
				_ = os.Remove(filepath.Join(folder, name))
			}
			if c.empty {
				if err := os.WriteFile(filepath.Join(folder, store.File), nil, 0o600); err != nil {
					t.Fatalf("os.WriteFile: %v", err)
				}
			}
			for range 2 {
				err := started(t, folder, text)
				if err == nil || tool.AsError(err).Kind != tool.Conflict ||
					!strings.Contains(err.Error(), "restore the whole") {
					t.Errorf("err = %v, want err != nil && tool.AsError(err).Kind == tool.Conflict && "+
						"strings.Contains(err.Error(), \"restore the whole\")", err)
				}
			}
		})
	}
}

// TestBrokenFirstStart checks that a start can resume where an interrupted first start left off.
func TestBrokenFirstStart(t *testing.T) {
	t.Parallel()
	steps := map[string]func(folder string) error{
		"key": func(folder string) error { _, err := secret.Open(filepath.Join(folder, newKeyFile)); return err },
		"key and witness": func(folder string) error {
			k, err := secret.Open(filepath.Join(folder, newKeyFile))
			if err == nil {
				err = store.CreateWitness(folder, k)
			}
			return err
		},
		"all but the database": func(folder string) error { return checkKey(folder, "") },
		"all but the record": func(folder string) error {
			s, err := store.Open(t.Context(), store.Config{Path: folder, Prepare: func() error {
				return checkKey(folder, "")
			}})
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"all, and the key's name is lost": func(folder string) error {
			if err := started(t, folder, ""); err != nil {
				return err
			}
			return os.Rename(filepath.Join(folder, keyFile), filepath.Join(folder, newKeyFile))
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := step(folder); err != nil {
				t.Fatalf("step: %v", err)
			}
			for range 2 {
				if err := started(t, folder, ""); err != nil {
					t.Fatalf("started: %v", err)
				}
			}
			if !fileExists(filepath.Join(folder, keyFile)) || fileExists(filepath.Join(folder, newKeyFile)) {
				t.Error("the key has not its name")
			}
		})
	}
}
