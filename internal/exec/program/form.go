package program

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Plain returns the plain form of a call made by a program of who: the path of its tool, and one
// object with named arguments. A call with no unique plain form is returned unchanged, for the
// gateway to reject.
func (p *Preparer) Plain(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage) {
	if p.cfg.Catalog == nil {
		return path, args
	}
	whole := p.cfg.Catalog()
	if whole == nil {
		return path, args
	}
	e, err := whole.Resolve(path)
	if err != nil {
		v := whole
		if p.cfg.Visible != nil {
			v = p.cfg.Visible(who)
		}
		if e, err = v.Find(path); err != nil {
			e = hidden(whole, path)
		}
		if e == nil {
			return path, args
		}
		path = e.Path()
	}
	return path, e.Arrange(args)
}

// hidden returns a tool that policy hides, if path includes its upstream. So the gateway rejects
// the call by policy and records the attempt, as it does for the plain form. Bare names are not
// looked up among hidden tools, because the answer would reveal where they are.
func hidden(whole *catalog.View, path string) *catalog.Entry {
	if e, err := whole.Find(path); err == nil && whole.Names(path, e) {
		return e
	}
	return nil
}

// find sets the names by which the program refers to the catalog.
func (p *Program) find(x *check.Index, q *Request) {
	p.Namespaces, p.Whole = x.Namespaces(q.Source)
	p.Aliases = x.Aliases(q.Source, p.Runtime == "python")
}
