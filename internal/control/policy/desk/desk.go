// Package desk answers questions about policies, those in force or others: which mistakes they
// contain, how they decide on a call, and what they would have decided on the calls in the record.
// It changes nothing.
package desk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Desk.
type Config struct {
	Policies  Policies
	Rules     Rules     // nil: none
	Tier      tool.Tier // the weakest at which programs run
	Strongest tool.Tier // the strongest there is
	Catalog   *catalog.Catalog
	Upstreams Upstreams  // nil: the tools are there
	Audit     *audit.Log // required by Replay
	Keys      Keys       // nil: groups and users in policies are not checked
	Grants    Grants     // nil: none
	SignIn    SignIn
	Local     tool.Principal // the local user
}

// Policies returns the policies in force.
type Policies interface {
	Engine() *policy.Engine
}

// Rules returns the settings of tools and upstreams that are in force.
type Rules interface {
	ListRules() []policy.Rule
}

// Upstreams waits until the upstreams have listed their tools, for a bounded time.
type Upstreams interface {
	WaitReady(ctx context.Context)
}

// Keys holds the API keys; implemented by *identity.Keys.
type Keys interface {
	List() []identity.Key
	// ExplainDenial returns why a principal's key may not use a tool, or "" if it may.
	ExplainDenial(tool.Principal, *tool.Tool) string
}

// Grants returns what the configuration grants to the programs of an upstream: a folder of tools,
// or a server in a sandbox. It returns nil for other upstreams.
type Grants interface {
	FindGrants(upstream string) *tool.Serving
}

// SignIn describes how users sign in.
type SignIn struct {
	Keys    bool // with an API key
	Issuers bool // with a token of an external issuer, which may know any user and group
}

// A Desk answers questions by the current tools and the record. It is safe for concurrent use.
type Desk struct{ cfg Config }

// New returns a Desk.
func New(c Config) *Desk { return &Desk{c} }

func (d *Desk) waitReady(ctx context.Context) {
	if d.cfg.Upstreams != nil {
		d.cfg.Upstreams.WaitReady(ctx)
	}
}

// listTools returns all tools, and execute.
func (d *Desk) listTools(ctx context.Context) []*tool.Tool {
	d.waitReady(ctx)
	view := d.cfg.Catalog.View()
	var out []*tool.Tool
	for _, e := range view.Entries() {
		out = append(out, e.Tool)
	}
	if e := view.Entry(tool.Own, "execute"); e != nil {
		out = append(out, e.Tool)
	}
	return out
}

// Schema returns the Cedar schema of everything that policies can name.
func (d *Desk) Schema(ctx context.Context) string { return policy.Schema(d.listTools(ctx)) }

// engineOf returns an engine of files, or the one in force if files is nil.
func (d *Desk) engineOf(files []api.PolicyFile) (*policy.Engine, error) {
	if files == nil {
		return d.cfg.Policies.Engine(), nil
	}
	cfg := policy.Config{Name: "sent", Tier: d.cfg.Tier, Strongest: d.cfg.Strongest}
	if d.cfg.Rules != nil {
		cfg.Rules = d.cfg.Rules.ListRules()
	}
	for _, f := range files {
		cfg.Files = append(cfg.Files, policy.File{Name: f.Name, Text: []byte(f.Text)})
	}
	return policy.New(cfg)
}

// Check returns the errors and warnings of policies.
func (d *Desk) Check(ctx context.Context, files []api.PolicyFile) (*api.PolicyReport, error) {
	tools := d.listTools(ctx)
	r := &api.PolicyReport{Tools: len(tools), Problems: []api.PolicyProblem{}, Warnings: []api.PolicyProblem{}}
	e, err := d.engineOf(files)
	var wrong *policy.Error
	switch {
	case errors.As(err, &wrong):
		r.Problems = WireProblems(wrong.Problems)
		return r, nil
	case err != nil:
		return nil, err
	}
	if files == nil {
		r.Name = e.Name()
	}
	r.Version, r.Policies = e.Version(), e.Len()
	var names []string
	for _, u := range d.cfg.Catalog.View().Upstreams() {
		names = append(names, u.Name)
	}
	unlisted := policy.WithoutTools(names, tools)
	for _, e := range d.cfg.Catalog.View().AllEntries() {
		if tool.UsesSandbox(e.Tool) { // only their names are checked
			tools = append(tools, &tool.Tool{Upstream: e.Tool.Upstream, Name: e.Tool.Name})
		}
	}
	problems, warnings := e.Check(tools, unlisted...)
	if d.cfg.Keys != nil {
		warnings = append(warnings, e.CheckPeople(people{d.cfg.SignIn, d.cfg.Keys.List(), d.cfg.Local.ID})...)
	}
	r.Problems, r.Warnings = WireProblems(problems), WireProblems(warnings)
	return r, nil
}

// WireProblems converts problems to the API's type, in the order of their places.
func WireProblems(list []policy.Problem) []api.PolicyProblem {
	out := make([]api.PolicyProblem, len(list))
	for i, p := range list {
		out[i] = api.PolicyProblem(p)
	}
	slices.SortStableFunc(out, func(a, b api.PolicyProblem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column,
			strings.Compare(a.Message, b.Message))
	})
	return out
}
