// Package pin compares tool definitions with the accepted ones, which a lock file holds. A server
// may change a tool's definition at any time, for example after a person has reviewed it. A
// definition that differs from the pinned one needs a person's acceptance.
//
// What a model reads of a definition is pinned: title, description and schemas. Package hint judges
// the hints (MCP ToolAnnotations). A server's instructions are pinned as those of a tool.
package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The limits of a lock file.
const (
	MaxTools = 10_000 // of one server
	maxFile  = 128 << 20
	maxDepth = 200
)

// version is the version of the format.
const version = 1

// A Pin is the accepted definition of one tool.
type Pin struct {
	Digest string `json:"digest"` // DigestOf(Definition)
	// Reviewed means that a person has accepted the definition with its findings. Otherwise it was
	// pinned when it was first seen.
	Reviewed   bool            `json:"reviewed,omitempty"`
	Definition json.RawMessage `json:"definition"` // canonical JSON: see DefinitionOf
}

// A Lock holds the pins of all servers' tools, by the exact names of server and tool.
type Lock struct {
	Version int                        `json:"version"`
	Servers map[string]map[string]*Pin `json:"servers"`
}

// NewLock returns a Lock without pins.
func NewLock() *Lock { return &Lock{Version: version, Servers: map[string]map[string]*Pin{}} }

// ParseLock parses the output of EncodeLock. It returns an error if anything in it is unknown, is
// there twice, or doesn't match its digest.
func ParseLock(data []byte) (*Lock, error) {
	if err := checkNames(json.NewDecoder(bytes.NewReader(data)), 0); err != nil {
		return nil, err
	}
	l := &Lock{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("it has more than one JSON value")
	}
	if l.Version != version {
		return nil, fmt.Errorf("its version is %d, and this Biplane reads version %d", l.Version, version)
	}
	if l.Servers == nil {
		l.Servers = map[string]map[string]*Pin{}
	}
	for server, pins := range l.Servers {
		for name, p := range pins {
			if p == nil {
				return nil, fmt.Errorf("%s.%s has no pin", tool.VisibleLine(server), tool.VisibleLine(name))
			}
			p.Definition = tool.CanonicalJSON(p.Definition)
			if p.Digest != sumOf(p.Definition) {
				return nil, fmt.Errorf("the definition of %s.%s does not match its digest",
					tool.VisibleLine(server), tool.VisibleLine(name))
			}
		}
	}
	return l, nil
}

// checkNames returns an error if an object in a JSON value has a name twice. A merge of two
// versions of a file can cause that, and decoders disagree about its meaning.
func checkNames(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	names := map[string]bool{}
	for d.More() {
		if open == '{' {
			k, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := k.(string)
			if names[name] {
				return fmt.Errorf("the name %q is there twice", tool.VisibleLine(name))
			}
			names[name] = true
		}
		if err := checkNames(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// EncodeLock returns the lock as text: the same for equal locks, with sorted names, and lines that
// can be compared and merged.
func (l *Lock) EncodeLock() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(l); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// FindPin returns the pin of a tool, or nil if there is none.
func (l *Lock) FindPin(t *tool.Tool) *Pin { return l.Servers[t.Upstream][t.Name] }

// SetPin pins a tool as it is defined now.
func (l *Lock) SetPin(t *tool.Tool, reviewed bool) error {
	pins := l.Servers[t.Upstream]
	if pins[t.Name] == nil && len(pins) >= MaxTools {
		return tool.Errorf(tool.Limit, "the lock file has %d tools of server %s, which is the maximum: remove the "+
			"pins of tools that are gone", MaxTools, tool.VisibleLine(t.Upstream))
	}
	if pins == nil {
		pins = map[string]*Pin{}
		l.Servers[t.Upstream] = pins
	}
	def := DefinitionOf(t)
	pins[t.Name] = &Pin{Digest: sumOf(def), Reviewed: reviewed, Definition: def}
	return nil
}

// cloneLock returns a copy that can be changed.
func (l *Lock) cloneLock() *Lock {
	next := &Lock{Version: l.Version, Servers: map[string]map[string]*Pin{}}
	for server, pins := range l.Servers {
		next.Servers[server] = maps.Clone(pins)
	}
	return next
}

// A definition is the pinned part of a tool's definition.
type definition struct {
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// DefinitionOf returns the pinned part of a tool's definition as canonical JSON (RFC 8785).
func DefinitionOf(t *tool.Tool) json.RawMessage {
	raw, err := tool.Marshal(definition{t.Title, t.Description, schemaText(t.InputSchema), schemaText(t.OutputSchema)})
	if err != nil {
		panic(err) // strings and valid JSON can always be marshaled
	}
	return tool.CanonicalJSON(raw)
}

// schemaText returns a schema as valid JSON.
func schemaText(s json.RawMessage) json.RawMessage {
	if len(s) == 0 || json.Valid(s) {
		return s
	}
	quoted, err := tool.Marshal(string(s))
	if err != nil {
		panic(err) // a string can always be marshaled
	}
	return quoted
}

// DigestOf returns the digest of a definition: of its canonical JSON, whatever its form.
func DigestOf(def json.RawMessage) string { return sumOf(tool.CanonicalJSON(def)) }

// DigestTool returns the digest of a tool's definition.
func DigestTool(t *tool.Tool) string { return sumOf(DefinitionOf(t)) }

// sumOf returns the digest of canonical JSON.
func sumOf(canonical json.RawMessage) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ClaimOf returns an identifier of what a person accepts: the pinned definition, the current one,
// and what was said about it.
func ClaimOf(t *tool.Tool, was *Pin, says []string) string {
	old := ""
	if was != nil {
		old = was.Digest
	}
	h := sha256.New()
	for _, part := range slices.Concat([]string{t.Upstream, t.Name, old, DigestTool(t)}, says) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
