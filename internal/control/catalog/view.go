package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Entry is one tool in a View, with its names. It is immutable.
type Entry struct {
	Tool      *tool.Tool
	Namespace string // the upstream as a JavaScript identifier
	Member    string // the tool as a JavaScript identifier, unique in its namespace
	Composed  string // for flat lists: at most 64 of [A-Za-z0-9_-], unique in the catalog

	schema     *argumentSchema
	parameters *parameters
}

// Path returns the name that programs use, "<namespace>.<member>". Resolve accepts it.
func (e *Entry) Path() string { return e.Namespace + "." + e.Member }

// Validate checks the arguments of a call against the tool's JSON Schema; nil arguments mean {}.
// The error is a *tool.Error of kind Invalid that lists each wrong argument, the expected value and
// the nearest match.
func (e *Entry) Validate(args json.RawMessage) error {
	s := e.schema
	if s == nil {
		s = &argumentSchema{} // an entry created outside a catalog
	}
	return s.validate(e.Tool, args)
}

// Fill returns the arguments of a call with the defaults of missing arguments that the schema
// requires. If there is a default to fill in, nil arguments mean {}.
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

// Doubt returns a note on arguments that the tool's schema allows but doesn't declare, such as
// misspelled names. It is empty if there are none.
func (e *Entry) Doubt(args json.RawMessage) string {
	if e.schema == nil {
		return ""
	}
	text := describeUnknownArguments(e.schema.look(e.Tool).declared, args)
	if text == "" {
		return ""
	}
	return e.Path() + ": " + text
}

// ListArguments lists the arguments that the tool's schema declares, in one line: { owner: string,
// state?: one of "open", "closed" }. It is empty if the schema declares none.
func (e *Entry) ListArguments() string {
	s := e.schema
	if s == nil {
		s = &argumentSchema{}
	}
	if s.prepare(e.Tool); s.err != nil || len((&explainer{root: s.compiled}).properties(nil)) == 0 {
		return ""
	}
	return formatParameters(s.compiled)
}

// A View is a snapshot of the catalog. It is immutable, and safe for concurrent use.
type View struct {
	upstreams   []*upstream // sorted by name, without the reserved one
	byName      map[string]*upstream
	byNamespace map[string]*upstream
	byComposed  map[string]*Entry
	entries     []*Entry        // without the tools of the reserved upstream
	index       *index          // for search; shared by Views with the same entries
	hidden      map[*Entry]bool // entries removed by Only
	whole       *View           // the View that Only filtered; nil for an unfiltered one

	forms *lazyForms
}

