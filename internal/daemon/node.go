package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/secret"
)

// Bounds on a configuration file. They are far above what a person writes.
const (
	configBytes = 1 << 20
	configDepth = 32     // nested maps and lists
	configNodes = 50_000 // after aliases are followed
)

// A node is one value of a configuration file, of YAML and of JSON alike, and where it stands.
type node struct {
	line, col int // 1-based
	kind      nodeKind
	text      string // of a scalar, as it was written but for quotes
	list      []*node
	fields    []field
}

type nodeKind int

const (
	nullNode   nodeKind = iota
	stringNode          // quoted, or neither a number nor a boolean
	numberNode
	boolNode
	listNode
	mapNode
)

var kindNames = [...]string{"nothing", "text", "a number", "true or false", "a list", "a map"}

func (k nodeKind) String() string { return kindNames[k] }

// A field is a key of a map, with its value.
type field struct {
	key   *node
	value *node
}

// A Problem is one thing that is wrong in a configuration file.
type Problem struct {
	Line    int    `json:"line"` // 1-based; 0 when it is about the file as a whole
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// A ConfigError is all that is wrong in a configuration file, in the order of the file.
type ConfigError struct {
	File     string
	Problems []Problem
}

// Error gives one line a problem: "file:line:column: what".
func (e *ConfigError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": " + p.Message)
	}
	return b.String()
}

// A reader reads a tree of nodes and collects what is wrong in it.
type reader struct {
	env      func(string) (string, bool)
	problems []Problem
	warnings []Problem
	hidden   []string // values of variables that may be secret
}

func (r *reader) wrong(n *node, format string, a ...any) {
	r.problems = append(r.problems, Problem{n.line, n.col, fmt.Sprintf(format, a...)})
}

func (r *reader) warn(n *node, format string, a ...any) {
	r.warnings = append(r.warnings, Problem{n.line, n.col, fmt.Sprintf(format, a...)})
}

// sorted gives what is wrong in the order of the file.
func sorted(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}

// A key is what a map may hold: how to read its value.
type key map[string]func(*node)

// object reads a map. A key that is not in known is wrong, with the nearest that is; so is one that is there twice.
func (r *reader) object(n *node, what string, known key) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		r.wrong(n, "%s must be a map, not %s", what, n.kind)
		return
	}
	seen := map[string]bool{}
	for _, f := range n.fields {
		name := f.key.text
		if seen[name] {
			r.wrong(f.key, "%s has the key %q twice", what, name)
			continue
		}
		seen[name] = true
		read := known[name]
		if read == nil {
			r.wrong(f.key, "%s has no key %q%s", what, name, suggest(name, known))
			continue
		}
		read(f.value)
	}
}

// each reads a map of any keys.
func (r *reader) each(n *node, what string, f func(key, value *node)) {
	known := key{}
	keys := map[string]*node{}
	for _, fl := range n.fields {
		name := fl.key.text
		if keys[name] == nil {
			keys[name] = fl.key
			known[name] = func(v *node) { f(keys[name], v) }
		}
	}
	r.object(n, what, known)
}

// text reads text, with the variables in it expanded. Numbers and booleans count as the text they were written as:
// PORT: 8080 is how people write an environment.
func (r *reader) text(n *node, what string) string {
	switch n.kind {
	case stringNode:
		return r.expand(n, n.text)
	case numberNode, boolNode:
		return n.text
	}
	r.wrong(n, "%s must be text, not %s", what, n.kind)
	return ""
}

func (r *reader) texts(n *node, what string) []string {
	if n.kind != listNode {
		r.wrong(n, "%s must be a list of texts, not %s", what, n.kind)
		return nil
	}
	out := make([]string, 0, len(n.list))
	for _, e := range n.list {
		out = append(out, r.text(e, "each of "+what))
	}
	return out
}

func (r *reader) textMap(n *node, what string) map[string]string {
	out := map[string]string{}
	r.each(n, what, func(k, v *node) {
		if k.text == "" || strings.ContainsAny(k.text, "=\x00\r\n") {
			r.wrong(k, "%s has the name %q, which is none", what, k.text)
			return
		}
		s := r.text(v, what+" "+k.text)
		if strings.ContainsAny(s, "\x00") {
			r.wrong(v, "%s %s holds a NUL character", what, k.text)
		}
		out[k.text] = s
	})
	return out
}

