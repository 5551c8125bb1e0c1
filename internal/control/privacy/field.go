package privacy

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// Limits for reading a schema.
const (
	maxSchemaDepth = 16
	maxSchemaPaths = 1000
)

// SchemaFields returns the paths of the fields that a tool's output schema marks as personal: those
// with format email or idn-email, and those with x-pii or x-personal set to true or a non-empty
// string.
func SchemaFields(raw json.RawMessage) tool.Paths {
	if !bytes.Contains(raw, []byte(`"x-p`)) && !bytes.Contains(raw, []byte(`email"`)) {
		return nil
	}
	root, err := schema.Parse(raw)
	if err != nil {
		return nil
	}
	w := &schemaWalk{root: root}
	w.walkSchema(root, nil, 0)
	return w.out
}

type schemaWalk struct {
	root schema.Schema
	out  tool.Paths
	seen int
}

func (w *schemaWalk) walkSchema(s schema.Schema, path []string, depth int) {
	if w.seen++; s.IsZero() || depth > maxSchemaDepth || w.seen > 20*maxSchemaPaths || len(w.out) >= maxSchemaPaths {
		return
	}
	if len(path) > 0 && isPersonal(s) {
		w.out = append(w.out, append([]string{}, path...))
		return
	}
	if ref, ok := s.Ref(); ok {
		w.walkSchema(w.root.Resolve(ref), path, depth+1)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		for _, part := range s.Parts(keyword) {
			w.walkSchema(part, path, depth+1)
		}
	}
	w.walkSchema(s.Part("items"), path, depth+1) // paths skip lists
	w.walkSchema(s.Part("additionalProperties"), append(path[:len(path):len(path)], "*"), depth+1)
	for _, name := range s.PropertyNames() {
		property, _ := s.Property(name)
		w.walkSchema(property, append(path[:len(path):len(path)], name), depth+1)
	}
}

// isPersonal reports whether a schema marks its value as personal.
func isPersonal(s schema.Schema) bool {
	if f := s.TextOf("format"); f == "email" || f == "idn-email" {
		return true
	}
	for _, keyword := range []string{"x-pii", "x-personal"} {
		switch v := s.ValueOf(keyword).(type) {
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

// Learn records the personal data in a tool's result for a program that would not be recognized on
// its own: values of fields, and numbers recognized by the words around them. They are then found
// anywhere in the program's output. If Learn returns an error, they would not be found, and the
// program must not receive the result.
func (g *Guard) Learn(ctx context.Context, of tool.Scope, t *tool.Tool, r *tool.Result) error {
	if g == nil || r == nil {
		return nil
	}
	s := &Sheet{g: g, of: of, paths: append(g.paths[:len(g.paths):len(g.paths)], SchemaFields(t.OutputSchema)...),
		index: map[string]int{}}
	for _, text := range resultTexts(r) {
		s.textOrJSON(text, noCue, s.startPlace(), 0)
	}
	return s.learnFields(ctx, t.Path()+" was called, and its answer is withheld")
}

// Bring is like Learn for data that a program receives from another scope of the same owner. Values
// of that vault in the data are then found in the program's output, too. If it returns an error,
// they would not be found, and the program must not receive the data.
func (g *Guard) Bring(ctx context.Context, from, to tool.Scope, data ...string) error {
	if g == nil || from == to {
		return nil
	}
	const refused = "the results of an earlier program are withheld"
	words := g.vaultLexicon(ctx, from)
	if words == nil {
		return tool.Errorf(tool.Internal, "%s: its vault of personal data can't be read", refused)
	}
	s := &Sheet{g: g, of: to, paths: g.paths, words: words, index: map[string]int{}}
	for _, text := range data {
		s.textOrJSON(text, noCue, s.startPlace(), 0)
	}
	return s.learnFields(ctx, refused)
}

// learnFields stores the values on the sheet that would not be recognized on their own.
func (s *Sheet) learnFields(ctx context.Context, refused string) error {
	g := s.g
	fresh := slices.DeleteFunc(s.finds, isEvident)
	if len(fresh) == 0 || g.vaultLexicon(ctx, s.of).hasAll(fresh) {
		return nil
	}
	defer g.forgetVault(s.of)
	if err := g.cfg.Store.Number(context.WithoutCancel(ctx), s.of, g.cfg.Values, fresh); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err,
			Msg: refused + ": it contains personal data that can't be written to the vault"}
	}
	for _, e := range fresh {
		if e.N == 0 {
			return tool.Errorf(tool.Limit, "%s: it has personal data, and this session already keeps the maximum of "+
				"%d such values: continue in another session", refused, g.cfg.Values)
		}
	}
	return nil
}

// isEvident reports whether a value is recognized on its own.
func isEvident(e *Entry) bool {
	m := findPersonal(e.Value, noCue)
	return len(m) == 1 && m[0].Kind == e.Kind && m[0].End-m[0].Start == len(e.Value)
}

// resultTexts returns the texts of a result, some of which may be JSON.
func resultTexts(r *tool.Result) (out []string) {
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
		blob, _ := decodeBase64(b.Resource.Blob)
		out = append(out, b.Text, b.Resource.Text, blob)
	}
	return out
}

