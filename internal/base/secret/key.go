package secret

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A KeyError says why a key can't be used, and what to do.
type KeyError struct {
	Path string // path of the file; empty if the key was given as text
	Msg  string
	Err  error // may be nil
}

// Error returns the message.
func (e *KeyError) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

// ParseKey parses a key in hexadecimal or base64 (either alphabet, padded or not). The error is a
// *KeyError, and doesn't contain any part of the text.
func ParseKey(text string) (*Key, error) {
	text = strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if b, err := decode(text); err == nil && len(b) == KeySize {
			return NewKey(b)
		}
	}
	return nil, &KeyError{Msg: fmt.Sprintf(
		"the key must be %d random bytes in hexadecimal or base64: make one with openssl rand -hex %d",
		KeySize, KeySize)}
}

// Texts returns the forms in which the key may be written, so that all of them can be masked.
func (k *Key) Texts() []string {
	b := k.secret[:]
	return []string{hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b)}
}

// Open reads the key in the file at path, which has KeySize bytes and is accessible only to its
// user. It creates the file if it doesn't exist. The error is a *KeyError.
func Open(path string) (*Key, error) {
	k, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &KeyError{Path: path, Err: err, Msg: fmt.Sprintf("create key file %s: %s", path, err)}
	}
	return readKey(path) // our key, or the one that a concurrent process created
}

func readKey(path string) (*Key, error) {
	bad := func(format string, args ...any) (*Key, error) {
		return nil, &KeyError{Path: path, Msg: fmt.Sprintf("key file %s ", path) + fmt.Sprintf(format, args...)}
	}
	// opening a pipe would wait for its writer
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return bad("is not a regular file: put the key's %d bytes there, or move it away to get a new one", KeySize)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &KeyError{Path: path, Err: err, Msg: fmt.Sprintf("key file: %s", err)}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, &KeyError{Path: path, Err: err, Msg: fmt.Sprintf("key file: %s", err)}
	}
	switch mode := fi.Mode(); {
	case runtime.GOOS != "windows" && mode.Perm()&0o077 != 0:
		// Windows has no such modes: the folder's permissions apply there.
		return bad("is accessible to other users (mode %04o): run chmod 600 on it; if others may have read it, sign "+
			"out of all upstreams and move it away", mode.Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, KeySize+1))
	if err != nil {
		return nil, &KeyError{Path: path, Err: err, Msg: fmt.Sprintf("key file: %s", err)}
	}
	if len(b) != KeySize {
		return bad("must have %d bytes: restore it from a backup; if there is none, move it away to get a new one, "+
			"and sign in again", KeySize)
	}
	return NewKey(b)
}

// createKey creates a key file atomically: once it is visible, it is complete. The error is
// fs.ErrExist if another process created it first.
func createKey(path string) (err error) {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // it never fails: it crashes the process instead
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b[:])
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike rename, link replaces nothing
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && runtime.GOOS != "windows" { // folders can't be synced on Windows
		return err
	}
	return nil
}
