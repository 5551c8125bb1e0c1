package catalog

import (
	"encoding/json"
	"iter"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Resolver shows a catalog to programs.
type Resolver struct {
	catalog *Catalog
	visible func(tool.Principal) *View
}

// NewResolver returns the Resolver of a catalog. visible returns the part of the current view that
// a principal may see; nil: all of it.
func NewResolver(c *Catalog, visible func(tool.Principal) *View) *Resolver {
	if visible == nil {
		visible = func(tool.Principal) *View { return c.View() }
	}
	return &Resolver{c, visible}
}

// Directories returns the tools that a principal can see, and all tools.
func (r *Resolver) Directories(who tool.Principal) (visible, all tool.Directory) {
	whole := r.catalog.View()
	return r.visible(who), whole
}

// Plain returns the plain form of a call made by a program of who: the path of its tool, and one
// object with named arguments. A call with no unique plain form is returned unchanged, for the
// gateway to reject.
func (r *Resolver) Plain(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage) {
	whole := r.catalog.View()
	e, err := whole.Resolve(path)
	if err != nil {
		if e, err = r.visible(who).Find(path); err != nil {
			e = hiddenTool(whole, path)
		}
		if e == nil {
			return path, args
		}
		path = e.Path()
	}
	return path, e.Arrange(args)
}

// hiddenTool returns a tool that policy hides, if path includes its upstream. So the gateway
// rejects the call by policy and records the attempt, as it does for the plain form. Bare names are
// not looked up among hidden tools, because the answer would reveal where they are.
func hiddenTool(whole *View, path string) *Entry {
	if e, err := whole.Find(path); err == nil && whole.Names(path, e) {
		return e
	}
	return nil
}

// FindTool is like Find, for a program.
func (v *View) FindTool(path string) (tool.Entry, error) {
	e, err := v.Find(path)
	if err != nil { // a nil *Entry in the interface would not be nil
		return nil, err
	}
	return e, nil
}

// MemberNames returns the namespace and member of each of Entries, and of the tools with which
// programs use resources and prompts.
func (v *View) MemberNames() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, e := range v.entries {
			if !yield(e.Namespace, e.Member) {
				return
			}
		}
		for _, u := range v.upstreams {
			for _, t := range u.offers.Tools {
				e := u.byTool[t.Name]
				if e != nil && e.Tool.Method == t.Method && tool.InPrograms(t.Method) && !yield(e.Namespace, e.Member) {
					return
				}
			}
		}
	}
}

// InputSchema returns the JSON Schema of the tool's arguments.
func (e *Entry) InputSchema() json.RawMessage { return e.Tool.InputSchema }

// CheckArguments validates the arguments of a call in any form, after Arrange and Fill.
func (e *Entry) CheckArguments(args json.RawMessage) error {
	return e.Validate(e.Fill(e.Arrange(args)))
}

var (
	_ tool.Directory = (*View)(nil)
	_ tool.Entry     = (*Entry)(nil)
)
