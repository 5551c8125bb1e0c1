package function

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A manifest is the part of a package.json that determines what an import means.
type manifest struct {
	Exports json.RawMessage `json:"exports"`
	Module  string          `json:"module"`
	Main    string          `json:"main"`
}

// findPackage returns the file of an imported package: from a node_modules of the folder or, if the
// folder has none, Biplane's own module.
func (b *bundler) findPackage(spec, dir string) (to, space string, err error) {
	parts := strings.SplitN(spec, "/", 3)
	n := 1
	if strings.HasPrefix(spec, "@") && len(parts) > 1 {
		n = 2
	}
	name := strings.Join(parts[:n], "/")
	rest := "." + strings.TrimPrefix(spec, name)
	for at := dir; ; at = path.Dir(at) {
		home := path.Join(at, "node_modules", name)
		if b.isFile(home + "/package.json") {
			found, err := b.packageFile(home, rest)
			return found, filesSpace, err
		}
		if at == "." || at == "/" {
			break
		}
	}
	if ownModules.Has(spec) {
		return spec, ownSpace, nil
	}
	return "", "", fmt.Errorf("there is no package %q in the folder's node_modules; without packages a tool can "+
		"import zod, biplane and node:fs/promises, path, util, url, crypto, buffer", name)
}

// packageFile returns the file of the package in home that a subpath ("." or "./sub") refers to.
func (b *bundler) packageFile(home, sub string) (string, error) {
	var m manifest
	raw, err := readText(b.folder, home+"/package.json", maxFile)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return "", fmt.Errorf("%s/package.json is invalid: %w", home, err)
	}
	var candidates []string
	switch {
	case len(m.Exports) > 0:
		candidates = []string{exportTarget(m.Exports, sub)}
	case sub == ".":
		candidates = []string{m.Module, m.Main, "index"}
	default:
		candidates = []string{sub}
	}
	for _, c := range candidates {
		at := path.Join(home, c)
		if c == "" || !strings.HasPrefix(at, home) {
			continue
		}
		if found := b.findFile(at); found != "" {
			return found, nil
		}
	}
	return "", fmt.Errorf("the package in %s has no module %q", home, sub)
}

// conditions are the keys of package.json's exports that apply, as in a bundler for browsers.
var conditions = lazily.Words(`import module default`)

// exportTarget returns what the exports of a package.json map a subpath to, or "".
func exportTarget(exports json.RawMessage, sub string) string {
	var byPath map[string]json.RawMessage
	if json.Unmarshal(exports, &byPath) != nil || !hasPaths(byPath) {
		if sub != "." {
			return ""
		}
		return conditionTarget(exports, 0)
	}
	if t, ok := byPath[sub]; ok {
		return conditionTarget(t, 0)
	}
	for pattern, t := range byPath {
		before, after, star := strings.Cut(pattern, "*")
		if star && strings.HasPrefix(sub, before) && strings.HasSuffix(sub, after) &&
			len(sub) > len(before)+len(after) {
			middle := strings.TrimSuffix(strings.TrimPrefix(sub, before), after)
			return strings.ReplaceAll(conditionTarget(t, 0), "*", middle)
		}
	}
	return ""
}

func hasPaths(m map[string]json.RawMessage) bool {
	for k := range m {
		if strings.HasPrefix(k, ".") {
			return true
		}
	}
	return false
}

// conditionTarget returns the first target whose conditions apply, in the order of the file.
func conditionTarget(raw json.RawMessage, depth int) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if depth < 8 && json.Unmarshal(raw, &list) == nil {
		for _, r := range list {
			if t := conditionTarget(r, depth+1); t != "" {
				return t
			}
		}
		return ""
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || depth >= 8 {
		return ""
	}
	for d.More() {
		k, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return ""
		}
		if key, _ := k.(string); conditions.Has(key) {
			if t := conditionTarget(v, depth+1); t != "" {
				return t
			}
		}
	}
	return ""
}
