package catalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Entry is one tool in a View, with its names. It does not change.
type Entry struct {
	Tool      *tool.Tool
	Namespace string // the upstream as a JavaScript identifier
	Member    string // the tool as a JavaScript identifier, unique in its namespace
	Composed  string // for flat lists: at most 64 of [A-Za-z0-9_-], unique in the catalog

	schema     *schema
	parameters *parameters
}

// Path is the name that programs use: "<namespace>.<member>". Resolve finds the entry by it.
func (e *Entry) Path() string { return e.Namespace + "." + e.Member }

// Validate checks the arguments of a call against the tool's JSON Schema; nil arguments are {}. The
// error is a
// *tool.Error of kind Invalid that names each wrong argument, what was expected and what is nearest.
func (e *Entry) Validate(args json.RawMessage) error {
	s := e.schema
	if s == nil {
		s = &schema{} // an entry made outside a catalog
	}
	return s.validate(e.Tool, args)
}

// Fill returns the arguments of a call with the defaults of those that the schema requires and that
// are not given. nil arguments are {} where there is something to fill in.
func (e *Entry) Fill(args json.RawMessage) json.RawMessage {
	if e.schema == nil {
		return args
	}
	d := e.schema.look(e.Tool).defaults
	if d == nil {
		return args
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return d.fill(args)
}

// Doubt returns a note on arguments that the tool's schema allows without declaring them, as names
// that are misspelled; empty where there are none.
func (e *Entry) Doubt(args json.RawMessage) string {
	if e.schema == nil {
		return ""
	}
	text := doubt(e.schema.look(e.Tool).declared, args)
	if text == "" {
		return ""
	}
	return e.Path() + ": " + text
}

// Takes writes the arguments that the tool's schema declares, in one line: { owner: string, state?:
// one of "open", "closed" }. It is empty where the schema declares none.
func (e *Entry) Takes() string {
	s := e.schema
	if s == nil {
		s = &schema{}
	}
	if s.prepare(e.Tool); s.err != nil || len((&explainer{root: s.compiled}).properties(nil)) == 0 {
		return ""
	}
	return takes(s.compiled)
}

// UpstreamInfo is what a View knows of an upstream.
type UpstreamInfo struct {
	Name      string
	Namespace string
	Health    tool.Health
	Tools     int // how many it has
}

// A View is the catalog at one moment. It does not change, and is safe for concurrent use.
type View struct {
	upstreams   []*upstream // by name, without the reserved one
	byName      map[string]*upstream
	byNamespace map[string]*upstream
	byComposed  map[string]*Entry
	entries     []*Entry        // without those of the reserved upstream
	index       *index          // for search; Views that have the same entries share it
	hidden      map[*Entry]bool // what Only left out
	whole       *View           // of which this is a part; nil for a whole one

	forms *lazyForms
}

// Only gives the View without the entries that keep refuses, and without the upstreams of which
// none is left; v itself where it refuses none. Names stay what they are, and searches share their
// index with v.
func (v *View) Only(keep func(*Entry) bool) *View {
	hidden := map[*Entry]bool{}
	for _, u := range v.byName {
		for _, e := range u.entries {
			if !keep(e) {
				hidden[e] = true
			}
		}
	}
	if len(hidden) == 0 {
		return v
	}
	out := func(e *Entry) bool { return hidden[e] }
	next := &View{
		byName: map[string]*upstream{}, byNamespace: map[string]*upstream{}, byComposed: maps.Clone(v.byComposed),
		entries: slices.DeleteFunc(slices.Clone(v.entries), out), index: v.index, hidden: hidden, whole: v, forms: &lazyForms{},
	}
	maps.DeleteFunc(next.byComposed, func(_ string, e *Entry) bool { return out(e) })
	for name, u := range v.byName {
		left := *u
		left.entries = slices.DeleteFunc(slices.Clone(u.entries), out)
		if len(left.entries) == 0 && len(u.entries) > 0 {
			continue
		}
		left.byTool, left.byMember = maps.Clone(u.byTool), maps.Clone(u.byMember)
		maps.DeleteFunc(left.byTool, func(_ string, e *Entry) bool { return out(e) })
		maps.DeleteFunc(left.byMember, func(_ string, e *Entry) bool { return out(e) })
		next.byName[name], next.byNamespace[u.namespace] = &left, &left
	}
	for _, u := range v.upstreams {
		if left := next.byName[u.name]; left != nil {
			next.upstreams = append(next.upstreams, left)
		}
	}
	return next
}

// Same reports whether both are the same View, or the same View with the same entries left out.
func (v *View) Same(o *View) bool {
	return v == o || v.whole != nil && v.whole == o.whole && maps.Equal(v.hidden, o.hidden)
}

// Entry gives the entry of a tool by the names of its upstream and itself, our own too; nil where
// there is none.
func (v *View) Entry(upstream, name string) *Entry {
	if u := v.byName[upstream]; u != nil {
		return u.byTool[name]
	}
	return nil
}

// Entries gives all tools, by the names of upstream and tool; without our own. The slice is not to
// be changed.
func (v *View) Entries() []*Entry { return v.entries }

// Upstreams gives all upstreams by name; without our own.
func (v *View) Upstreams() []UpstreamInfo {
	out := make([]UpstreamInfo, len(v.upstreams))
	for i, u := range v.upstreams {
		out[i] = UpstreamInfo{Name: u.name, Namespace: u.namespace, Health: u.health, Tools: len(u.entries)}
	}
	return out
}

// Resolve finds the tool that path names: its exact path, its safe path ("github.list_issues"),
// that with "tools." in front, or its composed name. A path that names none is an error of kind
// NotFound that says what is nearest, and how the upstream is; one that names several (names may
// hold dots) is an error that gives their safe paths.
func (v *View) Resolve(path string) (*Entry, error) {
	if len(path) > maxPath {
		return nil, tool.Errorf(tool.NotFound, "no tool has a name of %d bytes: %s", len(path), quoteShort(path))
	}
	e, err := v.plain(path)
	if e == nil && err == nil {
		if found := v.likely(path); len(found) > 1 {
			return nil, severalTools(path, found)
		}
		return nil, v.notFound(path)
	}
	return e, err
}

// plain returns the tool that path names in the plain form; nil and no error where there is none.
func (v *View) plain(path string) (*Entry, error) {
	named, near := v.lookup(path)
	var rest, nearRest []*Entry
	if after, ok := strings.CutPrefix(path, "tools."); ok {
		if e := v.bySafePath(after); e != nil { // as programs write it
			named = append(named, e)
		}
		rest, nearRest = v.lookup(after)
	}
	for _, found := range [...][]*Entry{named, near, rest, nearRest} {
		found = dedupe(found)
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, severalTools(path, found)
		}
	}
	return v.byComposed[path], nil
}

