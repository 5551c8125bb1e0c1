package config

import (
	"path"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ShownImage is the printable form of an image: the values of its environment are removed.
type ShownImage struct {
	Python   []string          `json:"python,omitempty"`
	Node     []string          `json:"node,omitempty"`
	Packages []string          `json:"packages,omitempty"`
	OCI      string            `json:"oci,omitempty"`
	Tier     string            `json:"tier"`
	Warm     []string          `json:"warm,omitempty"`
	Env      []string          `json:"env,omitempty"`     // names
	Mounts   map[string]string `json:"mounts,omitempty"`  // folders of the host by their paths in the sandbox
	Volumes  map[string]string `json:"volumes,omitempty"` // names by their paths in the sandbox
}

func showImages(all map[string]image.Description) map[string]ShownImage {
	out := map[string]ShownImage{}
	for name, d := range all {
		s := ShownImage{Python: d.Python, Node: d.Node, Packages: d.Packages, OCI: d.OCI, Tier: d.Tier.String(),
			Warm: d.Warm, Env: sortedNames(d.Environment), Mounts: map[string]string{}, Volumes: map[string]string{}}
		for _, m := range d.Mounts {
			if m.Volume != "" {
				s.Volumes[m.Target] = m.Volume
			} else {
				s.Mounts[m.Target] = m.Folder
			}
		}
		out[name] = s
	}
	return out
}

// An imageReader reads the keys of sandbox that are about images. Images refer to the others, so
// they are read last.
type imageReader struct {
	*reader
	mounts  map[string]string      // folders of the host
	volumes map[string]image.Mount // without targets
	nodes   *node                  // of images; nil: there are none
}

func (r *imageReader) readVolumes(n *node) {
	r.volumes = map[string]image.Mount{}
	const what = "sandbox.volumes"
	r.eachEntry(n, what, func(k, v *node) {
		m := image.Mount{Volume: k.text, Limit: image.DefaultVolume}
		if err := image.CheckName(k.text); err != nil {
			r.addProblem(k, "%s: %s", what, err)
		}
		r.readObject(v, what+"."+k.text, key{
			"size":   func(n *node) { m.Limit = r.readSize(n, what+"."+k.text+".size", 1<<20, 1<<40) },
			"shared": func(n *node) { m.Shared = r.readBool(n, what+"."+k.text+".shared") },
		})
		r.volumes[k.text] = m
	})
}

// readImages reads the images, once the folders and volumes are known.
func (r *imageReader) readImages(s *Sandbox) {
	if r.nodes == nil {
		return
	}
	s.Images = map[string]image.Description{}
	r.eachEntry(r.nodes, "sandbox.images", func(k, v *node) {
		if err := image.CheckName(k.text); err != nil {
			r.addProblem(k, "sandbox.images: %s", err)
		}
		s.Images[k.text] = r.readImage(k, v, "sandbox.images."+k.text, s)
	})
}

func (r *imageReader) readImage(at, n *node, what string, s *Sandbox) image.Description {
	d := image.Description{Use: image.Use{Tier: tool.Process}}
	r.readObject(n, what, key{
		"python":   func(n *node) { d.Python = r.readNames(n, what+".python") },
		"node":     func(n *node) { d.Node = r.readNames(n, what+".node") },
		"packages": func(n *node) { d.Packages = r.readNames(n, what+".packages") },
		"oci":      func(n *node) { d.OCI = r.readDir(n, what+".oci") },
		"warm":     func(n *node) { d.Warm = r.readNames(n, what+".warm") },
		"env":      func(n *node) { d.Environment = r.textMap(n, what+".env") },
		"tier": func(n *node) {
			t, err := tool.ParseTier(r.readText(n, what+".tier"))
			switch {
			case err != nil:
				r.addProblem(n, "%s.tier: %s", what, err)
			case t == tool.WASM || t > s.Strongest:
				r.addProblem(n, "%s.tier can't be %s: images are for %s, the strongest tier of this build is %s", what,
					t, tool.Process, s.Strongest)
			}
			d.Tier = max(t, tool.Process)
		},
		"mounts": func(n *node) {
			r.readTargets(n, what+".mounts", &d, "sandbox.mounts", func(name string) (image.Mount, bool) {
				folder, ok := r.mounts[name]
				return image.Mount{Folder: folder, ReadOnly: true}, ok
			})
		},
		"volumes": func(n *node) {
			r.readTargets(n, what+".volumes", &d, "sandbox.volumes", func(name string) (image.Mount, bool) {
				m, ok := r.volumes[name]
				return m, ok
			})
		},
	})
	if d.OCI != "" && len(d.Python)+len(d.Node)+len(d.Packages) > 0 {
		r.addProblem(at, "%s has oci, which is a whole system: put its packages into that image, and remove python, "+
			"node and packages here", what)
	}
	return d
}

// readNames reads names of packages or modules.
func (r *imageReader) readNames(n *node, what string) []string {
	var out []string
	for _, name := range r.readTexts(n, what) {
		if err := image.CheckPackage(name); err != nil {
			r.addProblem(n, "%s: %s", what, err)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readTargets reads what an image mounts: a map from names to paths in the sandbox, or a list of
// names, which are then below /mnt.
func (r *imageReader) readTargets(n *node, what string, d *image.Description, from string,
	find func(name string) (image.Mount, bool)) {
	add := func(at *node, name, target string) {
		m, ok := find(name)
		m.Target = target
		err := image.CheckTarget(target)
		switch {
		case !ok:
			r.addProblem(at, "%s: there is no %s.%s in the configuration", what, from, clipText(name))
		case err != nil:
			r.addProblem(at, "%s.%s: %s", what, name, err)
		case slices.ContainsFunc(d.Mounts, func(o image.Mount) bool {
			return strings.HasPrefix(o.Target+"/", target+"/") || strings.HasPrefix(target+"/", o.Target+"/")
		}):
			r.addProblem(at, "%s.%s: another folder or volume is mounted at %s, or below or above it", what, name,
				target)
		default:
			d.Mounts = append(d.Mounts, m)
		}
	}
	if n.kind == listNode {
		for _, name := range r.readTexts(n, what) {
			add(n, name, path.Join("/mnt", name))
		}
		return
	}
	r.eachEntry(n, what, func(k, v *node) { add(k, k.text, r.readText(v, what+"."+k.text)) })
}
