package daemon

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// inlined is the largest catalog, in tools, that mode auto considers writing into the description
// of execute. mcpserver decides by its size in tokens.
const inlined = 40

// An index shows the catalog to the MCP server and the HTTP API. It describes tools, but can't call
// them.
type index struct {
	policies  *policies // decide which part of the catalog a principal may see
	catalog   *catalog.Catalog
	upstreams listed
	describer describer

	changes atomic.Int64 // counts the changes of the tools and of what is observed of their results

	mu    sync.Mutex
	made  int64 // value of changes when trees was created
	trees *queue.Cache[*tree, *tree]
}

// A listed tells an index about the upstreams.
type listed interface {
	// WaitReady waits until all upstreams have listed their tools, or can't for now.
	WaitReady(ctx context.Context)
	// WaitReadyFor also waits for the tools that a principal's credentials are needed to list.
	WaitReadyFor(ctx context.Context, p tool.Principal)
	// addResources adds what only the lists of a principal have to offers.
	addResources(ctx context.Context, all []*tool.Offers, p tool.Principal)
	// weakerHints returns the claim of a tool that waits for acceptance, or nil if none does.
	weakerHints(t *tool.Tool, path string) *api.WeakerHints
}

// Tools returns all tools that p may see.
func (x *index) Tools(ctx context.Context, p tool.Principal) []api.Tool {
	x.upstreams.WaitReadyFor(ctx, p)
	var out []api.Tool
	for _, e := range x.policies.visible(p).Entries() {
		out = append(out, x.line(e))
	}
	return out
}

// Tool returns the details of a tool, given any of its names.
func (x *index) Tool(ctx context.Context, p tool.Principal, path string) (*api.ToolDetail, error) {
	x.upstreams.WaitReadyFor(ctx, p)
	e, err := x.policies.visible(p).Resolve(path)
	if err != nil {
		return nil, err
	}
	d := x.detail(e)
	return &d, nil
}

// Search returns the tools that match a query, best first.
func (x *index) Search(ctx context.Context, p tool.Principal, query string, limit int) ([]api.Hit, error) {
	x.upstreams.WaitReadyFor(ctx, p)
	if limit <= 0 {
		limit = 5
	}
	var out []api.Hit
	for _, h := range x.policies.visible(p).Search(query, min(limit, 50)) {
		hit := api.Hit{ToolDetail: x.detail(h.Entry), Score: h.Score}
		for _, e := range h.Also {
			hit.Also = append(hit.Also, e.Path())
		}
		out = append(out, hit)
	}
	return out, nil
}

// Types returns the declarations of all tools that p may see, as files.
func (x *index) Types(ctx context.Context, p tool.Principal) map[string]string {
	x.upstreams.WaitReadyFor(ctx, p)
	return x.tree(p)
}

// A tree holds the declarations of some tools.
type tree struct {
	entries []*catalog.Entry
	write   func() map[string]string // once
}

// maxTrees is the number of trees in the cache; principals that see the same tools share one.
const maxTrees = 16

// tree returns the declarations of all tools that p may see, from the cache unless the tools have
// changed. It writes them without holding x.mu.
func (x *index) tree(p tool.Principal) map[string]string {
	changes := x.changes.Load() // loaded before the entries are read
	entries := x.policies.visible(p).Entries()
	return x.treeOf(p, changes, entries).write()
}

func (x *index) treeOf(p tool.Principal, changes int64, entries []*catalog.Entry) *tree {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.trees == nil || x.made != changes {
		x.made, x.trees = changes, queue.NewCache[*tree, *tree](maxTrees, 0)
	}
	for t := range x.trees.Keys() {
		if slices.Equal(t.entries, entries) {
			t, _ = x.trees.Use(t)
			return t
		}
	}
	t := &tree{entries, sync.OnceValue(func() map[string]string { return x.describer.declareTools(entries) })}
	x.trees.Put(p.ID, t, t, 0)
	return t
}

// declareTools returns the declarations of tools, as files.
func (d describer) declareTools(entries []*catalog.Entry) map[string]string {
	items := make([]typegen.Item, len(entries))
	for i, e := range entries {
		items[i] = d.describeItem(e)
	}
	files := typegen.Tree(items)
	maps.Copy(files, typegen.PythonTree(items))
	return files
}

// ListTools returns the tools with their names in mode direct.
func (x *index) ListTools(ctx context.Context, p tool.Principal) []mcpserver.Listed {
	x.upstreams.WaitReadyFor(ctx, p)
	entries := x.policies.visible(p).Entries()
	out := make([]mcpserver.Listed, len(entries))
	for i, e := range entries {
		out[i] = mcpserver.Listed{Name: e.Composed, Tool: e.Tool}
	}
	return out
}

// LookupTool finds a tool by any of its names, whether or not the principal may see it. The gateway
// refuses and records calls that are not allowed.
func (x *index) LookupTool(ctx context.Context, _ tool.Principal, name string) *tool.Tool {
	x.upstreams.WaitReady(ctx)
	e, err := x.catalog.View().Resolve(name)
	if err != nil {
		return nil
	}
	return e.Tool
}

// ListOffers returns what upstreams offer besides tools: what p may use, and everything.
func (x *index) ListOffers(ctx context.Context, p tool.Principal) (visible, all []*tool.Offers) {
	x.upstreams.WaitReadyFor(ctx, p)
	visible = x.policies.visible(p).Offers()
	x.upstreams.addResources(ctx, visible, p)
	return visible, x.catalog.View().Offers()
}

// ListInstructions returns the instructions of the upstreams that p sees. Those of upstreams with
// credentials: person are never passed on, so it connects to none of them.
func (x *index) ListInstructions(ctx context.Context, p tool.Principal) (out []*tool.Tool) {
	x.upstreams.WaitReady(ctx)
	for _, o := range x.policies.visible(p).Offers() {
		if o.Instructions != nil {
			out = append(out, o.Instructions)
		}
	}
	return out
}

// DescribeTools returns the signatures of a small catalog; empty for a larger one.
func (x *index) DescribeTools(ctx context.Context, p tool.Principal) string {
	x.upstreams.WaitReadyFor(ctx, p)
	entries := x.policies.visible(p).Entries()
	if len(entries) == 0 || len(entries) > inlined {
		return ""
	}
	var b strings.Builder
	b.WriteString("These are all the tools there are:\n")
	for _, e := range entries {
		b.WriteString("\n" + x.describer.describeEntry(e, "").Code + "\n")
		if x.describer.wireObservation(e.Tool) != nil {
			b.WriteString("// result type observed, not declared\n")
		}
	}
	return b.String()
}

func (x *index) line(e *catalog.Entry) api.Tool {
	return api.Tool{
		Path: e.Path(), Upstream: e.Tool.Upstream, Name: e.Tool.Name, Listed: e.Composed, Title: e.Tool.Title,
		Description: e.Tool.Description, ReadOnly: e.Tool.Annotations.ReadOnly,
		Weaker: x.upstreams.weakerHints(e.Tool, e.Path()),
	}
}

func (x *index) detail(e *catalog.Entry) api.ToolDetail {
	s := x.describer.describeEntry(e, "")
	d := api.ToolDetail{
		Tool: x.line(e), Signature: s.Code, Example: s.Example, ResultNote: s.ResultNote,
		InputSchema: e.Tool.InputSchema, OutputSchema: e.Tool.OutputSchema,
		Observed: x.describer.wireObservation(e.Tool),
	}
	if e.Tool.Annotations != (tool.Annotations{}) {
		if raw, err := json.Marshal(e.Tool.Annotations); err == nil {
			d.Annotations = raw
		}
	}
	return d
}
