package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	format       = 1
	manifestName = "manifest.json"
	maxManifest  = 64 << 20
	maxFiles     = 1_000_000
)

// A Manifest describes an archive.
type Manifest struct {
	Format     int       `json:"format"`
	Version    string    `json:"version"` // of Biplane
	Created    time.Time `json:"created"`
	Checkpoint string    `json:"checkpoint"` // of the record, which the archive has at least
	Files      []File    `json:"files"`
}

// A File is a file of an archive.
type File struct {
	Path   string `json:"path"` // below the data folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// WriteArchive writes a folder that CopyFolder made. It fills in the files of m.
func WriteArchive(folder string, m *Manifest, w io.Writer, to ...age.Recipient) error {
	m.Format, m.Files = format, nil
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := digestFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		f.Path = filepath.ToSlash(rel)
		m.Files = append(m.Files, f)
		return err
	})
	if err != nil {
		return err
	}
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return err
	}
	out := tar.NewWriter(sealed)
	head, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(head))}); err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := appendFile(out, folder, f); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), sealed.Close())
}

func digestFile(path string) (f File, err error) {
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	h := sha256.New()
	f.Size, err = io.Copy(h, in)
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return f, err
}

func appendFile(out *tar.Writer, folder string, f File) error {
	in, err := os.Open(filepath.Join(folder, filepath.FromSlash(f.Path)))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := out.WriteHeader(&tar.Header{Name: f.Path, Mode: 0o600, Size: f.Size}); err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// ReadArchive writes the files of an archive into an empty folder, and syncs them. It returns an
// error unless every file is there with its digest.
func ReadArchive(r io.Reader, folder string, with ...age.Identity) (*Manifest, error) {
	plain, err := age.Decrypt(r, with...)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the backup can't be decrypted: %w", err)
	}
	in := tar.NewReader(plain)
	m, err := readManifest(in)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the backup is damaged: %w", err)
	}
	for _, f := range m.Files {
		if err := extractFile(in, folder, f); err != nil {
			return nil, tool.Errorf(tool.Invalid, "the backup is damaged: %s: %w", f.Path, err)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		return nil, tool.Errorf(tool.Invalid, "the backup is damaged: it has more than its list of files says")
	}
	if _, err := io.Copy(io.Discard, plain); err != nil { // age authenticates the end, too
		return nil, tool.Errorf(tool.Invalid, "the backup is damaged: %w", err)
	}
	return m, nil
}

func readManifest(in *tar.Reader) (*Manifest, error) {
	h, err := in.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return nil, errors.New("it doesn't begin with a list of its files")
	}
	var m Manifest
	if err := json.NewDecoder(in).Decode(&m); err != nil {
		return nil, err
	}
	if m.Format != format {
		return nil, errors.New("it was written by a newer biplane")
	}
	if len(m.Files) > maxFiles {
		return nil, errors.New("it has too many files")
	}
	for _, f := range m.Files {
		name := f.Path
		if folder, file, ok := strings.Cut(f.Path, "/"); ok && (folder == blobFolder || folder == segment.Folder) {
			name = file
		}
		if !filepath.IsLocal(f.Path) || strings.ContainsAny(name, `/\:`) || f.Size < 0 {
			return nil, errors.New("it names a file outside of the data folder")
		}
	}
	return &m, nil
}

func extractFile(in *tar.Reader, folder string, f File) error {
	h, err := in.Next()
	if err != nil {
		return err
	}
	if h.Name != f.Path || h.Size != f.Size || h.Typeflag != tar.TypeReg {
		return errors.New("another file is in its place")
	}
	path := filepath.Join(folder, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, digest), in)
	if err == nil && hex.EncodeToString(digest.Sum(nil)) != f.SHA256 {
		err = errors.New("its digest is wrong")
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