// Only returns the View without the entries that keep rejects, and without the upstreams that have
// none left. It returns v itself if keep rejects none. Names are unchanged, and searches share the
// index of v.
func (v *View) Only(keep func(*Entry) bool) *View {
	hidden := map[*Entry]bool{}
	secret := false // one of the withheld tools
	for _, u := range v.byName {
		secret = secret || slices.ContainsFunc(u.withheld, func(w *withheldTool) bool { return !keep(w.entryIn(u)) })
		for _, e := range u.byTool {
			if !keep(e) {
				hidden[e] = true
			}
		}
	}
	if len(hidden) == 0 && !secret {
		return v
	}
	out := func(e *Entry) bool { return hidden[e] }
	next := &View{
		byName: map[string]*upstream{}, byNamespace: map[string]*upstream{}, byComposed: maps.Clone(v.byComposed),
		entries: slices.DeleteFunc(slices.Clone(v.entries), out), index: v.index, hidden: hidden, whole: v,
		forms: &lazyForms{},
	}
	maps.DeleteFunc(next.byComposed, func(_ string, e *Entry) bool { return out(e) })
	for name, u := range v.byName {
		left := *u
		left.entries = slices.DeleteFunc(slices.Clone(u.entries), out)
		left.byTool, left.byMember = maps.Clone(u.byTool), maps.Clone(u.byMember)
		maps.DeleteFunc(left.byTool, func(_ string, e *Entry) bool { return out(e) })
		left.withheld = slices.DeleteFunc(slices.Clone(u.withheld), func(w *withheldTool) bool {
			return !keep(w.entryIn(u))
		})
		if len(left.byTool)+len(left.withheld) == 0 && len(u.byTool) > 0 {
			continue
		}
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

// Same reports whether both are the same View, or the same View with the same entries removed.
func (v *View) Same(o *View) bool {
	return v == o || v.whole != nil && v.whole == o.whole && maps.Equal(v.hidden, o.hidden)
}

// Entry returns the entry of a tool by the names of its upstream and of the tool, including
// Biplane's own tools. It returns nil if there is none.
func (v *View) Entry(upstream, name string) *Entry {
	if u := v.byName[upstream]; u != nil {
		return u.byTool[name]
	}
	return nil
}

// Entries returns all tools except Biplane's own, sorted by the names of upstream and tool. The
// caller must not change the slice.
func (v *View) Entries() []*Entry { return v.entries }

// AllEntries returns all tools that can be called, sorted by path: also Biplane's own, and those
// that stand for the methods of resources and prompts.
func (v *View) AllEntries() []*Entry {
	var out []*Entry
	for _, u := range v.byName {
		out = slices.AppendSeq(out, maps.Values(u.byTool))
	}
	slices.SortFunc(out, func(a, b *Entry) int { return strings.Compare(a.Tool.Path(), b.Tool.Path()) })
	return out
}

// Upstreams returns all upstreams except Biplane itself, sorted by name.
func (v *View) Upstreams() []tool.UpstreamInfo {
	out := make([]tool.UpstreamInfo, len(v.upstreams))
	for i, u := range v.upstreams {
		out[i] = tool.UpstreamInfo{Name: u.name, Namespace: u.namespace, Health: u.health, Tools: len(u.entries)}
	}
	return out
}

// Resolve returns the tool with a path: its exact path, its safe path ("github.list_issues"),
// optionally prefixed with "tools.", or its composed name. For an unknown path, the error is of
// kind NotFound, and mentions the nearest names and the upstream's state. If a path is ambiguous
// (names may contain dots), the error lists the safe paths.
func (v *View) Resolve(path string) (*Entry, error) {
	if len(path) > maxPath {
		return nil, tool.Errorf(tool.NotFound, "no tool has a name of %d bytes: %s", len(path), quoteShort(path))
	}
	e, err := v.plain(path)
	if e == nil && err == nil {
		if err := v.refuseWithheld(path, false); err != nil {
			return nil, err
		}
		if found := v.findCandidates(path); len(found) > 1 {
			return nil, severalTools(path, found)
		}
		return nil, v.notFound(path)
	}
	return e, err
}

// plain returns the tool with a path in the plain form. It returns nil without an error if there is
// none.
func (v *View) plain(path string) (*Entry, error) {
	if err := v.refuseWithheld(path, true); err != nil {
		return nil, err
	}
	named, near := v.lookup(path)
	var rest, nearRest []*Entry
	if after, ok := strings.CutPrefix(path, "tools."); ok {
		if e := v.bySafePath(after); e != nil { // the form used in programs
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

// lookup tries each dot of path as the separator between upstream and tool. named are the tools
// whose exact or safe path it is. A safe path has one dot and is no other tool's exact path (see
// safeNames), so its meaning never changes. near are the tools for which one half is exact and the
// other safe.
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

// bySafePath returns the tool with a safe path, or nil.
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

// withUpstream returns a copy of v in which u replaces the upstream with the same name and the same
// tools.
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

// assemble builds a View of sources, and assigns their names and entries. Unchanged parts are
// reused from old.
func (c *Catalog) assemble(sources map[string]*upstream, old *View) *View {
	v := &View{
		byName:      make(map[string]*upstream, len(sources)),
		byNamespace: make(map[string]*upstream, len(sources)),
		forms:       &lazyForms{},
	}
	names := slices.Sorted(maps.Keys(sources))
	spaces := safeNames(names, reservedNamespaces)
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
	v.index = &index{upstreams: v.upstreams}
	return v
}

// enter creates the entries of u, with the first of the composed names, and returns the remaining
// names.
func (u *upstream) enter(composed []string, old *View) []string {
	mine, rest := composed[:len(u.block.tools)], composed[len(u.block.tools):]
	if old != nil {
		if prev := old.byName[u.name]; prev != nil && prev.block == u.block && prev.namespace == u.namespace &&
			slices.EqualFunc(prev.offers.Tools, u.offers.Tools, sameTool) &&
			slices.EqualFunc(prev.entries, mine, func(e *Entry, name string) bool { return e.Composed == name }) {
			u.entries, u.byTool, u.byMember = prev.entries, prev.byTool, prev.byMember
			return rest
		}
	}
	n := len(mine)
	u.entries = make([]*Entry, n)
	u.byTool, u.byMember = make(map[string]*Entry, n), make(map[string]*Entry, n)
	for i, t := range u.block.tools {
		e := &Entry{Tool: t, Namespace: u.namespace, Member: u.block.members[i], Composed: mine[i],
			schema: u.block.schemas[i], parameters: u.block.parameters[i]}
		u.entries[i] = e
		u.byTool[t.Name] = e
		u.byMember[e.Member] = e
	}
	u.enterOffers()
	return rest
}

// enterOffers creates the entries of the tools that stand for other methods. If a listed
// tool has the same name, the method is not available.
func (u *upstream) enterOffers() {
	for _, t := range u.offers.Tools {
		e := &Entry{Tool: t, Namespace: u.namespace, Member: strings.ReplaceAll(t.Name, ".", "_"),
			schema: &argumentSchema{}, parameters: &parameters{}}
		if u.byTool[t.Name] == nil && u.byMember[e.Member] == nil {
			u.byTool[t.Name], u.byMember[e.Member] = e, e
		}
	}
}

// Offers returns what the upstreams offer besides tools, sorted by the name of the upstream: only
// what can be read or got with the tools in the View, and the instructions of upstreams that have
// any tool in it.
func (v *View) Offers() []*tool.Offers {
	var out []*tool.Offers
	for _, u := range v.upstreams {
		o := tool.Offers{Upstream: u.name}
		if len(u.byTool) > 0 {
			o.Instructions = u.offers.Instructions
		}
		for _, t := range u.offers.Tools {
			e := u.byTool[t.Name]
			if e == nil || e.Tool.Method != t.Method {
				continue
			}
			o.Tools = append(o.Tools, e.Tool)
			switch t.Method {
			case tool.ReadResource:
				o.Resources, o.Templates = u.offers.Resources, u.offers.Templates
			case tool.GetPrompt:
				o.Prompts = u.offers.Prompts
			}
		}
		if len(o.Tools) > 0 || o.Instructions != nil {
			out = append(out, &o)
		}
	}
	return out
}

// A Hit is one result of Search.
type Hit struct {
	Entry *Entry
	Score float64  // larger is better; comparable only within one result list
	Also  []*Entry // the same tool at other upstreams: equal name, description and schemas
}
