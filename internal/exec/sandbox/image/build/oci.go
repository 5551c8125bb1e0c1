package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxLayers is the maximum number of layers of an image.
const maxLayers = 256

// extractOCI writes the layers of an OCI layout, or of an archive with one, to the tree.
func (j *job) extractOCI(ctx context.Context) error {
	j.progress("reading " + j.d.OCI)
	img, err := j.openOCI(ctx)
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return tool.Errorf(tool.Invalid, "%s: %w", j.d.OCI, err)
	}
	cfg, err := img.ConfigFile()
	switch {
	case err != nil:
		return tool.Errorf(tool.Invalid, "%s: %w", j.d.OCI, err)
	case len(layers) > maxLayers || len(cfg.RootFS.DiffIDs) != len(layers):
		return tool.Errorf(tool.Invalid, "%s has %d layers and %d digests of layers: these must be equal, and at "+
			"most %d",
			j.d.OCI, len(layers), len(cfg.RootFS.DiffIDs), maxLayers)
	case cfg.OS != "linux" || cfg.Architecture != runtime.GOARCH:
		return tool.Errorf(tool.Invalid, "%s is for %s/%s, and this host is linux/%s", j.d.OCI, text.Cut(cfg.OS, 40),
			text.Cut(cfg.Architecture, 40), runtime.GOARCH)
	}
	j.x.layers = true
	for i, l := range layers {
		j.progress(fmt.Sprintf("extracting layer %d of %d", i+1, len(layers)))
		if err := j.extractLayer(ctx, l, cfg.RootFS.DiffIDs[i]); err != nil {
			return fmt.Errorf("%s: layer %d: %w", j.d.OCI, i+1, err)
		}
	}
	j.m.Environment = map[string]string{}
	for _, e := range cfg.Config.Env {
		name, value, ok := strings.Cut(e, "=")
		if ok && name != "" && len(e) < 4096 && !strings.ContainsRune(e, 0) && name != "HOME" {
			j.m.Environment[name] = value
		}
	}
	return nil
}

// extractLayer writes a layer to the tree, and checks that its content has the digest of the
// image's configuration.
func (j *job) extractLayer(ctx context.Context, l v1.Layer, want v1.Hash) (err error) {
	in, err := l.Uncompressed()
	if err != nil {
		return tool.Errorf(tool.Invalid, "%w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	sum := sha256.New()
	all := io.TeeReader(in, sum)
	if err := j.x.extractTar(ctx, all); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(all, 1<<30)); err != nil { // padding
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return tool.Errorf(tool.Invalid, "its content has the digest sha256:%s, the image says %s", got, want)
	}
	return nil
}

// openOCI opens the image for this host.
func (j *job) openOCI(ctx context.Context) (v1.Image, error) {
	info, err := os.Stat(j.d.OCI)
	if err != nil {
		return nil, tool.Errorf(tool.NotFound, "OCI image: %w", err)
	}
	dir := j.d.OCI
	if !info.IsDir() {
		if dir, err = j.unpackArchive(ctx); err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
			img, err := tarball.ImageFromPath(j.d.OCI, nil) // of docker save
			if err != nil {
				return nil, tool.Errorf(tool.Invalid, "%s is neither an OCI archive nor one of docker save: %w",
					j.d.OCI, err)
			}
			return img, nil
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "index.json")); err == nil && info.Size() > maxIndexBytes {
		return nil, tool.Errorf(tool.Limit, "%s: its index.json has %s, at most %s are read", j.d.OCI,
			text.Size(info.Size()), text.Size(int64(maxIndexBytes)))
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "%s is no OCI layout: %w", j.d.OCI, err)
	}
	img, err := chooseImage(index, 0)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "%s: %w", j.d.OCI, err)
	}
	return img, nil
}

// unpackArchive extracts an archive to a scratch folder.
func (j *job) unpackArchive(ctx context.Context) (dir string, err error) {
	scratch, err := j.draft.MakeScratch()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(scratch, "oci")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.Open(j.d.OCI)
	if err != nil {
		return "", err
	}
	defer f.Close()
	x, err := openExtractor(dir)
	if err != nil {
		return "", err
	}
	x.noLinks = true // this process reads the files: a link would lead to those of the host
	defer func() { err = errors.Join(err, x.root.Close()) }()
	return dir, x.extractTar(ctx, f)
}

const (
	maxIndexes    = 4        // indexes that are nested
	maxIndexBytes = 16 << 20 // of index.json
)

// chooseImage returns the first image of an index that is for this host.
func chooseImage(index v1.ImageIndex, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		p := d.Platform
		switch {
		case d.MediaType.IsIndex() && depth < maxIndexes:
			nested, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := chooseImage(nested, depth+1); err == nil {
				return img, nil
			}
		case d.MediaType.IsImage() && (p == nil || p.OS == "linux" && p.Architecture == runtime.GOARCH):
			return index.Image(d.Digest)
		}
	}
	return nil, fmt.Errorf("it has no image for linux/%s", runtime.GOARCH)
}