func (r *reader) boolean(n *node, what string) bool {
	switch s := strings.ToLower(n.text); {
	case n.kind == boolNode, n.kind == stringNode && (s == "true" || s == "false"):
		return s == "true"
	}
	r.wrong(n, "%s must be true or false, not %s", what, n.kind)
	return false
}

// oneOf reads one of a few words.
func (r *reader) oneOf(n *node, what string, words ...string) string {
	s := r.text(n, what)
	if slices.Contains(words, s) || s == "" && n.kind != stringNode {
		return s
	}
	known := key{}
	for _, w := range words {
		known[w] = nil
	}
	r.wrong(n, "%s is one of %s, not %q%s", what, strings.Join(words, ", "), s, nearest(s, known))
	return words[0]
}

var variable = lazily.Regexp(`^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$`)

// expand puts the environment's values in the place of ${VAR} and ${VAR:-default} (also ${env:VAR}, as editors write
// it). $${ stands for ${ itself. The values are put in after the file was parsed: nothing in them is syntax.
func (r *reader) expand(n *node, s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			r.wrong(n, "%q begins a variable and never ends it: write ${NAME}, or $${ for the characters themselves", clip(s[i:]))
			return b.String()
		}
		ref := s[i+2 : i+end]
		s = s[i+end+1:]
		m := variable().FindStringSubmatch(ref)
		if m == nil {
			r.wrong(n, "${%s} is no variable that can be expanded: write ${NAME} or ${NAME:-default}, or $${ for the characters themselves", clip(ref))
			continue
		}
		switch v, ok := r.env(m[1]); {
		case ok && (v != "" || !strings.Contains(ref, ":-")):
			b.WriteString(v)
			if secretVariable(m[1], v) {
				r.hidden = append(r.hidden, v)
			}
		case strings.Contains(ref, ":-"):
			b.WriteString(m[2])
		default:
			r.wrong(n, "environment variable %s is not set: set it, or write ${%s:-default}", m[1], m[1])
		}
	}
}

var (
	secretWord = lazily.Regexp(`(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|auth(?:orization)?|credentials?|cookie|jwt|pat|dsn)s?(?:_|$)`)
	// plainValue matches what is no secret: paths, words, names of hosts and their addresses.
	plainValue = lazily.Regexp(`^(?:[/~.][\w./ -]*|(?:https?://)?[a-z]+(?:[-._:/][a-z]+|[-._:/]?\d{1,5})*/?)$`)
)

// secretVariable reports whether what a variable of the environment holds may be a secret: by its name, or since it looks like nothing else.
func secretVariable(name, value string) bool {
	return len(value) >= secret.MinHidden && (secretWord().MatchString(name) || !plainValue().MatchString(value))
}

// clip is the beginning of a text of the configuration.
func clip(s string) string { return prose.Clip(s, 40) }

// elsewhere are the names that clients' files have for keys of ours.
var elsewhere = map[string]string{"servers": "mcpServers", "mcp_servers": "mcpServers", "context_servers": "mcpServers", "mcp": "mcpServers"}

// suggest names the key nearest to name, if one is near, else all of them.
func suggest(name string, known key) string {
	if near := nearest(name, known); near != "" {
		return near
	}
	return ": it may have " + strings.Join(namesOf(known), ", ")
}

func namesOf(known key) []string { return slices.Sorted(maps.Keys(known)) }

// nearest names the key that name may have been meant to be; "" where none is near.
func nearest(name string, known key) string {
	if k := elsewhere[name]; k != "" && known[k] != nil {
		return fmt.Sprintf(": did you mean %q?", k)
	}
	best, bestD := "", max(2, len(name)/3)+1
	for _, k := range namesOf(known) {
		if d := catalog.Distance(strings.ToLower(name), strings.ToLower(k), bestD-1); d < bestD {
			best, bestD = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

// environ is how the process sees its environment.
func environ(name string) (string, bool) { return os.LookupEnv(name) }
