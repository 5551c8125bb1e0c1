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

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxLayers is the maximum number of layers of an image.
const maxLayers = 256

// extractOCI writes the layers of an OCI layout, or of an archive with one, to the tree.
func (j *job) extractOCI(ctx context.Context) (err error) {
	j.progress("reading " + j.d.OCI)
	img, folder, err := j.openOCI(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	cfg, layers := img.config, len(img.layers)
	switch {
	case layers > maxLayers || len(cfg.RootFS.DiffIDs) != layers:
		return tool.Errorf(tool.Invalid, "%s has %d layers and %d digests of layers: these must be equal, and at "+
			"most %d", j.d.OCI, layers, len(cfg.RootFS.DiffIDs), maxLayers)
	case cfg.OS != "linux" || cfg.Architecture != runtime.GOARCH:
		return tool.Errorf(tool.Invalid, "%s is for %s/%s, and this host is linux/%s", j.d.OCI, text.Cut(cfg.OS, 40),
			text.Cut(cfg.Architecture, 40), runtime.GOARCH)
	}
	j.x.layers = true
	for i := range layers {
		j.progress(fmt.Sprintf("extracting layer %d of %d", i+1, layers))
		if err := j.extractLayer(ctx, img, i); err != nil {
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
func (j *job) extractLayer(ctx context.Context, img *containerImage, i int) (err error) {
	in, end, err := img.openLayer(i)
	if err != nil {
		return tool.Errorf(tool.Invalid, "%w", err)
	}
	defer func() { err = errors.Join(err, end()) }()
	sum := sha256.New()
	all := io.TeeReader(in, sum)
	if err := j.x.extractTar(ctx, all); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(all, 1<<30)); err != nil { // padding
		return err
	}
	want := img.config.RootFS.DiffIDs[i]
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return tool.Errorf(tool.Invalid, "its content has the digest sha256:%s, the image says %s", got, want)
	}
	return nil
}

// openOCI opens the image for this host. The caller closes the folder of its files.
func (j *job) openOCI(ctx context.Context) (_ *containerImage, folder io.Closer, err error) {
	info, err := os.Stat(j.d.OCI)
	if err != nil {
		return nil, nil, tool.Errorf(tool.Invalid, "the OCI image can't be read: %w", err)
	}
	files, folder := os.DirFS(j.d.OCI), io.NopCloser(nil)
	if !info.IsDir() {
		root, err := j.unpackArchive(ctx)
		if err != nil {
			return nil, nil, err
		}
		files, folder = root.FS(), root
	}
	img, err := openImage(ctx, files)
	if err != nil {
		if ctx.Err() == nil { // an error may have a long text of the image
			err = tool.Errorf(tool.Invalid, "%s: %s", j.d.OCI, text.Cut(err.Error(), 500))
		}
		return nil, nil, errors.Join(err, folder.Close())
	}
	return img, folder, nil
}

// unpackArchive extracts an archive to a scratch folder, and opens it. Links in it can't lead to
// files of the host, since the root follows none that leave the folder.
func (j *job) unpackArchive(ctx context.Context) (*os.Root, error) {
	scratch, err := j.draft.MakeScratch()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "oci")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(j.d.OCI)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x, err := openExtractor(dir)
	if err != nil {
		return nil, err
	}
	if err := x.extractTar(ctx, f); err != nil {
		return nil, errors.Join(err, x.root.Close())
	}
	return x.root, nil
}
