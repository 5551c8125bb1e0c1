package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// keyFile is the name of the key's file in the data folder.
const keyFile = "key"

// checkKey makes the key of a new data folder, and is an error where a data folder has a database, and its key is gone: with a new one nothing sealed could be read again, and what
// is written from then on could not be read with the old one.
func checkKey(folder string) error {
	name := filepath.Join(folder, keyFile)
	if os.Getenv("BIPLANE_KEY") != "" || there(name) {
		return nil
	}
	if !there(filepath.Join(folder, store.File)) {
		// The key comes first, so that a process that ends here leaves no database without one. What goes wrong is told when both are opened.
		if os.MkdirAll(folder, 0o700) == nil {
			_, _ = secret.Open(name)
		}
		return nil
	}
	return tool.Errorf(tool.Conflict, "the data folder %s has a database, and its key is gone: put the key back as %s, or into $BIPLANE_KEY; to begin anew, move the folder away", folder, name)
}

// there reports whether there is a file of the name, or something that can't be looked at.
func there(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// openKey gives the key that seals what the store must not keep in the clear: that of $BIPLANE_KEY, else that of the data
// folder, which is made where there is none.
func openKey(folder string) (*secret.Key, error) {
	if text := os.Getenv("BIPLANE_KEY"); text != "" {
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
