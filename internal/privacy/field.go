package privacy

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Bounds on what is read of a schema.
const (
	maxSchemaDepth = 16
	maxSchemaPaths = 1000
)

// SchemaFields gives the paths of the fields that a tool's output schema says are personal: those of the format email or idn-email, and
// those with x-pii or x-personal, true or a text.
func SchemaFields(schema json.RawMessage) [][]string {
	if !bytes.Contains(schema, []byte(`"x-p`)) && !bytes.Contains(schema, []byte(`email"`)) {
		return nil
	}
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	w := &schemaWalk{root: root}
	w.schema(root, nil, 0)
	return w.out
}

type schemaWalk struct {
	root map[string]any
	out  [][]string
	seen int
}

func (w *schemaWalk) schema(v any, path []string, depth int) {
	m, ok := v.(map[string]any)
	if w.seen++; !ok || depth > maxSchemaDepth || w.seen > 20*maxSchemaPaths || len(w.out) >= maxSchemaPaths {
		return
	}
	if len(path) > 0 && personal(m) {
		w.out = append(w.out, append([]string{}, path...))
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		w.schema(w.local(ref), path, depth+1)
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		all, _ := m[k].([]any)
		for _, e := range all {
			w.schema(e, path, depth+1)
		}
	}
	w.schema(m["items"], path, depth+1) // lists are gone through
	w.schema(m["additionalProperties"], append(path[:len(path):len(path)], "*"), depth+1)
	fields, _ := m["properties"].(map[string]any)
	for name, e := range fields {
		w.schema(e, append(path[:len(path):len(path)], name), depth+1)
	}
}

// personal reports whether a schema says so.
func personal(m map[string]any) bool {
	if f, _ := m["format"].(string); f == "email" || f == "idn-email" {
		return true
	}
	for _, k := range []string{"x-pii", "x-personal"} {
		switch v := m[k].(type) {
		case bool:
			if v {
				return true
			}
		case string:
			if v != "" {
				return true
			}
		}
	}
	return false
}

// local finds what a reference within the schema names.
func (w *schemaWalk) local(ref string) any {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var v any = w.root
	for _, k := range strings.Split(rest, "/") {
		m, _ := v.(map[string]any)
		v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(k)]
	}
	return v
}

// Learn notes the values of personal fields in what a tool answered to a program: they are found again in what the program
// shows, wherever they stand in it. With an error, they are not, and the program must not have them.
func (g *Guard) Learn(ctx context.Context, of Scope, t *tool.Tool, r *tool.Result) error {
	if g == nil || r == nil {
		return nil
	}
	paths := append(g.paths[:len(g.paths):len(g.paths)], SchemaFields(t.OutputSchema)...)
	if len(paths) == 0 {
		return nil
	}
	s := &Sheet{g: g, of: of, paths: paths, index: map[string]int{}}
	for _, text := range documents(r) {
		s.learn(text, s.start(), 0)
	}
	all := s.finds[:0]
	for _, e := range s.finds {
		if e.Kind == Field {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if g.lexicon(ctx, of).has(all) {
		return nil
	}
	defer g.forget(of)
	if err := g.cfg.Store.Number(context.WithoutCancel(ctx), of, g.cfg.Values, all); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err, Msg: t.Path() + " was called, and its answer is not given: it has personal data, which can't be written to the vault that keeps it from models"}
	}
	for _, e := range all {
		if e.N == 0 {
			return tool.Errorf(tool.Limit, "%s was called, and its answer is not given: it has personal fields, and %d values of such are kept here, which is the most: go on in another session", t.Path(), g.cfg.Values)
		}
	}
	return nil
}

