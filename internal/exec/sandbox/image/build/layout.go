package build

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Bounds of what an image's files may contain.
const (
	maxIndexes   = 4         // indexes that are nested
	maxSearched  = 100       // indexes that are read to find the image
	maxJSONBytes = 4 << 20   // of an index, a manifest or a configuration
	maxCommas    = 200_000   // in one: a short member needs 100 times its size in memory
	maxWindow    = 128 << 20 // bytes of memory that a layer of zstd may ask for
)

// A containerImage is an image of an OCI layout, or of an archive of docker save.
type containerImage struct {
	files  fs.FS
	config *v1.ConfigFile
	layers []string // paths in files, the lowest layer first
}

// openImage reads the image for this host. Its layers are not read yet.
func openImage(ctx context.Context, files fs.FS) (*containerImage, error) {
	index, err := readJSONFile(files, "index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return openDockerArchive(files)
	}
	if err != nil {
		return nil, err
	}
	manifest, err := (&manifestSearch{files: files}).findManifest(ctx, index, 0)
	if err != nil {
		return nil, err
	}
	config, err := readBlob(files, manifest.Config.Digest)
	if err != nil {
		return nil, err
	}
	img := &containerImage{files: files}
	for _, l := range manifest.Layers {
		img.layers = append(img.layers, blobPath(l.Digest))
	}
	return img, img.parseConfig(config)
}

// openDockerArchive reads an image that docker save wrote before it wrote OCI layouts.
func openDockerArchive(files fs.FS) (*containerImage, error) {
	list, err := readJSONFile(files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is neither an index.json (OCI) nor a manifest.json (docker save)")
	}
	if err != nil {
		return nil, err
	}
	var saved []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(list, &saved); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if len(saved) != 1 {
		return nil, fmt.Errorf("manifest.json has %d images, want one: save a single image", len(saved))
	}
	config, err := readJSONFile(files, path.Clean(saved[0].Config))
	if err != nil {
		return nil, err
	}
	img := &containerImage{files: files}
	for _, name := range saved[0].Layers {
		if len(name) > maxPath {
			return nil, errors.New("manifest.json has an invalid path of a layer")
		}
		img.layers = append(img.layers, path.Clean(name))
	}
	return img, img.parseConfig(config)
}

func (img *containerImage) parseConfig(data []byte) (err error) {
	if img.config, err = v1.ParseConfigFile(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("the image's configuration: %w", err)
	}
	return nil
}

// A manifestSearch searches the files of an image. Its indexes may refer to each other often.
type manifestSearch struct {
	files fs.FS
	read  int // indexes
}

// findManifest returns the first manifest of an index that is for this host.
func (s *manifestSearch) findManifest(ctx context.Context, index []byte, depth int) (*v1.Manifest, error) {
	if s.read++; s.read > maxSearched {
		return nil, tool.Errorf(tool.Limit, "it has more than %d indexes", maxSearched)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	for _, d := range m.Manifests {
		p := d.Platform
		switch {
		case d.MediaType.IsIndex() && depth < maxIndexes:
			nested, err := readBlob(s.files, d.Digest)
			if err != nil {
				return nil, err
			}
			manifest, err := s.findManifest(ctx, nested, depth+1)
			if err == nil || ctx.Err() != nil || s.read > maxSearched {
				return manifest, err
			}
		case d.MediaType.IsImage() && (p == nil || p.OS == "linux" && p.Architecture == runtime.GOARCH):
			data, err := readBlob(s.files, d.Digest)
			if err != nil {
				return nil, err
			}
			return v1.ParseManifest(bytes.NewReader(data))
		}
	}
	return nil, fmt.Errorf("it has no image for linux/%s", runtime.GOARCH)
}

// blobPath returns the path of a blob in an OCI layout. See
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md#blobs.
func blobPath(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// readBlob reads an index, a manifest or a configuration, and checks its digest.
func readBlob(files fs.FS, h v1.Hash) ([]byte, error) {
	data, err := readJSONFile(files, blobPath(h))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); h.Algorithm != "sha256" || h.Hex != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("blob %s has the digest sha256:%x", h, sum)
	}
	return data, nil
}

// readJSONFile reads a file of bounded size.
func readJSONFile(files fs.FS, name string) (_ []byte, err error) {
	f, err := openRegular(files, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxJSONBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxJSONBytes:
		return nil, tool.Errorf(tool.Limit, "%s has more than %s", name, text.Size(int64(maxJSONBytes)))
	case bytes.Count(data, []byte(",")) > maxCommas:
		return nil, tool.Errorf(tool.Limit, "%s has more than %s commas", name, text.Group(maxCommas))
	}
	return data, nil
}

// openRegular opens a file. To open a pipe would wait for its other end.
func openRegular(files fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return files.Open(name)
}

// openLayer opens the archive of a layer, which is compressed with gzip, with zstd, or not at all.
// The caller calls end.
func (img *containerImage) openLayer(i int) (archive io.Reader, end func() error, err error) {
	f, err := openRegular(img.files, img.layers[i])
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(f)
	magic, err := in.Peek(4)
	switch {
	case err != nil && err != io.EOF:
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
		archive, err = gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, section 3.1.1
		// without concurrency, a decoder holds nothing but memory
		archive, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	default:
		archive, err = in, nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return archive, f.Close, nil
}
