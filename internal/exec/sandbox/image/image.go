// Package image keeps sandbox images: the file systems that sandboxes are created from. An image is
// a tree of files with a manifest. It is complete, or a layer above the host's /usr. Trees are
// named by the digest of their content, so two images with the same content share one.
//
// The folder of a Store has these entries:
//
//	names/<name>.json   the manifest of an image; replaced atomically
//	trees/<digest>/     a tree: root/ has its files, lock is locked by what uses it
//	volumes/<name>/     a named volume, or one for each owner
//	new-*/              a tree that is being built, locked by its builder
//
// A process that dies leaves at most a new-* folder, which the next build removes.
package image

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Description lists the content of an image, and how sandboxes use it. It is read from the
// configuration or the command line.
type Description struct {
	// Python, Node and Packages are installed: Debian's packages of Python modules, npm packages,
	// and other Debian packages.
	Python   []string `json:"python,omitempty"`
	Node     []string `json:"node,omitempty"`
	Packages []string `json:"packages,omitempty"`
	// OCI is the path of an OCI layout or archive, which then replaces the host's /usr.
	OCI string `json:"oci,omitempty"`
	// From is the ID of the sandbox whose packages were copied. The configuration can't set it.
	From string `json:"from,omitempty"`

	Use `json:"-"`
}

// HasContent reports whether there is something to build: otherwise the image is the host's /usr.
func (d Description) HasContent() bool {
	return len(d.Python)+len(d.Node)+len(d.Packages) > 0 || d.OCI != "" || d.From != ""
}

// SameContent reports whether two descriptions build the same image.
func (d Description) SameContent(other Description) bool {
	return slices.Equal(d.Python, other.Python) && slices.Equal(d.Node, other.Node) &&
		slices.Equal(d.Packages, other.Packages) && d.OCI == other.OCI && d.From == other.From
}

// A Use describes how sandboxes use an image. It can change without a build.
type Use struct {
	Tier        tool.Tier // the weakest tier at which its programs run
	Warm        []string  // Python modules to import in advance, in standby sandboxes
	Environment map[string]string
	Mounts      []Mount
}

// A Mount is a folder in a sandbox that isn't its own.
type Mount struct {
	Target   string // absolute path in the sandbox
	Folder   string // absolute path of a folder of the host; empty: a volume
	Volume   string // name of a volume; empty: a folder
	Shared   bool   // of a volume: all owners have the same, instead of one each
	ReadOnly bool   // always true for a folder of the host
	Limit    int64  // bytes that a volume may have
}

// A Manifest describes an image that has been built.
type Manifest struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of the tree, in hexadecimal
	Host   bool   `json:"host"`   // the tree is a layer above the host's /usr
	Description
	Built        time.Time           `json:"built"`
	Bytes        int64               `json:"bytes"`
	Files        int                 `json:"files"`
	Modules      map[string][]string `json:"modules,omitempty"`      // by runtime
	Interpreters map[string]string   `json:"interpreters,omitempty"` // paths in the tree by runtime
	Environment  map[string]string   `json:"environment,omitempty"`  // what the image sets
	Installed    []string            `json:"installed,omitempty"`    // packages, with versions
}

// namePattern matches the names of images and volumes.
var namePattern = lazily.Regexp(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckName returns an error if a name of an image or a volume is invalid.
func CheckName(name string) error {
	if !namePattern.Get().MatchString(name) {
		return tool.Errorf(tool.Invalid, "invalid name %q: write lower-case letters, digits, dots, underscores and "+
			"hyphens, at most 63, beginning with a letter or a digit", name)
	}
	return nil
}

// packagePattern matches names of packages and modules, with a version after = or @.
var packagePattern = lazily.Regexp(`^@?[A-Za-z0-9][A-Za-z0-9._+/-]{0,120}([=@][A-Za-z0-9.+:~^-]{1,60})?$`)

// CheckPackage returns an error if a name of a package or a module is invalid.
func CheckPackage(name string) error {
	if !packagePattern.Get().MatchString(name) || strings.Contains(name, "..") {
		return tool.Errorf(tool.Invalid, "invalid name of a package %q", name)
	}
	return nil
}

// taken are folders of a sandbox in which nothing can be mounted.
const taken = "bin boot biplane dev etc home lib lib32 lib64 libx32 node_modules proc root run sbin skills sys tmp " +
	"usr workspace"

// CheckTarget returns an error if nothing can be mounted at a path of a sandbox.
func CheckTarget(target string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
	switch {
	case !path.IsAbs(target) || path.Clean(target) != target || target == "/" || len(target) > 200 ||
		strings.ContainsAny(target, "\x00\n"):
		return tool.Errorf(tool.Invalid, "invalid path %q: write an absolute one, such as /data", target)
	case slices.Contains(strings.Fields(taken), first) || strings.HasPrefix(first, "."):
		return tool.Errorf(tool.Invalid, "nothing can be mounted at %s: write a path such as /data, or below /mnt",
			target)
	}
	return nil
}
