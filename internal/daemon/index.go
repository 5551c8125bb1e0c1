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
	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/mcpserver"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/typegen"
)

// inlined is the largest catalog that mode auto thinks of writing into the description of execute,
// in tools. Whether it does is a matter of tokens, and mcpserver's.
const inlined = 40

// An index shows the catalog to the edges: what exists, never how to call it.
type index struct {
	visible func(tool.Principal) *catalog.View // what of the catalog somebody may see
	catalog *catalog.Catalog
	ready   func(context.Context)
	weaker  func(t *tool.Tool, path string) *api.WeakerHints // that wait for a person; nil where none do

	changes atomic.Int64 // counts the changes of the tools

	mu    sync.Mutex
	made  int64 // changes when files were made
	trees *queue.Cache[*tree, *tree]
}

// describe writes the typed call of an entry.
func describe(e *catalog.Entry, language string) catalog.Signature {
	write := typegen.Signature
	if language == "python" {
		write = typegen.PythonSignature
	}
	code, example, note := write(e.Tool, typegen.Names{Namespace: e.Namespace, Member: e.Member})
	return catalog.Signature{Code: code, Example: example, ResultNote: note}
}

// Tools lists all tools that p may see.
func (x *index) Tools(ctx context.Context, p tool.Principal) []api.Tool {
	x.ready(ctx)
	var out []api.Tool
	for _, e := range x.visible(p).Entries() {
		out = append(out, x.line(e))
	}
	return out
}

// Tool gives all that is known of a tool, by any of its names.
func (x *index) Tool(ctx context.Context, p tool.Principal, path string) (*api.ToolDetail, error) {
	x.ready(ctx)
	e, err := x.visible(p).Resolve(path)
	if err != nil {
		return nil, err
	}
	d := x.detail(e)
	return &d, nil
}

// Search gives what a search finds, best first.
func (x *index) Search(ctx context.Context, p tool.Principal, query string, limit int) ([]api.Hit, error) {
	x.ready(ctx)
	if limit <= 0 {
		limit = 5
	}
	var out []api.Hit
	for _, h := range x.visible(p).Search(query, min(limit, 50)) {
		out = append(out, api.Hit{ToolDetail: x.detail(h.Entry), Score: h.Score})
	}
	return out, nil
}

// Types gives the declarations of all tools that p may see, as files.
func (x *index) Types(ctx context.Context, p tool.Principal) map[string]string {
	x.ready(ctx)
	return x.tree(p)
}

// A tree is the declarations of some tools.
type tree struct {
	entries []*catalog.Entry
	write   func() map[string]string // once
}

// maxTrees is of how many different choices of tools the declarations are kept.
const maxTrees = 16

// tree gives the declarations of all tools that p may see, made anew when these changed. Nobody
// else waits until they are written.
func (x *index) tree(p tool.Principal) map[string]string {
	changes := x.changes.Load() // before the entries are looked at
	entries := x.visible(p).Entries()
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
	t := &tree{entries, sync.OnceValue(func() map[string]string { return declarations(entries) })}
	x.trees.Put(p.ID, t, t, 0)
	return t
}

// declarations writes the declarations of tools, as files.
func declarations(entries []*catalog.Entry) map[string]string {
	items := make([]typegen.Item, len(entries))
	for i, e := range entries {
		items[i] = typegen.Item{Tool: e.Tool, Names: typegen.Names{Namespace: e.Namespace, Member: e.Member}}
	}
	files := typegen.Tree(items)
	maps.Copy(files, typegen.PythonTree(items))
	return files
}

// listed gives the tools under the names of mode direct.
func (x *index) listed(ctx context.Context, p tool.Principal) []mcpserver.Listed {
	x.ready(ctx)
	entries := x.visible(p).Entries()
	out := make([]mcpserver.Listed, len(entries))
	for i, e := range entries {
		out[i] = mcpserver.Listed{Name: e.Composed, Tool: e.Tool}
	}
	return out
}

// lookup finds a tool by any of its names, whoever asks: the door refuses and records what somebody
// may not call.
func (x *index) lookup(ctx context.Context, _ tool.Principal, name string) *tool.Tool {
	x.ready(ctx)
	e, err := x.catalog.View().Resolve(name)
	if err != nil {
		return nil
	}
	return e.Tool
}

// inline writes a small catalog in full.
func (x *index) inline(ctx context.Context, p tool.Principal) string {
	x.ready(ctx)
	entries := x.visible(p).Entries()
	if len(entries) == 0 || len(entries) > inlined {
		return ""
	}
	var b strings.Builder
	b.WriteString("These are all the tools there are:\n")
	for _, e := range entries {
		b.WriteString("\n" + describe(e, "").Code + "\n")
	}
	return b.String()
}

func (x *index) line(e *catalog.Entry) api.Tool {
	return api.Tool{
		Path: e.Path(), Upstream: e.Tool.Upstream, Name: e.Tool.Name, Listed: e.Composed, Title: e.Tool.Title,
		Description: e.Tool.Description, ReadOnly: e.Tool.Annotations.ReadOnly, Weaker: x.weaker(e.Tool, e.Path()),
	}
}

func (x *index) detail(e *catalog.Entry) api.ToolDetail {
	s := describe(e, "")
	d := api.ToolDetail{
		Tool: x.line(e), Signature: s.Code, Example: s.Example, ResultNote: s.ResultNote,
		InputSchema: e.Tool.InputSchema, OutputSchema: e.Tool.OutputSchema,
	}
	if e.Tool.Annotations != (tool.Annotations{}) {
		if raw, err := json.Marshal(e.Tool.Annotations); err == nil {
			d.Annotations = raw
		}
	}
	return d
}
