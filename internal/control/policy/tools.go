package policy

import (
	"fmt"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Rule holds the administrator's settings of the tools that match a pattern. They override the
// upstream's hints. If several rules match a tool, their tags and labels are joined, and of
// differing hints the more cautious one counts. Thus the order of rules never matters.
type Rule struct {
	Upstream    string // matches all of its tools; Pattern is ignored
	Pattern     string // matches exact paths, with * for any characters: "github.*", "*.delete_*"
	Tags        []string
	Labels      []string // see Labels
	ReadOnly    *bool
	Destructive *bool
	Idempotent  *bool
	OpenWorld   *bool
}

// Sources returns the labels of data from a tool. A program that reads the data carries them on.
func Sources() []string { return tool.SourceLabels() }

// Labels returns all labels that tools and upstreams may have: Sources, and two that describe where
// a tool's arguments go.
func Labels() []string { return append(Sources(), "public", "external") }

// String returns all settings of the rule.
func (r Rule) String() string {
	flag := func(b *bool) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(*b)
	}
	return fmt.Sprintf("rule %q %q %q %q %s %s %s %s", r.Upstream, r.Pattern, sortList(r.Tags), sortList(r.Labels),
		flag(r.ReadOnly), flag(r.Destructive), flag(r.Idempotent), flag(r.OpenWorld))
}

func sortList(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// MatchesTool reports whether the rule matches a tool, in any spelling of its path.
func (r Rule) MatchesTool(t *tool.Tool) bool {
	if r.Upstream != "" {
		return r.Upstream == t.Upstream
	}
	for i, path := range t.Spellings() {
		if pattern := r.Pattern; i == 0 && matchesPattern(pattern, path) || i > 0 &&
			matchesPattern(tool.SnakePattern(pattern), path) {
			return true
		}
	}
	return false
}

// matchesPattern reports whether a path matches a pattern, in which * stands for any characters.
func matchesPattern(pattern, path string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, head) {
		return false
	}
	if !star {
		return path == pattern
	}
	path = path[len(head):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(path, part)
		}
		i := strings.Index(path, part)
		if i < 0 {
			return false
		}
		path, rest = path[i+len(part):], next
	}
}

// The names of entities and actions in policies.
const (
	userType     = cedar.EntityType("User")
	groupType    = cedar.EntityType("Group")
	toolType     = cedar.EntityType("Tool")
	upstreamType = cedar.EntityType("Upstream")
	actionType   = cedar.EntityType("Action")

	callAction    = "call"
	executeAction = "execute"
	revealAction  = "reveal"
)

// isOwn reports whether a tool is one of Biplane's own that only show what policy allows to be
// seen. These are search, which lists tools that may be called, and resume, which returns a
// program's result to the principal that ran it.
func isOwn(t *tool.Tool) bool {
	return t.Upstream == tool.Own && (t.Name == "search" || t.Name == "resume")
}

// facts holds what policies know about a tool.
type facts struct {
	tool   *tool.Tool
	entity cedar.Entity
	action string
	comes  []string // the labels of its results, sorted
	reads  bool     // it only reads, as in Engine.ReadOnly
	shape  *shape   // of its arguments
	steady bool     // decisions depend neither on the arguments nor on the time
}

// ReadOnly reports whether a tool only reads according to the policies: the administrator's setting
// overrides the upstream's hint.
func (e *Engine) ReadOnly(t *tool.Tool) bool { return e.toolFacts(t).reads }

// toolFacts returns the facts of a tool, from the cache if possible.
func (e *Engine) toolFacts(t *tool.Tool) *facts {
	path := t.Path()
	if v, ok := e.known.Load(path); ok {
		if f := v.(*facts); f.tool == t {
			return f
		}
	}
	f := newFacts(t, e.cfg.Rules)
	if e.reads {
		f.shape = shapeOf(t.InputSchema)
	}
	f.steady = t.Judge == nil && !slices.ContainsFunc(e.rules, func(r *rule) bool {
		return r.varies && inScope(r.policy.AST().Resource, f.entity)
	})
	e.known.Store(path, f)
	return f
}

func newFacts(t *tool.Tool, rules []Rule) *facts {
	h := t.Annotations
	f := &facts{tool: t, action: callAction}
	if t.Upstream == tool.Own && t.Name == "execute" || tool.UsesSandbox(t) { // both run programs in isolation
		f.action = executeAction
	}
	var tags, labels []string
	var said Rule
	for _, r := range rules {
		if !r.MatchesTool(t) {
			continue
		}
		tags, labels = append(tags, r.Tags...), append(labels, r.Labels...)
		said.ReadOnly = joinSettings(said.ReadOnly, r.ReadOnly, false)
		said.Destructive = joinSettings(said.Destructive, r.Destructive, true)
		said.Idempotent = joinSettings(said.Idempotent, r.Idempotent, false)
		said.OpenWorld = joinSettings(said.OpenWorld, r.OpenWorld, true)
	}
	if t.Judge != nil && !h.Reads() {
		said.ReadOnly = nil // this call writes, whatever is said of the tool
	}
	f.comes = slices.DeleteFunc(sortList(labels), func(l string) bool { return !slices.Contains(Sources(), l) })
	readOnly := effectiveHint(said.ReadOnly, h.ReadOnly, false)
	f.reads = readOnly
	f.entity = cedar.Entity{
		UID:     cedar.NewEntityUID(toolType, cedar.String(t.Path())),
		Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID(upstreamType, cedar.String(t.Upstream))),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name": cedar.String(t.Name), "upstream": cedar.String(t.Upstream),
			"readOnly":    cedar.Boolean(readOnly),
			"destructive": cedar.Boolean(!readOnly && effectiveHint(said.Destructive, h.Destructive, true)),
			"idempotent":  cedar.Boolean(readOnly || effectiveHint(said.Idempotent, h.Idempotent, false)),
			"openWorld":   cedar.Boolean(effectiveHint(said.OpenWorld, h.OpenWorld, true)),
			"tags":        setOf(tags), "labels": setOf(labels),
		}),
	}
	return f
}

// joinSettings joins two settings; if they differ, the result is worst.
func joinSettings(a, b *bool, worst bool) *bool {
	switch {
	case a == nil:
		return b
	case b == nil || *a == *b:
		return a
	}
	return &worst
}

// effectiveHint returns the administrator's setting, otherwise the upstream's hint, otherwise the
// specification's default.
func effectiveHint(said, hint *bool, unsaid bool) bool {
	switch {
	case said != nil:
		return *said
	case hint != nil:
		return *hint
	}
	return unsaid
}

func setOf(list []string) cedar.Set {
	values := make([]cedar.Value, len(list))
	for i, s := range list {
		values[i] = cedar.String(s)
	}
	return cedar.NewSet(values...)
}

// SourceOf returns the labels of a tool's results, a sorted subset of Sources. Callers must not
// modify them. Answers of hosts are always untrusted. Biplane's other tools report the labels of
// their programs' data themselves.
func (e *Engine) SourceOf(t *tool.Tool) []string {
	comes := e.toolFacts(t).comes
	switch {
	case ReachesNetwork(t):
		return tool.JoinLabels(comes, []string{tool.LabelUntrusted})
	case t.Upstream == tool.Own:
		return nil
	}
	return comes
}