// learn notes the values of fields in a text of JSON, and in the texts in it that are JSON.
func (s *Sheet) learn(t string, at place, nested int) {
	if nested > maxNested || !json.Valid([]byte(t)) {
		return
	}
	w := &walk{t: t, key: func(string) draft { return nil }}
	w.value = func(raw string, at place) draft {
		switch {
		case raw == "null" || raw == `""`:
		case at.named:
			s.scalar(raw, at, nested)
		case raw[0] == '"':
			if head := strings.TrimLeft(raw[1:], " \t"); head != "" && strings.IndexByte(`{[\`, head[0]) >= 0 {
				s.learn(unquoted(raw), place{paths: append(at.paths[:len(at.paths):len(at.paths)], s.paths...)}, nested+1)
			}
		}
		return nil
	}
	w.any(at) // what is deeper than it goes is not a value of a field that anybody named
}

// documents gives the texts of an answer that may be JSON.
func documents(r *tool.Result) (out []string) {
	if r.Structured != nil {
		out = append(out, string(r.Structured))
	}
	for _, raw := range r.Content {
		var b struct {
			Text     string `json:"text"`
			Resource struct {
				Text string `json:"text"`
				Blob string `json:"blob"`
			} `json:"resource"`
		}
		if json.Unmarshal(raw, &b) != nil {
			continue
		}
		blob, _ := decoded(b.Resource.Blob)
		out = append(out, b.Text, b.Resource.Text, blob)
	}
	return out
}

// Bounds on which values of fields are found outside of their fields: shorter ones stand everywhere.
const (
	minWord   = 3
	minNumber = 5
)

// A lexicon finds values of fields. A nil one finds none.
type lexicon struct {
	next  map[uint64]uint32 // by the node and the byte that follows
	ends  map[uint32]bool
	first [256]bool
	keys  map[string]bool
	nodes uint32
}

// lexicon gives the values of fields that a vault has.
func (g *Guard) lexicon(ctx context.Context, of Scope) *lexicon {
	g.mu.Lock()
	l, ok := g.words[of]
	g.mu.Unlock()
	if ok {
		return l
	}
	all, err := g.cfg.Store.All(context.WithoutCancel(ctx), of, Field)
	if err != nil {
		g.cfg.Log.Error("values of personal fields can't be read from their vault: they are hidden in their own fields only", "err", err)
		return nil
	}
	l = newLexicon(all)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.words) >= maxScopes {
		clear(g.words)
	}
	g.words[of] = l
	return l
}

func newLexicon(all []Entry) *lexicon {
	l := &lexicon{next: map[uint64]uint32{}, ends: map[uint32]bool{}, keys: map[string]bool{}}
	for i := range all {
		v := all[i].Value
		l.keys[all[i].Key()] = true
		if len(v) < minWord || digits(v) && len(v) < minNumber || v == "true" || v == "false" {
			continue
		}
		var at uint32
		for k := range len(v) {
			step := uint64(at)<<8 | uint64(v[k])
			to, ok := l.next[step]
			if !ok {
				l.nodes++
				to = l.nodes
				l.next[step] = to
			}
			at = to
		}
		l.ends[at], l.first[v[0]] = true, true
	}
	return l
}

// has reports whether all entries are in it.
func (l *lexicon) has(all []*Entry) bool {
	if l == nil {
		return false
	}
	for _, e := range all {
		if !l.keys[e.Key()] {
			return false
		}
	}
	return true
}

// find gives the longest values at each place, as whole words.
func (l *lexicon) find(t string) (out []Match) {
	if l == nil || l.nodes == 0 {
		return nil
	}
	for i := 0; i < len(t); {
		if end := l.at(t, i); end > 0 {
			out = append(out, Match{i, end, Field})
			i = end
			continue
		}
		if word(t[i]) { // the next word
			for i < len(t) && word(t[i]) {
				i++
			}
			continue
		}
		i++
	}
	return out
}

// at gives the end of the longest value that stands at i; 0: none does.
func (l *lexicon) at(t string, i int) (end int) {
	if !l.first[t[i]] || i > 0 && word(t[i-1]) && word(t[i]) {
		return 0
	}
	var at uint32
	for k := i; k < len(t); k++ {
		to, ok := l.next[uint64(at)<<8|uint64(t[k])]
		if !ok {
			break
		}
		if at = to; l.ends[at] && (k+1 >= len(t) || !word(t[k]) || !word(t[k+1])) {
			end = k + 1
		}
	}
	return end
}
