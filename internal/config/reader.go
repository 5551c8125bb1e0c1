package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// A reader reads a tree of nodes and collects errors.
type reader struct {
	env      func(string) (string, bool)
	dir      string // of the file: relative paths are below it
	problems []Problem
	warnings []Problem
	hidden   []string // values of variables that may be secret
	files    []localFile

	secrets     map[string]string // known values by name; a missing name is not read yet
	secretNames []string          // that the current entry refers to
	inUpstream  bool              // the entry of an upstream is being read
}

func (r *reader) addProblem(n *node, format string, a ...any) {
	r.problems = append(r.problems, Problem{n.line, n.col, fmt.Sprintf(format, a...)})
}

func (r *reader) addWarning(n *node, format string, a ...any) {
	r.warnings = append(r.warnings, Problem{n.line, n.col, fmt.Sprintf(format, a...)})
}

// A key maps the keys that a map may contain to functions that read their values.
type key map[string]func(*node)

// readObject reads a map. Unknown keys are errors that suggest the nearest known key; so are
// duplicate keys.
func (r *reader) readObject(n *node, what string, known key) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		r.addProblem(n, "%s must be a map, not %s", what, n.kind)
		return
	}
	seen := map[string]bool{}
	for _, f := range n.fields {
		name := f.key.text
		if seen[name] {
			r.addProblem(f.key, "%s has the key %q twice", what, name)
			continue
		}
		seen[name] = true
		read := known[name]
		if read == nil {
			r.addProblem(f.key, "%s has no key %q%s", what, name, suggestKey(name, known))
			continue
		}
		read(f.value)
	}
}

// eachEntry reads a map with arbitrary keys.
func (r *reader) eachEntry(n *node, what string, f func(key, value *node)) {
	known := key{}
	keys := map[string]*node{}
	for _, fl := range n.fields {
		name := fl.key.text
		if keys[name] == nil {
			keys[name] = fl.key
			known[name] = func(v *node) { f(keys[name], v) }
		}
	}
	r.readObject(n, what, known)
}

// readText reads a string and expands the variables in it. Numbers and booleans are accepted as
// they were written, since people write an environment like PORT: 8080.
func (r *reader) readText(n *node, what string) string {
	switch n.kind {
	case stringNode:
		return r.expandVariables(n, n.text)
	case numberNode, boolNode:
		return n.text
	}
	r.addProblem(n, "%s must be text, not %s", what, n.kind)
	return ""
}

func (r *reader) readTexts(n *node, what string) []string {
	if n.kind != listNode {
		r.addProblem(n, "%s must be a list of texts, not %s", what, n.kind)
		return nil
	}
	out := make([]string, 0, len(n.list))
	for _, e := range n.list {
		out = append(out, r.readText(e, "each of "+what))
	}
	return out
}

func (r *reader) textMap(n *node, what string) map[string]string {
	out := map[string]string{}
	r.eachEntry(n, what, func(k, v *node) {
		if k.text == "" || strings.ContainsAny(k.text, "=\x00\r\n") {
			r.addProblem(k, "%s has the invalid name %q", what, k.text)
			return
		}
		s := r.readText(v, what+" "+k.text)
		if strings.ContainsAny(s, "\x00") {
			r.addProblem(v, "%s %s contains a NUL character", what, k.text)
		}
		out[k.text] = s
	})
	return out
}

func (r *reader) readBool(n *node, what string) bool {
	switch s := strings.ToLower(n.text); {
	case n.kind == boolNode, n.kind == stringNode && (s == "true" || s == "false"):
		return s == "true"
	}
	r.addProblem(n, "%s must be true or false, not %s", what, n.kind)
	return false
}

// oneOf reads one of several words.
func (r *reader) oneOf(n *node, what string, words ...string) string {
	s := r.readText(n, what)
	if slices.Contains(words, s) || s == "" && n.kind != stringNode {
		return s
	}
	known := key{}
	for _, w := range words {
		known[w] = nil
	}
	r.addProblem(n, "%s is one of %s, not %q%s", what, strings.Join(words, ", "), s, nearestKey(s, known))
	return words[0]
}

// clipText returns the beginning of a text for an error.
func clipText(s string) string { return text.Clip(s, 40) }

// elsewhere maps keys in clients' files to ours.
var elsewhere = map[string]string{"servers": "mcpServers", "mcp_servers": "mcpServers", "context_servers": "mcpServers",
	"mcp": "mcpServers"}

// suggestKey returns the suggestion of nearest, or else a list of all known keys.
func suggestKey(name string, known key) string {
	if near := nearestKey(name, known); near != "" {
		return near
	}
	return ": it may have " + strings.Join(namesOf(known), ", ")
}

func namesOf(known key) []string { return slices.Sorted(maps.Keys(known)) }

// nearestKey suggests the known key that name was probably meant to be; "" if none is near.
func nearestKey(name string, known key) string {
	if k := elsewhere[name]; k != "" && known[k] != nil {
		return fmt.Sprintf(": did you mean %q?", k)
	}
	best, bestD := "", max(2, len(name)/3)+1
	for _, k := range namesOf(known) {
		if d := text.Distance(strings.ToLower(name), strings.ToLower(k), bestD-1); d < bestD {
			best, bestD = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}
