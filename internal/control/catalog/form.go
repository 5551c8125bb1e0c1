package catalog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Programs may name tools, and pass arguments, in the forms of other systems. Find and Arrange
// convert these to the plain form. They never guess: if several tools match, the error names them.
// docs/programs.md lists the forms.

// A formIndex maps spellings without case and punctuation to the tools of a View.
type formIndex struct {
	spaces map[string][]*upstream // upstreams by folded name
	bare   map[string][]*Entry    // tools by the folded tool name alone
	joined map[string][]*Entry    // tools by the folded concatenation of upstream and tool name
	tails  map[string][]*Entry    // tools with a dotted name by its folded ends: those of database.query
}

// A lazyForms is the formIndex of Views with the same entries, created on first use.
type lazyForms struct {
	once  sync.Once
	index *formIndex
}

// of returns the index of v.
func (l *lazyForms) of(v *View) *formIndex {
	l.once.Do(func() {
		x := &formIndex{spaces: map[string][]*upstream{}, bare: map[string][]*Entry{}, joined: map[string][]*Entry{},
			tails: map[string][]*Entry{}}
		for _, u := range v.upstreams {
			for _, s := range eitherOf(fold(u.name), fold(u.namespace)) {
				x.spaces[s] = append(x.spaces[s], u)
			}
			for _, e := range u.entries {
				for name, dotted := e.Tool.Name, strings.Contains(e.Tool.Name, "."); dotted; {
					x.tails[fold(name)] = append(x.tails[fold(name)], e)
					_, name, dotted = strings.Cut(name, ".")
				}
				for _, m := range spellingsOf(e) {
					x.bare[m] = append(x.bare[m], e)
					for _, s := range eitherOf(fold(u.name), fold(u.namespace)) {
						x.joined[s+m] = append(x.joined[s+m], e)
					}
				}
			}
		}
		l.index = x
	})
	return l.index
}

// spellingsOf returns the folded names of a tool.
func spellingsOf(e *Entry) []string { return eitherOf(fold(e.Tool.Name), fold(e.Member)) }

func eitherOf(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

// fold returns the letters and digits of a name in lower case: createIssue, create_issue and
// create-issue are equal when folded.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// roots are words with which other systems begin the path of a tool.
var roots = lazily.Words(`tools servers mcp codemode api functions`)

// Find returns the tool with a path, as resolved by Resolve or in a form that other systems use.
// Those are "server__tool", "mcp__server__tool", "server/tool", a path after "servers", "mcp" or
// "codemode", a tool's name without its upstream, camelCase for snake_case, and paths of three
// levels. If a path matches several tools, the error names them.
func (v *View) Find(path string) (*Entry, error) {
	e, err := v.findForm(path)
	if e == nil && err == nil {
		return v.Resolve(path) // its error names the nearest tools
	}
	return e, err
}

// findForm is like Find, but returns neither a tool nor an error if no tool matches.
func (v *View) findForm(path string) (*Entry, error) {
	if len(path) > maxPath {
		return nil, nil
	}
	if e, err := v.plain(path); e != nil || err != nil {
		return e, err
	}
	if err := v.refuseWithheld(path, false); err != nil {
		return nil, err
	}
	switch found := v.findCandidates(path); len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	default:
		return nil, severalTools(path, found)
	}
}

// Alias returns the plain path of the tool or upstream that a single name refers to, in any form.
// It returns name itself if several tools match, and "" if none does.
func (v *View) Alias(name string) string {
	switch e, err := v.findForm(name); {
	case err != nil:
		return name
	case e != nil && e.Tool.Upstream != tool.Own:
		return e.Path()
	case e != nil:
		return ""
	}
	return v.Space(name)
}

// severalTools returns the error for a path that matches several tools.
func severalTools(path string, found []*Entry) error {
	var paths []string
	for _, e := range found {
		paths = append(paths, e.Path())
	}
	slices.Sort(paths)
	if len(paths) > 8 {
		paths = append(paths[:8:8], "…")
	}
	return tool.Errorf(tool.Conflict, "%s names more than one tool: use one of %s", quoteShort(path),
		strings.Join(paths, ", "))
}

// findCandidates returns the tools that path may refer to in a form of another system.
func (v *View) findCandidates(path string) []*Entry {
	parts := pathParts(path)
	for {
		if found := v.byParts(parts); len(found) > 0 || len(parts) < 2 || !roots.Has(strings.ToLower(parts[0])) {
			return found
		}
		parts = parts[1:]
	}
}

// maxParts is the maximum number of levels in a path.
const maxParts = 8

// pathParts splits a path at its dots, slashes, colons and double underscores.
func pathParts(path string) []string {
	parts := strings.FieldsFunc(strings.ReplaceAll(path, "__", "."), func(r rune) bool {
		return r == '.' || r == '/' || r == ':'
	})
	if len(parts) == 0 || len(parts) > maxParts {
		return nil
	}
	for _, prefix := range [...]string{"mcp_", "mcp-"} { // mcp_github.list_issues
		if rest, ok := strings.CutPrefix(parts[0], prefix); ok && len(parts) > 1 && rest != "" {
			return append([]string{"mcp", rest}, parts[1:]...)
		}
	}
	return parts
}

