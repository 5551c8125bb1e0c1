package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
)

const (
	librariesTime   = 10 * time.Minute // to compile the libraries of a language
	librariesMemory = 1 << 30
	librariesAge    = 90 * 24 * time.Hour
)

// A library is the compiled libraries of a language and a compiler, in a folder of the host. A
// sandbox that runs nothing but the compiler makes them. All later ones can read them.
type library struct {
	done chan struct{}
	err  error
}

// findLibraries returns the folder with the compiled libraries for sandboxes of a runtime, and
// compiles them if that was not done yet. It returns "" if there are none: then each sandbox
// compiles what it needs.
func (d *Driver) findLibraries(ctx context.Context, spec sandbox.Spec, path string, lease *image.Lease) string {
	if d.cfg.Libraries == "" || spec.Runtime != "go" && spec.Runtime != "rust" {
		return ""
	}
	folder := filepath.Join(d.cfg.Libraries, spec.Runtime+"-"+d.identifyCompiler(path, lease))
	d.mu.Lock()
	l := d.libraries[folder]
	if l == nil && !d.closed {
		l = &library{done: make(chan struct{})}
		d.libraries[folder] = l
		d.fills.Go(func() {
			if l.err = d.makeLibraries(folder, spec, path); l.err != nil {
				d.cfg.Log.Warn("libraries not compiled ahead", "language", spec.Runtime, "error", l.err)
			}
			close(l.done)
		})
	}
	d.mu.Unlock()
	if l == nil {
		return ""
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return ""
	}
	if l.err != nil {
		return ""
	}
	return folder
}

// identifyCompiler returns what distinguishes a compiler, with the clients of this program, from
// others.
func (d *Driver) identifyCompiler(path string, lease *image.Lease) string {
	h := sha256.New()
	fmt.Fprintln(h, path, lease.ContentID(), shell.ClientDigest())
	for _, file := range []string{path, filepath.Join(filepath.Dir(path), "../VERSION")} { // of Go
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// removeOldLibraries removes libraries that were made long ago: their compilers may be gone. A
// program whose libraries are removed compiles them itself.
func (d *Driver) removeOldLibraries() {
	entries, _ := os.ReadDir(d.cfg.Libraries) // it was just made
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > librariesAge {
			_ = os.RemoveAll(filepath.Join(d.cfg.Libraries, e.Name())) // the next compilation tries again
		}
	}
}

// makeLibraries compiles the libraries of a language into a folder.
func (d *Driver) makeLibraries(folder string, spec sandbox.Spec, path string) (err error) {
	if _, err := os.Stat(folder); err == nil {
		return nil // by an earlier process
	}
	if err := os.MkdirAll(d.cfg.Libraries, 0o700); err != nil {
		return err
	}
	d.removeOldLibraries()
	dir, err := os.MkdirTemp(d.cfg.Libraries, "new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	to := filepath.Join(dir, "root")
	user := sandboxUser()
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(to, user.UID, user.GID); err != nil {
			return err
		}
	}
	lease, err := d.useImage(spec)
	if err != nil {
		return err
	}
	own := sandbox.Spec{Runtime: spec.Runtime, Memory: librariesMemory, Image: spec.Image}
	b, err := d.startKept(d.closing, &box{d: d, spec: own, image: lease, libraries: to, makes: true}, path)
	if err != nil {
		return err
	}
	if err := errors.Join(b.prepareGuest(nil, librariesTime), b.Close()); err != nil {
		return err
	}
	if err := os.Rename(to, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
