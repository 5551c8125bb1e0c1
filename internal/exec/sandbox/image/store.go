package image

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Store keeps images in a folder. Several processes may use one. It is safe for concurrent use.
type Store struct {
	folder    string
	described map[string]Description
}

// Config configures a Store.
type Config struct {
	Folder    string                 // it is created when an image is built
	Described map[string]Description // images of the configuration, by name
}

// NewStore returns a Store.
func NewStore(cfg Config) *Store { return &Store{cfg.Folder, cfg.Described} }

// An Image is an image as sandboxes use it.
type Image struct {
	Manifest
	Use
	Described bool // the configuration describes it
	// Outdated means that the configuration describes other content than was built.
	Outdated bool
}

// IsBuilt reports whether the image can be used.
func (i *Image) IsBuilt() bool { return i.Digest != "" || !i.Description.HasContent() }

// DescribeImage returns the description of an image in the configuration.
func (s *Store) DescribeImage(name string) (Description, bool) {
	d, ok := s.described[name]
	return d, ok
}

// ListImages returns all images by name, also unbuilt ones of the configuration.
func (s *Store) ListImages() ([]*Image, error) {
	names := map[string]bool{}
	for name := range s.described {
		names[name] = true
	}
	entries, err := os.ReadDir(filepath.Join(s.folder, "names"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && CheckName(name) == nil {
			names[name] = true
		}
	}
	var out []*Image
	for _, name := range slices.Sorted(maps.Keys(names)) {
		i, err := s.FindImage(name)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// maxManifest is the largest manifest that is read, in bytes.
const maxManifest = 16 << 20

// FindImage returns an image by its name. It may not be built.
func (s *Store) FindImage(name string) (*Image, error) {
	if err := CheckName(name); err != nil {
		return nil, tool.Errorf(tool.Invalid, "image: %w", err)
	}
	i := &Image{}
	d, described := s.described[name]
	m, err := s.readManifest(name)
	switch {
	case err == nil:
		i.Manifest = m
	case !errors.Is(err, fs.ErrNotExist):
		return nil, tool.Errorf(tool.Internal, "image %q: read its manifest: %w", name, err)
	case !described:
		return nil, tool.Errorf(tool.NotFound, "there is no image %q: biplane image list shows the images, "+
			"biplane image build %s makes one", name, name)
	}
	if described {
		i.Described, i.Outdated = true, err == nil && !m.SameContent(d)
		i.Use = d.Use
		if err != nil {
			i.Manifest = Manifest{Name: name, Description: d, Host: d.OCI == ""}
		}
	}
	i.Use.Environment = mergeTexts(i.Manifest.Environment, i.Use.Environment)
	i.Tier = max(i.Tier, tool.Process)
	return i, nil
}

// mergeTexts returns the entries of both maps; b's win.
func mergeTexts(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

func (s *Store) readManifest(name string) (m Manifest, err error) {
	path := s.manifestPath(name)
	info, err := os.Stat(path)
	if err != nil {
		return m, err
	}
	if info.Size() > maxManifest {
		return m, errors.New("it is too large")
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil && (len(m.Digest) != digestLength || strings.Trim(m.Digest, "0123456789abcdef") != "") {
		err = errors.New("it has no valid digest")
	}
	m.Name = name
	return m, err
}

// digestLength is the number of digits of a digest.
const digestLength = 64

func (s *Store) manifestPath(name string) string {
	return filepath.Join(s.folder, "names", name+".json")
}

// treePath returns the folder of a tree.
func (s *Store) treePath(digest string) string { return filepath.Join(s.folder, "trees", digest) }

// encodeManifest returns what a manifest's file has. One that is too large couldn't be read again:
// content from elsewhere decides on the names of its modules.
func encodeManifest(m Manifest) ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "\t")
	if err == nil && len(b) >= maxManifest {
		err = tool.Errorf(tool.Limit, "the image has too many modules, or too long names of them")
	}
	return append(b, '\n'), err
}

// writeManifest makes a tree an image.
func (s *Store) writeManifest(m Manifest) error {
	b, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.folder, "names"), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(s.manifestPath(m.Name), b, 0o600)
}

// RemoveImage removes an image, and its tree unless another image has it. It fails while a sandbox
// uses the tree.
func (s *Store) RemoveImage(name string) error {
	i, err := s.FindImage(name)
	switch {
	case err != nil:
		return err
	case i.Digest == "":
		return tool.Errorf(tool.NotFound, "image %q isn't built: remove it from sandbox.images in the configuration",
			name)
	}
	switch n, err := s.countUses(i.Digest); {
	case err != nil:
		return err
	case n > 1:
		return os.Remove(s.manifestPath(name))
	}
	lock, err := lockFile(filepath.Join(s.treePath(i.Digest), lockName), exclusive)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tool.Errorf(tool.Conflict, "image %q is used by a sandbox: end its sessions first "+
			"(biplane sessions list), or wait until sandboxes that were started ahead end", name)
	}
	defer releaseLock(lock)
	if err := os.Remove(s.manifestPath(name)); err != nil {
		return err
	}
	if s.mayHaveUse(i.Digest) { // of an image that was built meanwhile
		return nil
	}
	return removeTree(s.treePath(i.Digest))
}

// countUses returns how many images may have a tree. An image whose manifest can't be read may have
// any of them.
func (s *Store) countUses(digest string) (n int, err error) {
	entries, err := os.ReadDir(filepath.Join(s.folder, "names"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || CheckName(name) != nil {
			continue
		}
		m, err := s.readManifest(name)
		if err == nil && m.Digest == digest || err != nil && !errors.Is(err, fs.ErrNotExist) {
			n++
		}
	}
	return n, nil
}

// A Lease is an image in use. Its tree is kept until EndUse.
type Lease struct {
	*Image
	Root string // folder with the tree's files; empty: the image is the host's /usr
	lock *os.File
}

// UseImage returns a lease of an image.
func (s *Store) UseImage(name string) (*Lease, error) {
	for range 10 { // a build may replace the tree meanwhile
		i, err := s.FindImage(name)
		switch {
		case err != nil:
			return nil, err
		case !i.IsBuilt():
			return nil, tool.Errorf(tool.Unavailable, "image %q isn't built yet: run biplane image build %s",
				name, name)
		case i.Digest == "":
			return &Lease{Image: i}, nil
		}
		tree := s.treePath(i.Digest)
		lock, err := lockFile(filepath.Join(tree, lockName), shared)
		if err == nil {
			if _, err = os.Stat(filepath.Join(tree, rootName)); err == nil {
				return &Lease{Image: i, Root: filepath.Join(tree, rootName), lock: lock}, nil
			}
			_ = releaseLock(lock) // the tree is gone
		}
	}
	return nil, tool.Errorf(tool.Unavailable, "image %q is damaged: its files are missing. Build it again with "+
		"biplane image build %s", name, name)
}

// EndUse ends the use of the image.
func (l *Lease) EndUse() error {
	if l == nil || l.lock == nil {
		return nil
	}
	return releaseLock(l.lock)
}

// ContentID returns an ID of the image's content.
func (l *Lease) ContentID() string {
	if l == nil {
		return ""
	}
	return cmp.Or(l.Digest, l.Name)
}

const (
	rootName = "root" // of a tree: its files
	lockName = "lock"
)
