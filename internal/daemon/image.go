package daemon

import (
	"context"
	"path/filepath"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image/build"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openImages returns the images of a data folder, and of the configuration.
func openImages(dataDir string, s *config.Config) *image.Store {
	return image.NewStore(image.Config{Folder: ImageFolder(dataDir), Described: s.Sandbox.Images})
}

// ImageFolder returns the folder of the images of a data folder.
func ImageFolder(dataDir string) string { return filepath.Join(dataDir, "images") }

// Images are the sandbox images of a data folder. They can be used while a process owns the folder.
type Images struct{ store *image.Store }

// NewImages returns the images of a data folder, with those of a configuration.
func NewImages(dataDir string, s *config.Config) *Images { return &Images{openImages(dataDir, s)} }

// ListImages returns all images, by name.
func (i *Images) ListImages() ([]api.Image, error) {
	all, err := i.store.ListImages()
	if err != nil {
		return nil, err
	}
	out := make([]api.Image, 0, len(all))
	for _, m := range all {
		out = append(out, imageOf(m))
	}
	return out, nil
}

// ShowImage returns an image.
func (i *Images) ShowImage(name string) (api.Image, error) {
	m, err := i.store.FindImage(name)
	if err != nil {
		return api.Image{}, err
	}
	return imageOf(m), nil
}

// RemoveImage removes an image that no sandbox uses.
func (i *Images) RemoveImage(name string) error { return i.store.RemoveImage(name) }

// BuildImage builds an image. If the request names no content, it is built as the configuration
// describes it.
func (i *Images) BuildImage(ctx context.Context, name string, r api.ImageContent, progress func(string)) (api.Image,
	error) {
	d := image.Description{Python: r.Python, Node: r.Node, Packages: r.Packages, OCI: r.OCI}
	described, ok := i.store.DescribeImage(name)
	switch {
	case !d.HasContent() && !ok:
		return api.Image{}, tool.Errorf(tool.Invalid, "image %q isn't in the configuration (sandbox.images): name its "+
			"content, for example --python pandas", name)
	case ok && d.HasContent() && !d.SameContent(described):
		return api.Image{}, tool.Errorf(tool.Conflict, "the configuration describes image %q (sandbox.images): build "+
			"it without other content, or under another name", name)
	case ok && !described.HasContent():
		return api.Image{}, tool.Errorf(tool.Invalid, "image %q is the host's /usr, so there is nothing to build", name)
	case ok:
		d = described
	}
	if _, err := build.BuildImage(ctx, i.store, name, d, progress); err != nil {
		return api.Image{}, err
	}
	return i.ShowImage(name)
}

// imageOf converts an image to the API's type.
func imageOf(m *image.Image) api.Image {
	out := api.Image{Name: m.Name, ImageContent: api.ImageContent{Python: m.Python, Node: m.Node, Packages: m.Packages,
		OCI: m.OCI, From: m.From}, Base: "host", State: api.ImageReady, Tier: m.Use.Tier.String(),
		Digest: m.Digest, Bytes: m.Bytes, Files: m.Files, Modules: m.Modules, Installed: m.Installed,
		Warm: m.Warm, Configured: m.Described}
	if !m.Host {
		out.Base = "none"
	}
	if !m.Manifest.Built.IsZero() {
		out.Built = &m.Manifest.Built
	}
	switch {
	case !m.IsBuilt():
		out.State = api.ImageUnbuilt
	case m.Outdated:
		out.State = api.ImageOutdated
	}
	for _, at := range m.Mounts {
		out.Mounts = append(out.Mounts, api.ImageMount{Target: at.Target, Folder: at.Folder, Volume: at.Volume,
			Shared: at.Shared, ReadOnly: at.ReadOnly})
	}
	return out
}
