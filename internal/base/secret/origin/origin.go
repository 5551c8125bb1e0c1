// Package origin reads secrets by name: from a file, from a folder with a file for each secret,
// from the keyring of the operating system, or from the key-value store of Vault or OpenBao. What
// it reads is bounded in size and time. Errors name secrets, and never contain their values.
package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/yamldoc"
)

// Limits of what a source may contain.
const (
	// MaxValue is the maximum size of a secret in bytes.
	MaxValue = 64 << 10
	maxFile  = 1 << 20
)

// A File is a file with a map from names to values, in YAML or JSON, or a folder that has a file
// for each secret, as containers mount them. It is read each time.
type File struct{ Path string }

// ReadSecrets returns the values of the named secrets that the file has.
func (f File) ReadSecrets(ctx context.Context, names []string) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fi, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return f.readFolder(names)
	}
	if runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is accessible to other users (mode %04o): run chmod 600 on it", f.Path,
			fi.Mode().Perm())
	}
	raw, err := readRegular(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	var all map[string]string
	if err := yamldoc.DecodeDocument(raw, &all); err != nil {
		// its message may have keys, which are names of secrets
		return nil, fmt.Errorf("%s is not a map from names to texts, in YAML or JSON", f.Path)
	}
	return selectNames(all, names), nil
}

// readFolder reads a file for each secret. A line break at the end of a file is not part of the
// value.
func (f File) readFolder(names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		if name != filepath.Base(name) {
			continue
		}
		raw, err := readRegular(filepath.Join(f.Path, name), MaxValue+2)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out[name] = strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	}
	return out, nil
}

// readRegular reads a file of at most that many bytes. Opening a pipe would wait for its writer.
func readRegular(path string, most int) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(raw) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, err
}

func selectNames(all map[string]string, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	return out
}