const maxPath = 1024 // bytes

// lookup tries each dot of path as the one between upstream and tool. It gives the tools whose
// exact or safe path it is (a safe path has one dot and is no other tool's exact path, see
// safeNames, so what it means never changes), and those near it: half of it is exact, half safe.
func (v *View) lookup(path string) (named, near []*Entry) {
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		left, right := path[:i], path[i+1:]
		if u := v.byName[left]; u != nil {
			if e := u.byTool[right]; e != nil {
				named = append(named, e)
			} else if e := u.byMember[right]; e != nil {
				near = append(near, e)
			}
		}
		if u := v.byNamespace[left]; u != nil {
			if e := u.byMember[right]; e != nil {
				named = append(named, e)
			} else if e := u.byTool[right]; e != nil {
				near = append(near, e)
			}
		}
	}
	return named, near
}

// bySafePath gives the tool of a safe path, nil if it is none.
func (v *View) bySafePath(path string) *Entry {
	left, right, _ := strings.Cut(path, ".")
	if u := v.byNamespace[left]; u != nil {
		return u.byMember[right]
	}
	return nil
}

func dedupe(es []*Entry) []*Entry {
	var out []*Entry
	for _, e := range es {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// withUpstream gives v with u in the place of the upstream of the same name, whose tools are the
// same.
func (v *View) withUpstream(u *upstream) *View {
	next := *v
	next.byName = maps.Clone(v.byName)
	next.byName[u.name] = u
	next.byNamespace = maps.Clone(v.byNamespace)
	next.byNamespace[u.namespace] = u
	next.upstreams = slices.Clone(v.upstreams)
	for i, o := range next.upstreams {
		if o.name == u.name {
			next.upstreams[i] = u
		}
	}
	return &next
}

// assemble makes a View of sources, whose names and entries it sets anew. What did not change since
// old is taken from there.
func (c *Catalog) assemble(sources map[string]*upstream, old *View) *View {
	v := &View{
		byName:      make(map[string]*upstream, len(sources)),
		byNamespace: make(map[string]*upstream, len(sources)),
		forms:       &lazyForms{},
	}
	names := slices.Sorted(maps.Keys(sources))
	spaces := safeNames(names, reservedNamespaces())
	var all []*upstream
	for i, name := range names {
		u := *sources[name]
		u.namespace = spaces[i]
		v.byName[name] = &u
		v.byNamespace[u.namespace] = &u
		all = append(all, &u)
		if name != tool.Own {
			v.upstreams = append(v.upstreams, &u)
		}
	}
	composed := composedNames(all, c.cfg.Unprefixed)
	v.byComposed = make(map[string]*Entry, len(composed))
	for _, u := range all {
		composed = u.enter(composed, old)
		for _, e := range u.entries {
			v.byComposed[e.Composed] = e
		}
		if u.name != tool.Own {
			v.entries = append(v.entries, u.entries...)
		}
	}
	v.index = &index{upstreams: v.upstreams, lexicon: c.lexicon}
	return v
}

// enter makes the entries of u, with the first of the composed names; it gives the others back.
func (u *upstream) enter(composed []string, old *View) []string {
	mine, rest := composed[:len(u.block.tools)], composed[len(u.block.tools):]
	if old != nil {
		if prev := old.byName[u.name]; prev != nil && prev.block == u.block && prev.namespace == u.namespace &&
			slices.EqualFunc(prev.entries, mine, func(e *Entry, name string) bool { return e.Composed == name }) {
			u.entries, u.byTool, u.byMember = prev.entries, prev.byTool, prev.byMember
			return rest
		}
	}
	n := len(mine)
	u.entries = make([]*Entry, n)
	u.byTool, u.byMember = make(map[string]*Entry, n), make(map[string]*Entry, n)
	for i, t := range u.block.tools {
		e := &Entry{Tool: t, Namespace: u.namespace, Member: u.block.members[i], Composed: mine[i], schema: u.block.schemas[i], parameters: u.block.parameters[i]}
		u.entries[i] = e
		u.byTool[t.Name] = e
		u.byMember[e.Member] = e
	}
	return rest
}

// A Hit is one answer of Search.
type Hit struct {
	Entry *Entry
	Score float64 // larger is better; comparable within one answer only
}

func byScore(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Entry.Tool.Upstream, b.Entry.Tool.Upstream), cmp.Compare(a.Entry.Tool.Name, b.Entry.Tool.Name))
}
