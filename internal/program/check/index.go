package check

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Index is what checks need of one View. It is safe for concurrent use.
type Index struct {
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

// New makes the index of a View.
func New(v *catalog.View) *Index {
	x := &Index{view: v, spaces: map[string]*space{}, byName: map[string]*space{}, schemas: map[*catalog.Entry]any{}}
	for _, u := range v.Upstreams() {
		s := &space{info: u}
		x.spaces[u.Namespace], x.byName[u.Name] = s, s
	}
	return x
}

// View is the View that the index is of; nil for no index.
func (x *Index) View() *catalog.View {
	if x == nil {
		return nil
	}
	return x.view
}

// space gives the upstream of a safe or exact name, or nil.
func (x *Index) space(name string) *space {
	if s := x.spaces[name]; s != nil {
		return s
	}
	return x.byName[name]
}

// upstreamOf gives the upstream that a path of callTool begins with, by its safe or exact name, or nil.
func (x *Index) upstreamOf(path string) *space {
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
func (x *Index) schema(e *catalog.Entry) any {
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

// Names gives the namespaces, sorted.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.spaces)) }

// Unknown says for the agent that there is no tool of a path, where that is sure; else it gives "".
func (x *Index) Unknown(path string) string {
	_, err := x.view.Find(path)
	var te *tool.Error
	if !errors.As(err, &te) || te.Kind != tool.NotFound {
		return ""
	}
	if s := x.upstreamOf(path); s != nil && !s.current() {
		return ""
	}
	return te.Msg
}

// names lists the namespaces for a message.
func (x *Index) names() string {
	list := x.Names()
	if len(list) > 20 {
		return strings.Join(list[:20], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}
