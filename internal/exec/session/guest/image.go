package guest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ImageName returns the name of the image that sandboxes are created from, or "" for the default.
func (s *Source) ImageName() string { return s.image }

// useImage returns a source of the same kind whose sandboxes are created from an image.
func (s *Source) useImage(name string) *Source {
	return &Source{kind: s.kind, cfg: s.cfg, caps: s.caps, image: name}
}

// listImages returns the images of a kind.
func (s *Source) listImages() ([]sandbox.Image, error) {
	i, ok := s.kind.Driver.(sandbox.Imager)
	if !ok {
		return nil, nil
	}
	return i.ListImages()
}

// withImage returns the capabilities of sandboxes created from the image that a need names.
func (s *Source) withImage(caps sandbox.Capabilities, n Need) (sandbox.Capabilities, error) {
	if _, ok := s.kind.Driver.(sandbox.Imager); !ok {
		return caps, tool.Errorf(tool.Invalid, "it has no images")
	}
	all, err := s.listImages()
	if err != nil {
		return caps, err
	}
	i := slices.IndexFunc(all, func(i sandbox.Image) bool { return i.Name == n.Image })
	switch {
	case i < 0 && len(all) == 0:
		return caps, tool.Errorf(tool.NotFound, "there is no image %q, and no other: biplane image build makes one",
			n.Image)
	case i < 0:
		return caps, tool.Errorf(tool.NotFound, "there is no image %q, only %s", n.Image, listNames(all))
	case !all[i].Built:
		return caps, tool.Errorf(tool.Unavailable, "image %q isn't built yet: the user can build it with biplane "+
			"image build %s", n.Image, n.Image)
	case all[i].Tier > caps.Tier:
		return caps, tool.Errorf(tool.Unavailable, "image %q is for tier %s", n.Image, all[i].Tier)
	}
	return addImage(caps, all[i], runtimes[n.Language]), nil
}

// addImage returns capabilities with what an image has.
func addImage(caps sandbox.Capabilities, i sandbox.Image, runtime string) sandbox.Capabilities {
	modules := i.Modules[runtime]
	if i.Host {
		modules = slices.Concat(modules, caps.Modules[runtime])
	}
	caps.Runtimes, caps.Modules = i.Runtimes, map[string][]string{runtime: modules}
	return caps
}

// chooseLanguage returns the cheapest source of sandboxes of an image that has the language of a
// need, with their capabilities, or nil. It is for a language that the host lacks.
func (s *Sources) chooseLanguage(ctx context.Context, n Need) (*Source, sandbox.Capabilities) {
	if n.Image != "" || n.Kind != "" {
		return nil, sandbox.Capabilities{}
	}
	for _, src := range s.all {
		all, err := src.listImages()
		if err != nil || src.kind.Tier < n.Tier {
			continue
		}
		for _, i := range all {
			n.Image = i.Name
			if caps, m := src.checkNeed(ctx, n); m == nil {
				return src.useImage(i.Name), caps
			}
		}
	}
	return nil, sandbox.Capabilities{}
}

func listNames(all []sandbox.Image) string {
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}

// findImporter returns a source of sandboxes of the first image that has all wanted modules, with
// their capabilities, or nil.
func (s *Source) findImporter(caps sandbox.Capabilities, n Need, wanted []string) (*Source, sandbox.Capabilities) {
	all, err := s.listImages()
	if err != nil {
		return nil, caps // the program learns of the missing module
	}
	for _, i := range all {
		runtime := runtimes[n.Language]
		with := addImage(caps, i, runtime)
		if i.Built && i.Tier <= caps.Tier && slices.Contains(i.Runtimes, runtime) &&
			len(without(wanted, with.Modules[runtime])) == 0 {
			return s.useImage(i.Name), with
		}
	}
	return nil, caps
}

// ListImages returns the images of all kinds, by name.
func (s *Sources) ListImages(context.Context) ([]sandbox.Image, error) {
	var out []sandbox.Image
	for _, src := range s.all {
		all, err := src.listImages()
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// WarmImage starts a sandbox of an image ahead, for programs in a language. It is of the cheapest
// kind that has the image.
func (s *Sources) WarmImage(ctx context.Context, image, language string) (sandbox.Warmth, error) {
	if language == "javascript" {
		language = "typescript"
	}
	if runtimes[language] == "" {
		return sandbox.Warmth{}, tool.Errorf(tool.Invalid, "there is no language %q, only %s", text.Cut(language, 40),
			strings.Join(slices.Sorted(maps.Keys(runtimes)), ", "))
	}
	src, _, err := s.ChooseSource(ctx, Need{Language: language, Image: image})
	if err != nil {
		return sandbox.Warmth{}, err
	}
	w, ok := src.kind.Driver.(sandbox.Warmer)
	if !ok {
		return sandbox.Warmth{}, tool.Errorf(tool.Unavailable, "sandboxes of kind %s aren't started ahead",
			src.KindName())
	}
	return w.WarmImage(ctx, src.spec(language, ""))
}
