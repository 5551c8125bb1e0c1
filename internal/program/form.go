package program

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/program/check"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Plain returns the plain form of a call that a program of who wrote: the path of its tool, and one object with named
// arguments. What has none, or more than one, is returned as it is, for the door to refuse.
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

// hidden returns the tool of a path with its upstream in it that policy hides, so that the door refuses the call by policy
// and records the attempt, as it does for the plain form. A bare name is not looked up among hidden tools: the answer
// would tell where they are.
func hidden(whole *catalog.View, path string) *catalog.Entry {
	if e, err := whole.Find(path); err == nil && whole.Names(path, e) {
		return e
	}
	return nil
}

// find fills in what the program finds of the catalog.
func (p *Program) find(x *check.Index, q *Request) {
	p.Namespaces, p.Whole = x.Namespaces(q.Source)
	p.Aliases = x.Aliases(q.Source, p.Runtime == "python")
}
