package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A desk answers questions about policies, those in force or others, by the current tools and the
// record.
type desk struct {
	settings *config.Config
	policies *policies
	catalog  *catalog.Catalog
	audit    *audit.Log
	keys     *identity.Keys
	local    tool.Principal
	ready    func(context.Context)
}

// tools returns all tools, and execute.
func (d *desk) tools(ctx context.Context) []*tool.Tool {
	d.ready(ctx)
	view := d.catalog.View()
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
func (d *desk) Schema(ctx context.Context) string { return policy.Schema(d.tools(ctx)) }

// engine returns an engine of files, or the one in force if files is nil.
func (d *desk) engine(files []api.PolicyFile) (*policy.Engine, error) {
	if files == nil {
		return d.policies.engine.Load(), nil
	}
	cfg := policy.Config{Name: "sent", Rules: d.settings.Tools,
		Tier: d.settings.Sandbox.Tier, Strongest: d.settings.Sandbox.Strongest}
	for _, f := range files {
		cfg.Files = append(cfg.Files, policy.File{Name: f.Name, Text: []byte(f.Text)})
	}
	return policy.New(cfg)
}

// Check returns the errors and warnings of policies.
func (d *desk) Check(ctx context.Context, files []api.PolicyFile) (*api.PolicyReport, error) {
	tools := d.tools(ctx)
	r := &api.PolicyReport{Tools: len(tools), Problems: []api.PolicyProblem{}, Warnings: []api.PolicyProblem{}}
	e, err := d.engine(files)
	var wrong *policy.Error
	switch {
	case errors.As(err, &wrong):
		r.Problems = wireProblems(wrong.Problems)
		return r, nil
	case err != nil:
		return nil, err
	}
	if files == nil {
		r.Name = e.Name()
	}
	r.Version, r.Policies = e.Version(), e.Len()
	var names []string
	for _, u := range d.catalog.View().Upstreams() {
		names = append(names, u.Name)
	}
	problems, warnings := e.Check(tools, policy.WithoutTools(names, tools)...)
	if d.keys != nil {
		warnings = append(warnings, e.CheckPeople(people{d.settings, d.keys.List(), d.local})...)
	}
	r.Problems, r.Warnings = wireProblems(problems), wireProblems(warnings)
	return r, nil
}

func wireProblems(list []policy.Problem) []api.PolicyProblem {
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

// Explain returns the decision on a call, without making it.
func (d *desk) Explain(ctx context.Context, q api.PolicyQuestion) (*api.PolicyAnswer, error) {
	d.ready(ctx)
	e, err := d.engine(q.Files)
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
	for _, k := range q.Reveal {
		if err := privacy.CheckKind(k, append(privacy.Kinds(), privacy.Field)); err != nil {
			return nil, tool.Errorf(tool.Invalid, "kinds of personal data: %w", err)
		}
	}
	if r.File != nil && len(q.Reveal) > 0 {
		return nil, tool.Errorf(tool.Invalid, "personal data is given to tools: name one, not a file")
	}
	r.Principal, r.Labels, r.Time, r.Kinds = d.principal(q.Principal), q.Labels, q.Time, q.Reveal
	if q.Program {
		r.Parent = "ex_question"
	}
	x := e.Explain(r)
	a := &api.PolicyAnswer{
		Tool: about, Effect: string(x.Decision.Effect), Policy: x.Decision.Policy, Version: x.Decision.Version,
		Reason:    x.Decision.Reason,
		Approvers: x.Decision.Approvers, Tier: x.Decision.Grant.Tier.String(), Limits: x.Decision.Limits(),
		Shown: r.File != nil || e.Shows(r), Change: x.Change, Policies: []api.PolicyTrace{},
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

// question returns the request that a question is about, and its name. The request is a call of a
// tool. If the tool is "read" or "write", it is the use of the file in the argument path.
func (d *desk) question(q api.PolicyQuestion) (r policy.Request, about string, err error) {
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
	entry, err := d.catalog.View().Resolve(q.Tool)
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

func (d *desk) principal(p api.PolicyPrincipal) tool.Principal {
	if p.ID == "" || p.ID == d.local.ID {
		who := d.local
		who.Client, who.Groups = p.Client, append(slices.Clone(who.Groups), p.Groups...)
		return who
	}
	return tool.Principal{ID: p.ID, Name: p.Name, Person: p.Person, Agent: p.Agent, Client: p.Client, Roles: p.Roles,
		Groups: p.Groups, Scopes: p.Scopes}
}

// maxReplay is the maximum number of records to replay.
const maxReplay = 200_000

// Replay decides recorded calls again.
func (d *desk) Replay(ctx context.Context, who tool.Principal, q api.PolicyReplayRequest) (*api.PolicyReplay, error) {
	e, err := d.engine(q.Files)
	if err != nil {
		return nil, err
	}
	d.ready(ctx)
	if _, err := d.audit.Event(ctx,
		audit.Event{Kind: audit.KindRead, Principal: who,
			Detail: map[string]string{"for": "policy replay", "since": audit.FormatTime(q.Since)}}); err != nil {
		return nil, err
	}
	p := &replaying{desk: d, engine: e, looks: e.Looks(), changed: map[api.PolicyChange]*api.PolicyChange{},
		unknown: map[string]*api.PolicyUndecided{}}
	p.out = &api.PolicyReplay{Version: e.Version(), Since: q.Since, Changed: []api.PolicyChange{},
		Undecided: []api.PolicyUndecided{}}
	for before := ""; ; {
		records, err := d.audit.Records(ctx,
			audit.Query{Kind: audit.KindCall, Since: q.Since, Before: before, Limit: 1000})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if err := r.CheckIntact(); err != nil {
				return nil, err
			}
			if p.out.Calls++; p.out.Calls > maxReplay {
				p.out.Calls, p.out.More = maxReplay, true
				return p.done(), nil
			}
			if err := p.record(ctx, &r); err != nil {
				return nil, err
			}
			before = r.ID
		}
		if len(records) == 0 {
			return p.done(), nil
		}
	}
}

// replaying is the state of one replay.
type replaying struct {
	*desk
	engine  *policy.Engine
	looks   policy.Dependencies
	out     *api.PolicyReplay
	changed map[api.PolicyChange]*api.PolicyChange // by the fields that identify the change
	unknown map[string]*api.PolicyUndecided        // by reason
}

// record decides one record again. Records come newest first.
func (p *replaying) record(ctx context.Context, r *audit.Record) error {
	q, why, err := p.request(ctx, r)
	if err != nil {
		return err
	}
	if why != "" {
		if p.unknown[why] == nil {
			p.unknown[why] = &api.PolicyUndecided{Reason: why, Record: r.ID}
		}
		p.unknown[why].Calls++
		return nil
	}
	now := p.engine.Decide(*q)
	if string(now.Effect) == r.Decision.Effect {
		p.out.Same++
		return nil
	}
	key := api.PolicyChange{Tool: r.Subject.Tool, Principal: r.Principal, From: r.Decision.Effect,
		To: string(now.Effect), Policy: now.Policy, Reason: now.Reason}
	if p.changed[key] == nil {
		c := key
		c.Record = r.ID
		p.changed[key] = &c
	}
	p.changed[key].Calls++
	return nil
}

// request returns the request of a record, or why the record does not have enough data for one.
func (p *replaying) request(ctx context.Context, r *audit.Record) (_ *policy.Request, why string, err error) {
	path := r.Subject.Tool
	t := p.catalog.View().Entry(r.Subject.Upstream, strings.TrimPrefix(path, r.Subject.Upstream+"."))
	switch {
	case r.Decision.Policy == "credential":
		return nil, "the credential was refused, before any policy", nil
	case r.Decision.Effect == gateway.Planned || strings.HasPrefix(r.Decision.Policy, "plan@"):
		return nil, "it was not sent, by a plan", nil
	case t == nil:
		return nil, "the tool is not there now", nil
	case p.looks.Principal && r.Principal != p.local.ID:
		return nil, "the policies look at groups, roles or agents, and the record has but the id and the client of " +
			"who called", nil
	}
	if p.looks.Tier && r.Subject.Execution != "" {
		return nil, "the policies look at the tier of the calling program, and the record doesn't have it", nil
	}
	q := &policy.Request{Principal: tool.Principal{ID: r.Principal, Client: r.Client}, Tool: t.Tool,
		Parent: r.Subject.Execution, Time: r.Time.In(time.Local)}
	q.Labels = r.DataLabels()
	if r.Principal == p.local.ID {
		q.Principal = p.local
		q.Principal.Client = r.Client
	}
	if !p.looks.Arguments || r.Arguments.Size == 0 {
		return q, "", nil
	}
	if r.Arguments.Kept == "" {
		return nil, "the policies look at arguments, and the record didn't keep them", nil
	}
	if r.Arguments.Kept != r.Arguments.Digest {
		return nil, "the policies look at arguments, and the record kept them only in part", nil
	}
	data, err := p.audit.Kept(ctx, r.Seq, r.Arguments.Kept)
	if tool.AsError(err) != nil && tool.AsError(err).Kind == tool.NotFound || err == nil && data == nil {
		return nil, "the policies look at arguments, and the record has thrown them away", nil
	}
	q.Arguments = json.RawMessage(data)
	return q, "", err
}

func (p *replaying) done() *api.PolicyReplay {
	for _, c := range p.changed {
		p.out.Changed = append(p.out.Changed, *c)
	}
	slices.SortFunc(p.out.Changed, func(a, b api.PolicyChange) int {
		return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Tool, b.Tool), strings.Compare(a.Principal, b.Principal),
			strings.Compare(a.To, b.To), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Reason, b.Reason))
	})
	for _, u := range p.unknown {
		p.out.Undecided = append(p.out.Undecided, *u)
	}
	slices.SortFunc(p.out.Undecided, func(a, b api.PolicyUndecided) int {
		return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Reason, b.Reason))
	})
	return p.out
}

