package build

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Source is a sandbox that an image is built from. Its processes stand still meanwhile, but what
// they wrote is hostile.
type Source struct {
	ID       string
	Folder   string       // its files
	Base     *image.Lease // its image; nil: the host's /usr
	MaxBytes int64        // of the files that are copied
	MaxFiles int
	Guard    Guard
}

// A Guard decides whether the data of a sandbox may be put into an image.
type Guard interface {
	// CheckData returns an error if it must not. It is called before anything is copied, and before
	// the image is kept.
	CheckData() error
}

// BuildFrom builds an image from the image of a sandbox and the packages that were installed in its
// home: by pip install --user and npm install. It keeps the image in s under a name.
func BuildFrom(ctx context.Context, s *image.Store, name string, from *Source, p Progress) (image.Manifest, error) {
	if err := image.CheckName(name); err != nil {
		return image.Manifest{}, err
	}
	j := &job{progress: p, m: image.Manifest{Name: name, Description: image.Description{From: from.ID}, Host: true}}
	base := ""
	if b := from.Base; b != nil {
		base = b.Root
		j.m.Host, j.m.Installed, j.m.Environment = b.Host, b.Installed, b.Manifest.Environment
	}
	check := func(context.Context) error { return from.Guard.CheckData() }
	return j.buildTree(ctx, s, check,
		func(ctx context.Context) error { return j.linkBase(ctx, base) },
		func(ctx context.Context) error { return j.copyPackages(ctx, from) }, check)
}

// linkBase adds hard links to the files of another image.
func (j *job) linkBase(ctx context.Context, base string) error {
	if base == "" {
		return nil
	}
	j.progress("beginning with the image of the sandbox")
	return filepath.WalkDir(base, func(file string, e fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name, err := filepath.Rel(base, file)
		if err != nil || name == "." {
			return err
		}
		j.x.files++
		switch {
		case e.IsDir():
			return j.x.root.Mkdir(name, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return j.x.root.Symlink(to, name)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		j.x.bytes += info.Size()
		if os.Link(file, filepath.Join(j.draft.Root, name)) == nil {
			return nil
		}
		return j.copyOwn(file, name, info.Mode()) // it has too many links, for example
	})
}

// copyOwn copies a file of another image.
func (j *job) copyOwn(file, name string, mode fs.FileMode) (err error) {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := j.x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from)
	return err
}

// A part is a folder in which installers put packages.
type part struct {
	from   string // in the home of the sandbox
	to     string // in the image
	within string // folder of the home in which its links must stay
	npm    bool   // its entries are npm packages, which replace those of the same name
}

// listParts returns the parts of a sandbox. versions are the folders in .local/lib.
func (j *job) listParts(versions []string) []part {
	parts := []part{
		{from: ".local/bin", to: "usr/local/bin", within: ".local"},
		{from: ".local/lib/node_modules", to: "usr/local/lib/node_modules", within: ".local", npm: true},
		{from: "node_modules", to: nodeFolder, within: "node_modules", npm: true},
	}
	for _, v := range versions {
		number, ok := strings.CutPrefix(v, "python3.")
		if ok && number != "" && strings.Trim(number, "0123456789") == "" {
			parts = append(parts, part{from: ".local/lib/" + v + "/site-packages", to: j.packageFolder(v),
				within: ".local"})
		}
	}
	return parts
}

// packageFolder returns the folder of the image in which its Python finds packages of a version,
// such as python3.11.
func (j *job) packageFolder(version string) string {
	prefix := j.pythonPrefix()
	if prefix == "usr" && j.hasDebianPython() {
		return "usr/local/lib/" + version + "/dist-packages"
	}
	return path.Join(prefix, "lib", version, "site-packages")
}

// pythonPrefix returns the folder below which the image's Python is installed: "usr" for
// usr/bin/python3, also if none is found.
func (j *job) pythonPrefix() string {
	for _, at := range searched.Get()["python"] {
		if found, err := j.x.resolveLinks(at, 0); err == nil && found != "" || j.onHost(at) {
			return strings.TrimPrefix(path.Dir(path.Dir(at)), "/")
		}
	}
	return "usr"
}

// hasDebianPython reports whether a Python in usr is Debian's: only that has dist-packages.
func (j *job) hasDebianPython() bool {
	const folder = "usr/lib/python3/dist-packages"
	_, err := j.x.root.Stat(folder)
	return err == nil || j.onHost("/"+folder)
}

// onHost reports whether the image has the host's /usr, and the host has a file.
func (j *job) onHost(name string) bool {
	if !j.m.Host {
		return false
	}
	_, err := os.Stat(name)
	return err == nil
}

// errNoPackages is the error if a sandbox has none of the folders.
var errNoPackages = &tool.Error{Kind: tool.Invalid,
	Msg: "the sandbox has no packages in .local or node_modules of its home: " +
		"install some first, for example by biplane sandboxes exec NAME -- pip install --user PACKAGE"}
