// Package catalog is the index of all tools. It assigns every tool names that are safe in
// JavaScript and in a flat list, and resolves the names that callers write. It checks arguments
// against JSON Schemas, and answers `search`.
//
// Set and Remove change a Catalog, one upstream at a time. Readers use a View, an immutable
// snapshot, and never wait. Everything that comes from an upstream (names, descriptions, schemas)
// is untrusted: it is bounded, and never executed, loaded or followed.
package catalog

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Catalog; the zero value is sensible.
type Config struct {
	// Describe returns the typed call of an entry for the answers of search, in a program's
	// language (Program.Language). If it is nil, search lists the arguments in a plain form. It
	// is called for each hit, concurrently.
	Describe func(e *Entry, language string) Signature
	// Unprefixed omits the upstream's name from the composed name of a tool if no other tool has
	// the same name. Names then change when upstreams come and go.
	Unprefixed bool
}

// A Signature shows how to call a tool.
type Signature struct {
	Code       string // TypeScript: the call's signature and its types, ready to paste
	Example    string // one call, whose arguments the schema accepts
	ResultNote string // a hint if the type of the result is unknown; otherwise empty
}

// A Source describes one upstream to the catalog.
type Source struct {
	Name   string
	Caller tool.Caller
	Tools  []*tool.Tool // must not be changed afterwards
	Health tool.Health
	Offers *tool.Offers // what it offers besides tools; may be nil
	// Withheld are tools that can't be found or called. They must not be changed afterwards.
	Withheld []Withheld
}

// A Withheld is a tool that is not in the catalog. The errors of calls say why.
type Withheld struct {
	Tool    *tool.Tool
	Reason  string // follows the tool's name: "is quarantined: ..."
	Command string // what a person runs to release it, without the tool's path; empty: nothing
}

// A Catalog is the index of all tools. It is safe for concurrent use.
type Catalog struct {
	cfg  Config
	view atomic.Pointer[View]

	mu sync.Mutex // held while the next view is built
}

// New returns an empty Catalog.
func New(cfg Config) *Catalog {
	c := &Catalog{cfg: cfg}
	c.view.Store(c.assemble(nil, nil))
	return c
}

// View returns the current view, with a single atomic load.
func (c *Catalog) View() *View { return c.view.Load() }

// Set adds an upstream, or replaces its tools, Caller and health. It is cheap if the tools are
// unchanged. Of tools with the same name only the first is kept; nil tools are skipped.
func (c *Catalog) Set(s Source) {
	tools := sortedTools(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.view.Load()
	prev := old.byName[s.Name]
	offers := s.Offers
	if offers == nil {
		offers = &tool.Offers{Upstream: s.Name}
	}
	withheld := newWithheld(s)
	if prev != nil && slices.EqualFunc(prev.block.tools, tools, sameTool) &&
		slices.EqualFunc(prev.withheld, withheld, (*withheldTool).isSame) &&
		slices.EqualFunc(prev.offers.Tools, offers.Tools, sameTool) {
		next := *prev
		next.caller, next.health, next.offers = s.Caller, s.Health, offers
		c.view.Store(old.withUpstream(&next))
		return
	}
	sources := maps.Clone(old.byName)
	if sources == nil {
		sources = map[string]*upstream{}
	}
	sources[s.Name] = &upstream{name: s.Name, caller: s.Caller, health: s.Health, offers: offers,
		withheld: withheld, block: newBlock(tools)}
	c.view.Store(c.assemble(sources, old))
}

// Remove removes an upstream and its tools.
func (c *Catalog) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.view.Load()
	if old.byName[name] == nil {
		return
	}
	sources := maps.Clone(old.byName)
	delete(sources, name)
	c.view.Store(c.assemble(sources, old))
}

// Caller returns the Caller of an upstream. It is for the gateway only: its calls bypass the
// gateway's checks.
func (c *Catalog) Caller(upstream string) (tool.Caller, bool) {
	u := c.View().byName[upstream]
	if u == nil || u.caller == nil {
		return nil, false
	}
	return u.caller, true
}

// An upstream is a Source in a View; it is immutable.
type upstream struct {
	name      string
	namespace string
	caller    tool.Caller
	health    tool.Health
	offers    *tool.Offers
	withheld  []*withheldTool // sorted by name
	block     *block
	entries   []*Entry          // in the order of block.tools
	byTool    map[string]*Entry // also has offers.Tools
	byMember  map[string]*Entry
}

// A block holds the data that depends only on the tools of one upstream. It is shared by the Views
// that have the same tools.
type block struct {
	tools   []*tool.Tool      // sorted by name
	members []string          // safe names, in the order of tools
	spelled []string          // spelled as in composed names, in the order of tools
	schemas []*argumentSchema // compiled on first use, in the order of tools

	parameters []*parameters // parsed on first use, in the order of tools

	once sync.Once
	docs *docs // for search; created on first use
}

func newBlock(tools []*tool.Tool) *block {
	b := &block{tools: tools, spelled: make([]string, len(tools)), schemas: make([]*argumentSchema, len(tools)),
		parameters: make([]*parameters, len(tools))}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
		b.spelled[i] = composedSpelling(t.Name)
		b.schemas[i], b.parameters[i] = &argumentSchema{}, &parameters{}
	}
	b.members = safeNames(names, reservedMembers)
	return b
}

// sortedTools returns the tools of s sorted by name, without duplicates, all with s.Name as their
// upstream.
func sortedTools(s Source) []*tool.Tool {
	out := make([]*tool.Tool, 0, len(s.Tools))
	for _, t := range s.Tools {
		switch {
		case t == nil:
			continue
		case t.Upstream != s.Name:
			own := *t
			own.Upstream = s.Name
			t = &own
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b *tool.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b *tool.Tool) bool { return a.Name == b.Name })
}

func sameTool(a, b *tool.Tool) bool {
	if a == b {
		return true
	}
	return a.Upstream == b.Upstream && a.Name == b.Name && a.Method == b.Method && a.Judge == b.Judge &&
		a.Title == b.Title && a.Description == b.Description &&
		bytes.Equal(a.InputSchema, b.InputSchema) && bytes.Equal(a.OutputSchema, b.OutputSchema) &&
		bytes.Equal(a.Raw, b.Raw) && sameAnnotations(a.Annotations, b.Annotations)
}

func sameAnnotations(a, b tool.Annotations) bool {
	same := func(x, y *bool) bool { return x == y || x != nil && y != nil && *x == *y }
	return same(a.ReadOnly, b.ReadOnly) && same(a.Destructive, b.Destructive) &&
		same(a.Idempotent, b.Idempotent) && same(a.OpenWorld, b.OpenWorld)
}