// byParts returns the tools that match a path split into its levels.
func (v *View) byParts(parts []string) []*Entry {
	x := v.forms.of(v)
	if len(parts) == 0 {
		return nil
	}
	var found []*Entry
	for i := 1; i < len(parts); i++ {
		for _, u := range x.spaces[fold(strings.Join(parts[:i], ""))] {
			found = append(found, u.byFold(fold(strings.Join(parts[i:], "")))...)
		}
	}
	if len(parts) == 1 {
		if found = x.bare[fold(parts[0])]; len(found) == 0 {
			whole := fold(parts[0])
			if found = x.joined[whole]; len(found) == 0 {
				found = x.joined[strings.TrimPrefix(whole, "mcp")]
			}
		}
	}
	if len(found) == 0 {
		found = x.tails[fold(strings.Join(parts, ""))]
	}
	return dedupe(found)
}

// byFold returns the tools of u with a folded name. If there are none, it ignores a prefix with the
// upstream's name, either in name or in the tool's own name.
func (u *upstream) byFold(name string) []*Entry {
	var exact, near []*Entry
	for _, e := range u.entries {
		for _, s := range spellingsOf(e) {
			switch own := fold(u.name); {
			case s == name:
				exact = append(exact, e)
			case own+s == name, s == own+name:
				near = append(near, e)
			}
		}
	}
	if len(exact) > 0 {
		return dedupe(exact)
	}
	return dedupe(near)
}

// Space returns the namespace of the upstream that a name refers to, in any form. It returns "" if
// no or several upstreams match.
func (v *View) Space(name string) (namespace string) {
	if u := v.byNamespace[name]; u != nil {
		return u.namespace
	}
	if u := v.byName[name]; u != nil {
		return u.namespace
	}
	x := v.forms.of(v)
	whole := fold(name)
	for _, s := range [...]string{whole, strings.TrimPrefix(whole, "mcp"), strings.TrimSuffix(whole, "mcp")} {
		if found := x.spaces[s]; len(found) == 1 && s != "" {
			return found[0].namespace
		} else if len(found) > 1 {
			return ""
		}
	}
	return ""
}

// Names reports whether path also contains the name of e's upstream.
func (v *View) Names(path string, e *Entry) bool {
	whole := fold(path)
	return strings.Contains(whole, fold(e.Namespace)) || strings.Contains(whole, fold(e.Tool.Upstream))
}

// parameters are the parts of an input schema that Arrange needs.
type parameters struct {
	once     sync.Once
	names    []string // in schema order
	types    map[string]json.RawMessage
	required []string
	open     bool // other members are arguments, too
}

// params returns the parameters of e.
func (e *Entry) params() *parameters {
	if e.parameters == nil { // an entry created outside a catalog
		return new(parameters).of(e.Tool)
	}
	return e.parameters.of(e.Tool)
}

// of parses the parameters of a tool.
func (p *parameters) of(t *tool.Tool) *parameters {
	p.once.Do(func() {
		if len(t.InputSchema) > maxSchema {
			return
		}
		var s struct {
			Properties           json.RawMessage
			Required             []string
			AdditionalProperties json.RawMessage
			PatternProperties    map[string]json.RawMessage
		}
		if json.Unmarshal(t.InputSchema, &s) != nil || json.Unmarshal(s.Properties, &p.types) != nil {
			p.types = nil
			return
		}
		p.names, p.required = keysOf(s.Properties), s.Required
		extra := string(bytes.TrimSpace(s.AdditionalProperties))
		p.open = extra != "" && extra != "false" || len(s.PatternProperties) > 0
	})
	return p
}

// keysOf returns the keys of a JSON object in order, without duplicates, or nil if raw is not an
// object.
func keysOf(raw json.RawMessage) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		var skip json.RawMessage
		if err != nil || !ok || d.Decode(&skip) != nil {
			return nil
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Arrange returns the arguments of a call in the plain form, one object with the names of the
// schema. An array holds arguments by position, in schema order. A name that the schema lacks is
// replaced if it is another spelling of a declared one that is not passed. Ambiguous arguments are
// returned unchanged, for Validate to reject.
func (e *Entry) Arrange(args json.RawMessage) json.RawMessage {
	text := bytes.TrimSpace(args)
	if len(text) == 0 || len(text) > maxArguments {
		return args
	}
	p := e.params()
	switch text[0] {
	case '{':
		if renamed := p.rename(text); renamed != nil {
			return renamed
		}
	case '[':
		if named := e.place(p, text); named != nil {
			return named
		}
	}
	return args
}

// rename returns the object with its keys as spelled in the schema, or nil if no key needs to be or
// can be renamed.
func (p *parameters) rename(args json.RawMessage) json.RawMessage {
	if p.open || p.types == nil {
		return nil
	}
	given := keysOf(args)
	to := map[string]string{}
	for _, k := range given {
		if _, ok := p.types[k]; ok {
			continue
		}
		if name := p.correctSpelling(k); name != "" && !slices.Contains(given, name) {
			to[k] = name
		}
	}
	for k, name := range to { // two spellings of one argument are left to Validate
		for other, same := range to {
			if other != k && same == name {
				return nil
			}
		}
	}
	if len(to) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return nil
	}
	out := object{}
	for _, k := range given {
		name := k
		if to[k] != "" {
			name = to[k]
		}
		out.add(name, fields[k])
	}
	return out.text()
}

