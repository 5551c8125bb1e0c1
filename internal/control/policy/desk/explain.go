package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Explain returns the decision on a call, without making it.
func (d *Desk) Explain(ctx context.Context, q api.PolicyQuestion) (*api.PolicyAnswer, error) {
	d.waitReady(ctx)
	e, err := d.engineOf(q.Files)
	if err != nil {
		return nil, err
	}
	r, about, err := d.question(q)
	if err != nil {
		return nil, err
	}
	if err := policy.CheckLabels(q.Labels, policy.Sources()); err != nil {
		return nil, err
	}
	for _, role := range q.Principal.Roles {
		if !slices.Contains(identity.Roles(), role) {
			return nil, tool.Errorf(tool.Invalid, "unknown role %q: use %s", text.Cut(role, 60),
				strings.Join(identity.Roles(), ", "))
		}
	}
	for _, k := range q.Reveal {
		if err := privacy.CheckKind(k, append(privacy.Kinds(), privacy.Field)); err != nil {
			return nil, tool.Errorf(tool.Invalid, "kinds of personal data: %w", err)
		}
	}
	if r.File != nil && len(q.Reveal) > 0 {
		return nil, tool.Errorf(tool.Invalid, "only tools receive personal data: name a tool, not a file")
	}
	r.Principal, r.Labels, r.Time, r.Kinds = d.principal(q.Principal), q.Labels, q.Time, q.Reveal
	serving, err := d.findServing(q.Upstream, r.Tool)
	if err != nil {
		return nil, err
	}
	if q.Program || serving != nil {
		r.Parent = "ex_question"
	}
	shown := r.File != nil || e.Shows(r)
	r.Tool = r.Tool.ForCall(r.Arguments)
	x := e.Explain(r)
	if why := d.explainKey(r); why != "" {
		shown = false
		x = policy.Explanation{Decision: policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why,
			Version: x.Decision.Version}, Policies: x.Policies, Change: "no policy can permit what the key lacks"}
	}
	if granted := gateway.GrantHost(serving, r.Tool, r.Arguments, x.Decision); granted.Policy != x.Decision.Policy {
		x.Decision, x.Change = granted, "it would change with "+serving.Grantor+".network in the configuration"
	} else {
		x.Decision.Reason = granted.Reason
	}
	a := &api.PolicyAnswer{
		Tool: about, Effect: string(x.Decision.Effect), Policy: x.Decision.Policy, Version: x.Decision.Version,
		Reason:    x.Decision.Reason,
		Approvers: x.Decision.Approvers, Tier: x.Decision.Grant.Tier.String(), Limits: x.Decision.Limits(),
		Shown: shown, Change: x.Change, Policies: []api.PolicyTrace{},
	}
	for _, t := range x.Policies {
		w := api.PolicyTrace{ID: t.ID, File: t.File, Line: t.Line, Effect: "permit", Holds: t.Holds,
			Missing: append([]string{}, t.Missing...)}
		if t.Forbid {
			w.Effect = "forbid"
		}
		a.Policies = append(a.Policies, w)
	}
	return a, nil
}

// findServing returns the grants to the programs of an upstream, for a request to a host with t. It
// returns nil if the name is empty.
func (d *Desk) findServing(upstream string, t *tool.Tool) (*tool.Serving, error) {
	if upstream == "" {
		return nil, nil
	}
	if !policy.ReachesNetwork(t) {
		return nil, tool.Errorf(tool.Invalid, "the upstream of a program matters only for its requests to hosts: name "+
			"the tool biplane.fetch")
	}
	if d.cfg.Grants != nil {
		if s := d.cfg.Grants.FindGrants(upstream); s != nil {
			return s, nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "upstream %q: no folder of tools and no server in a sandbox has this name",
		text.Cut(upstream, 60))
}

// findKey returns the API key of a principal, or nil. One that doesn't exist yet is not an error:
// policies may be written before the keys that they name.
func (d *Desk) findKey(id string) *identity.Key {
	if d.cfg.Keys == nil {
		return nil
	}
	all := d.cfg.Keys.List()
	for i := range all {
		if all[i].Principal().ID == id {
			return &all[i]
		}
	}
	return nil
}

// explainKey returns why the key of the principal may not use the tool, or "" if it may.
func (d *Desk) explainKey(r policy.Request) string {
	if r.File != nil || d.findKey(r.Principal.ID) == nil {
		return ""
	}
	return d.cfg.Keys.ExplainDenial(r.Principal, r.Tool)
}

// question returns the request that a question is about, and its name. The request is a call of a
// tool. If the tool is "read" or "write", it is the use of a file, which the argument path names.
func (d *Desk) question(q api.PolicyQuestion) (r policy.Request, about string, err error) {
	if q.Tool == "read" || q.Tool == "write" {
		var a struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(q.Arguments, &a) != nil || a.Path != path.Clean(a.Path) ||
			!strings.HasPrefix(a.Path, "workspace/") && !strings.HasPrefix(a.Path, "skills/") {
			return r, "", tool.Errorf(tool.Invalid,
				`%s is of a file: name it as {"path": "workspace/data.csv"} or {"path": "skills/retry.ts"}`, q.Tool)
		}
		return policy.Request{File: &policy.FileUse{Path: a.Path, Write: q.Tool == "write"}}, q.Tool + " " + a.Path, nil
	}
	entry, err := d.cfg.Catalog.View().Resolve(q.Tool)
	if err != nil {
		return r, "", err
	}
	if q.Arguments != nil {
		q.Arguments = entry.Fill(q.Arguments)
		if err := entry.Validate(q.Arguments); err != nil {
			return r, "", err
		}
	}
	return policy.Request{Tool: entry.Tool, Arguments: q.Arguments}, entry.Tool.Path(), nil
}

// principal returns the principal that a question is about. The local user and existing API keys
// have what they have, and what the question adds.
func (d *Desk) principal(p api.PolicyPrincipal) tool.Principal {
	who := tool.Principal{ID: p.ID, Name: p.Name, Person: p.Person}
	if p.ID == "" || p.ID == d.cfg.Local.ID {
		who = d.cfg.Local
	} else if k := d.findKey(p.ID); k != nil {
		who = k.Principal()
	}
	who.Client, who.Groups = p.Client, append(slices.Clone(who.Groups), p.Groups...)
	who.Roles = append(slices.Clone(who.Roles), p.Roles...)
	who.Scopes = append(slices.Clone(who.Scopes), p.Scopes...)
	who.Agent = cmp.Or(p.Agent, who.Agent)
	return who
}
