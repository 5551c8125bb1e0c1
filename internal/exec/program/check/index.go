package check

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// An Index holds the data that checks need about one Directory. It is safe for concurrent use.
type Index struct {
	view   tool.Directory
	spaces map[string]*space // by namespace
	byName map[string]*space // by the upstream's exact name

	mu      sync.Mutex
	schemas map[tool.Entry]schema.Schema // input schemas of the tools requested so far; zero if invalid
}

// A space is an upstream.
type space struct{ info tool.UpstreamInfo }

// current reports whether the upstream's list of tools is up to date, so that a missing tool
// doesn't exist.
func (s *space) current() bool { return s.info.Health.State == tool.Ready && !s.info.Health.Stale }

// New returns the index of a Directory.
func New(v tool.Directory) *Index {
	x := &Index{view: v, spaces: map[string]*space{}, byName: map[string]*space{},
		schemas: map[tool.Entry]schema.Schema{}}
	for _, u := range v.Upstreams() {
		s := &space{info: u}
		x.spaces[u.Namespace], x.byName[u.Name] = s, s
	}
	return x
}

// Directory returns the Directory of the index, or nil for a nil index.
func (x *Index) Directory() tool.Directory {
	if x == nil {
		return nil
	}
	return x.view
}

// space returns the upstream with a safe or exact name, or nil.
func (x *Index) space(name string) *space {
	if s := x.spaces[name]; s != nil {
		return s
	}
	return x.byName[name]
}

// upstreamOf returns the upstream at the start of a path of callTool, by its safe or exact name, or
// nil.
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

// inputSchema returns the input schema of a tool, or the zero Schema if it is invalid.
func (x *Index) inputSchema(e tool.Entry) schema.Schema {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, ok := x.schemas[e]; ok {
		return s
	}
	s, _ := schema.Parse(e.InputSchema())
	x.schemas[e] = s
	return s
}

// Names returns the namespaces, sorted.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.spaces)) }

// Unknown returns a message for the agent if there certainly is no tool with a path, and ""
// otherwise.
func (x *Index) Unknown(path string) string {
	_, err := x.view.FindTool(path)
	var te *tool.Error
	if !errors.As(err, &te) || te.Kind != tool.NotFound {
		return ""
	}
	if s := x.upstreamOf(path); s != nil && !s.current() {
		return ""
	}
	return te.Msg
}

// names returns a list of the namespaces for a message.
func (x *Index) names() string {
	list := x.Names()
	if len(list) > 20 {
		return strings.Join(list[:20], ", ") + ", …"
	}
	return strings.Join(list, ", ")
}