// FindSpelling returns the argument of which name is another spelling, or "" if no or several
// arguments match.
func (e *Entry) FindSpelling(name string) string {
	p := e.params()
	if p.open {
		return ""
	}
	return p.correctSpelling(name)
}

// Positions returns the names of the arguments in schema order.
func (e *Entry) Positions() []string { return e.params().names }

func (p *parameters) correctSpelling(name string) string {
	found, whole := "", fold(name)
	for _, n := range p.names {
		if fold(n) == whole && whole != "" {
			if found != "" {
				return ""
			}
			found = n
		}
	}
	return found
}

// place converts arguments by position to an object. It returns nil if the positions are ambiguous.
func (e *Entry) place(p *parameters, args json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(args, &list) != nil || len(p.names) == 0 {
		return nil
	}
	for len(list) > 0 && string(list[len(list)-1]) == "null" {
		list = list[:len(list)-1]
	}
	if isCallback(list) {
		return nil
	}
	var rest json.RawMessage // a final object with named arguments
	if n := len(list); n > 0 && p.isNamed(list[n-1], n-1) {
		list, rest = list[:n-1], list[n-1]
	}
	first := p.assign(p.names, list, rest)
	if needed := p.requiredFirst(); !slices.Equal(needed, p.names) && len(list) > 0 {
		second := p.assign(needed, list, rest)
		if second != nil && !bytes.Equal(first, second) && e.Validate(e.Fill(second)) == nil {
			if first != nil && e.Validate(e.Fill(first)) == nil {
				return nil // ambiguous: both orders fit
			}
			return second
		}
	}
	return first
}

// isCallback reports whether the arguments are the ones that map, forEach and the like pass to a
// function: an element, its index and the array. Only the first is meant for the tool.
func isCallback(list []json.RawMessage) bool {
	if len(list) != 3 {
		return false
	}
	var at int
	var of []json.RawMessage
	return json.Unmarshal(list[1], &at) == nil && json.Unmarshal(list[2], &of) == nil &&
		at >= 0 && at < len(of) && bytes.Equal(of[at], list[0])
}

// isNamed reports whether the argument at a position is an object that holds arguments by name.
func (p *parameters) isNamed(v json.RawMessage, at int) bool {
	if len(v) == 0 || v[0] != '{' {
		return false
	}
	keys := keysOf(v)
	for _, k := range keys {
		if _, ok := p.types[k]; !ok && p.correctSpelling(k) == "" {
			return false
		}
	}
	if at >= len(p.names) {
		return true
	}
	var s struct{ Type any }
	if json.Unmarshal(p.types[p.names[at]], &s) != nil {
		return false
	}
	typ, ok := s.Type.(string)
	return at == 0 && len(p.names) == 1 && len(keys) > 0 && typ != "object" || ok && typ != "object"
}

func (p *parameters) requiredFirst() []string {
	out := slices.DeleteFunc(slices.Clone(p.names), func(n string) bool { return !slices.Contains(p.required, n) })
	for _, n := range p.names {
		if !slices.Contains(p.required, n) {
			out = append(out, n)
		}
	}
	return out
}

// assign pairs names with a list of arguments. It returns nil if there are too many arguments, or
// an argument is duplicate.
func (p *parameters) assign(names []string, list []json.RawMessage, rest json.RawMessage) json.RawMessage {
	if len(list) > len(names) {
		return nil
	}
	out := object{}
	for i, v := range list {
		if string(v) == "null" && !slices.Contains(p.required, names[i]) {
			continue // omitted
		}
		out.add(names[i], v)
	}
	if rest != nil {
		if renamed := p.rename(rest); renamed != nil {
			rest = renamed
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(rest, &fields) != nil {
			return nil
		}
		for _, k := range keysOf(rest) {
			if slices.Contains(out.keys, k) {
				return nil
			}
			out.add(k, fields[k])
		}
	}
	return out.text()
}

// An object encodes a JSON object whose members keep their order.
type object struct {
	keys []string
	b    bytes.Buffer
}

func (o *object) add(key string, v json.RawMessage) {
	if len(o.keys) > 0 {
		o.b.WriteByte(',')
	}
	o.keys = append(o.keys, key)
	name, err := tool.Marshal(key)
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	o.b.Write(name)
	o.b.WriteByte(':')
	o.b.Write(v)
}

func (o *object) text() json.RawMessage { return json.RawMessage("{" + o.b.String() + "}") }
