package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A bom is a list of components: CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). It has no
// serial number, so that the same release has the same list.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type        string     `json:"type"`
	Ref         string     `json:"bom-ref"`
	Name        string     `json:"name"`
	Version     string     `json:"version,omitempty"`
	Description string     `json:"description,omitempty"`
	PURL        string     `json:"purl,omitempty"`
	Hashes      []hash     `json:"hashes,omitempty"`
	Properties  []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// listComponents returns what is in the binary of a target: Go's standard library and modules, as
// the binary itself names them, and the folders of third_party.
func (r *release) listComponents(t target, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the modules of the binary: %w", err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	out := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{
		Timestamp: r.made.Format(time.RFC3339),
		Component: component{Type: "application", Ref: "biplane", Name: "biplane", Version: r.version,
			Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Properties: []property{{"target", t.name}}},
	}}
	version := strings.TrimPrefix(info.GoVersion, "go")
	out.Components = append(out.Components, component{Type: "library", Ref: "go", Name: "std", Version: version,
		PURL: packageURL("std", version)})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: packageURL(m.Path, m.Version)}
		c.Ref = c.PURL
		if m.Sum != "" { // of the module's files, as in go.sum
			c.Properties = []property{{"go.sum", m.Sum}}
		}
		out.Components = append(out.Components, c)
	}
	others, err := listThirdParty()
	if err != nil {
		return nil, err
	}
	out.Components = append(out.Components, others...)
	b, err := json.MarshalIndent(out, "", "  ")
	return append(b, '\n'), err
}

// packageURL returns the URL of a Go module (https://github.com/package-url/purl-spec).
func packageURL(path, version string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "pkg:golang/" + strings.Join(parts, "/") + "@" + url.PathEscape(version)
}

// listThirdParty returns the components below third_party, each with the rows of its ORIGIN.md.
func listThirdParty() (out []component, err error) {
	origins, err := filepath.Glob("third_party/*/ORIGIN.md")
	if err != nil {
		return nil, err
	}
	if len(origins) == 0 {
		return nil, fmt.Errorf("third_party is not here: run this in the root of the repository")
	}
	slices.Sort(origins)
	for _, path := range origins {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(filepath.Dir(path))
		c := component{Type: "library", Ref: "third_party/" + name, Name: name}
		for line := range strings.Lines(string(b)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if !strings.HasPrefix(line, "|") || len(cells) != 2 {
				continue
			}
			key, value := plainCell(cells[0]), plainCell(cells[1])
			if key != "" && value != "" && strings.Trim(key, "-") != "" {
				c.Properties = append(c.Properties, property{key, value})
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// plainCell returns the text of a cell of a table without its code marks.
func plainCell(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "`", "")) }
