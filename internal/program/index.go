package program

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An index is what checks need of one View. It is made once for each View.
type index struct {
	view   *catalog.View
	spaces map[string]*space // by namespace
	byName map[string]*space // by the upstream's exact name

	mu      sync.Mutex
	schemas map[*catalog.Entry]any // the input schemas that were asked for, decoded; nil for one that is no good
}

// A space is an upstream.
type space struct{ info catalog.UpstreamInfo }

// current says whether the list of tools is that of now, so that a tool which isn't there does not exist.
func (s *space) current() bool { return s.info.Health.State == tool.Ready && !s.info.Health.Stale }

// indexOf gives the index of the catalog as it is now, or nil where there is none.
func (p *Preparer) indexOf() *index {
	if p.cfg.Catalog == nil {
		return nil
	}
	v := p.cfg.Catalog()
	if v == nil {
		return nil
	}
	if x := p.index.Load(); x != nil && x.view == v {
		return x
	}
	x := &index{view: v, spaces: map[string]*space{}, byName: map[string]*space{}, schemas: map[*catalog.Entry]any{}}
	for _, u := range v.Upstreams() {
		s := &space{info: u}
		x.spaces[u.Namespace], x.byName[u.Name] = s, s
	}
	p.index.Store(x)
	return x
}

// space gives the upstream of a safe or exact name, or nil.
func (x *index) space(name string) *space {
	if s := x.spaces[name]; s != nil {
		return s
	}
	return x.byName[name]
}

// upstreamOf gives the upstream that a path of callTool begins with, by its safe or exact name, or nil.
func (x *index) upstreamOf(path string) *space {
	path = strings.TrimPrefix(path, "tools.")
	for i := range len(path) {
		if path[i] == '.' {
			if s := x.space(path[:i]); s != nil {
				return s
			}
		}
	}
	return nil
}

// schema gives the decoded input schema of a tool, or nil.
func (x *index) schema(e *catalog.Entry) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, ok := x.schemas[e]; ok {
		return s
	}
	var s any
	if json.Unmarshal(e.Tool.InputSchema, &s) != nil {
		s = nil
	}
	x.schemas[e] = s
	return s
}

// names lists the namespaces for a message.
func (x *index) names() string {
	list := slices.Sorted(maps.Keys(x.spaces))
	if len(list) > 20 {
		return strings.Join(list[:20], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}
