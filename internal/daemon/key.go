package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// keyFile is the name of the key file in the data folder.
const keyFile = "key"

// newKeyFile is the name of the key file while a data folder is being created.
const newKeyFile = keyFile + ".new"

// checkKey creates the key and the witness of a new data folder. The text of a key, if not empty,
// replaces the key file. A key without a database and a witness is an error. Both exist before the
// key gets its final name, so the folder was used before. A database without its key is an error
// too: with a new key nothing sealed in it could be read. The caller must own the folder.
func checkKey(folder, text string) error {
	name, next := filepath.Join(folder, keyFile), filepath.Join(folder, newKeyFile)
	given, database := text != "", fileExists(filepath.Join(folder, store.File))
	switch {
	case !given && !fileExists(name) && (!database || fileExists(next)):
		return makeKey(folder, database)
	case !given && !fileExists(name):
		return tool.Errorf(tool.Conflict, "the data folder %s has a database, but its key is missing: put the key "+
			"back as %s, or into $BIPLANE_KEY; to start over, move the folder away", folder, name)
	case database, fileExists(filepath.Join(folder, store.WitnessFile)):
		// Whether they were sealed with this key is checked when the record is opened.
		return nil
	case !given || store.HasGrantMark(folder):
		return tool.Errorf(tool.Conflict, "the data folder %s was used before, and its database and the record's "+
			"witness %s are missing: restore the whole folder from a backup; to start over, "+
			"move the folder away, with its key", folder, store.WitnessFile)
	}
	k, err := openKey(folder, text)
	if err != nil {
		return err
	}
	return store.CreateWitness(folder, k)
}

// makeKey creates a key and then a witness, or resumes where an interrupted start left off. If
// there is a database, there must already be a witness.
func makeKey(folder string, database bool) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return tool.Errorf(tool.Unavailable, "create the data folder: %w; choose another one with --data-dir", err)
	}
	name, next := filepath.Join(folder, keyFile), filepath.Join(folder, newKeyFile)
	k, err := secret.Open(next)
	if err != nil {
		return tool.Errorf(tool.Invalid, "%w", err)
	}
	if !database {
		if err := store.CreateWitness(folder, k); err != nil {
			return err
		}
	}
	if err := os.Rename(next, name); err != nil {
		return tool.Errorf(tool.Unavailable, "name the key: %w", err)
	}
	return nil
}

// fileExists reports whether a file exists, or can't be examined.
func fileExists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// openKey returns the key that seals confidential data in the store: the key whose text is given,
// see Config.Key, or else the one in the data folder, which is created if missing.
func openKey(folder, text string) (*secret.Key, error) {
	if text != "" {
		k, err := secret.ParseKey(text)
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "$BIPLANE_KEY: %w", err)
		}
		return k, nil
	}
	k, err := secret.Open(filepath.Join(folder, keyFile))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "%w", err)
	}
	return k, nil
}