// Limits of the values that are found outside of their fields. Shorter values are too common.
const (
	minWord   = 3
	minNumber = 5
	longWord  = 256 // prefix of longer values that is searched for
)

// A lexicon finds the values of a vault that are not recognized on their own. A nil lexicon finds
// none.
type lexicon struct {
	words   map[string]Kind         // by the value, or its first longWord bytes
	lengths map[[minWord]byte][]int // of words, by their first bytes; longest first
	keys    map[string]bool         // of all entries
}

// vaultLexicon returns the lexicon of a vault, or nil if the vault can't be read.
func (g *Guard) vaultLexicon(ctx context.Context, of tool.Scope) *lexicon {
	g.mu.Lock()
	l, ok := g.words.Use(of)
	g.mu.Unlock()
	if ok {
		return l
	}
	all, err := g.cfg.Store.All(context.WithoutCancel(ctx), of, "")
	if err != nil {
		g.cfg.Log.Error("vault of personal data not readable: results that may contain some are withheld", "err", err)
		return nil
	}
	l = newLexicon(all)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.words.Put(of.Owner, of, l, 0)
	return l
}

// maxLexicons is the number of cached lexicons.
const maxLexicons = 64

func newLexicon(all []Entry) *lexicon {
	l := &lexicon{words: map[string]Kind{}, lengths: map[[minWord]byte][]int{}, keys: map[string]bool{}}
	for i := range all {
		v := all[i].Value
		if isEvident(&all[i]) {
			continue
		}
		l.keys[all[i].Key()] = true
		if len(v) < minWord || isDigits(v) && len(v) < minNumber || v == "true" || v == "false" {
			continue
		}
		l.addValue(v, all[i].Kind)
		if raw := escapeText(v); raw != v && raw != "" { // as it is written in JSON within a text
			l.addValue(raw, all[i].Kind)
		}
	}
	for _, n := range l.lengths {
		slices.SortFunc(n, func(a, b int) int { return b - a })
	}
	return l
}

func (l *lexicon) addValue(v string, k Kind) {
	v = v[:min(len(v), longWord)]
	l.words[v] = k
	first := [minWord]byte([]byte(v))
	if n := l.lengths[first]; !slices.Contains(n, len(v)) {
		l.lengths[first] = append(n, len(v))
	}
}

// hasAll reports whether the lexicon has all entries.
func (l *lexicon) hasAll(all []*Entry) bool {
	return l != nil && !slices.ContainsFunc(all, func(e *Entry) bool { return !l.keys[e.Key()] })
}

// findValues returns the longest values at each position, as whole words.
func (l *lexicon) findValues(t string) (out []Match) {
	if l == nil || len(l.words) == 0 {
		return nil
	}
	for i := 0; i+minWord <= len(t); {
		if k, n := l.longestAt(t, i); n > 0 {
			out = append(out, Match{i, i + n, k})
			i += n
			continue
		}
		if !isWordByte(t[i]) {
			i++
			continue
		}
		for i < len(t) && isWordByte(t[i]) { // to the next word
			i++
		}
	}
	return out
}

// withoutEscapes returns a value without JSON escapes, if it was found with them.
func (l *lexicon) withoutEscapes(v string) string {
	if l == nil || strings.IndexByte(v, '\\') < 0 {
		return v
	}
	if quoted := `"` + v + `"`; json.Valid([]byte(quoted)) {
		if t := decodeString(quoted); l.words[t[:min(len(t), longWord)]] != "" {
			return t
		}
	}
	return v
}

// longestAt returns the kind and length of the longest value at i, or a length of 0.
func (l *lexicon) longestAt(t string, i int) (Kind, int) {
	for _, n := range l.lengths[[minWord]byte([]byte(t[i:i+minWord]))] {
		if i+n > len(t) || n < longWord && i+n < len(t) && isWordByte(t[i+n-1]) && isWordByte(t[i+n]) {
			continue
		}
		if k, ok := l.words[t[i:i+n]]; ok {
			return k, n
		}
	}
	return "", 0
}