// recordPolicy records that policies came into force or were rejected, if they differ from those
// last recorded.
func (d *Daemon) recordPolicy(ctx context.Context, e *policy.Engine, problem error) {
	last, err := d.audit.Newest(ctx, audit.KindPolicy)
	if err != nil {
		d.log.Warn("recorded policies not read", "err", err)
	}
	d.recordPolicyAfter(ctx, last[audit.KindPolicy], e, problem)
}

// recordPolicyAfter is recordPolicy with the last policy record given; nil if there is none.
func (d *Daemon) recordPolicyAfter(ctx context.Context, last *audit.Record, e *policy.Engine, problem error) {
	ev := audit.Event{Kind: audit.KindPolicy, Principal: identity.LocalUser(),
		Subject: audit.Subject{Name: e.Name()}, Detail: map[string]string{"version": e.Version()}, Outcome: audit.OK}
	if problem != nil {
		ev.Outcome, ev.ErrorKind = audit.Failed, tool.AsError(problem).Kind
	}
	if last != nil && problem == nil && last.End.Outcome == audit.OK && last.Subject.Name == e.Name() &&
		last.Detail["version"] == e.Version() {
		return
	}
	if _, err := d.audit.Event(ctx, ev); err != nil {
		d.log.Error("policies not recorded", "err", err)
	}
}

// StarterPolicy returns the text of a policy that comes with Biplane or, if name is empty, the
// names of all of them.
func StarterPolicy(name string) (source string, names []string, err error) {
	if name == "" {
		return "", policy.Starters(), nil
	}
	f, ok := policy.Starter(name)
	if !ok {
		return "", nil, tool.Errorf(tool.NotFound, "there is no starter policy %q: it is one of %s",
			text.Clip(name, 40), strings.Join(policy.Starters(), ", "))
	}
	return string(f.Text), nil, nil
}

// A PolicyCase is the result of one case of a policy test.
type PolicyCase = policy.CaseResult

// TestPolicies runs a file of cases (see policy.Cases) with the given policy files, which the cases
// may replace. It also returns the file of cases with the actual results as the expected ones.
func TestPolicies(s *config.Config, name string, archive []byte, files []api.PolicyFile) ([]PolicyCase, []byte, error) {
	cfg := policy.Config{Rules: s.Tools, Tier: s.Sandbox.Tier, Strongest: s.Sandbox.Strongest}
	for _, f := range files {
		cfg.Files = append(cfg.Files, policy.File{Name: f.Name, Text: []byte(f.Text)})
	}
	return policy.Cases(name, archive, cfg)
}
