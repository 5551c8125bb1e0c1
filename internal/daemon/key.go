package daemon

import (
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// keyFile is the name of the key's file in the data folder.
const keyFile = "key"

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
