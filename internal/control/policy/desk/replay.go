package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxReplay is the maximum number of records to replay.
const maxReplay = 200_000

// Replay decides recorded calls again.
func (d *Desk) Replay(ctx context.Context, who tool.Principal, q api.PolicyReplayRequest) (*api.PolicyReplay, error) {
	e, err := d.engineOf(q.Files)
	if err != nil {
		return nil, err
	}
	d.waitReady(ctx)
	if _, err := d.cfg.Audit.Event(ctx,
		audit.Event{Kind: audit.KindRead, Principal: who,
			Detail: map[string]string{"for": "policy replay", "since": audit.FormatTime(q.Since)}}); err != nil {
		return nil, err
	}
	p := &replaying{Desk: d, engine: e, looks: e.Looks(), changed: map[api.PolicyChange]*api.PolicyChange{},
		unknown: map[string]*api.PolicyUndecided{}}
	p.out = &api.PolicyReplay{Version: e.Version(), Since: q.Since, Changed: []api.PolicyChange{},
		Undecided: []api.PolicyUndecided{}}
	for before := ""; ; {
		records, err := d.cfg.Audit.Records(ctx,
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
	*Desk
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
	q.Tool = q.Tool.ForCall(q.Arguments)
	now := p.engine.DecideCall(*q)
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
	t := p.cfg.Catalog.View().Entry(r.Subject.Upstream, strings.TrimPrefix(path, r.Subject.Upstream+"."))
	switch {
	case r.Decision.Policy == "credential":
		return nil, "the credential was refused, before any policy", nil
	case r.Decision.Effect == gateway.Planned || strings.HasPrefix(r.Decision.Policy, "plan@"):
		return nil, "it was not sent, by a plan", nil
	case t == nil:
		return nil, "the tool is not there now", nil
	case p.looks.Principal && r.Principal != p.cfg.Local.ID:
		return nil, "the policies look at groups, roles or agents, and the record has but the id and the client of " +
			"who called", nil
	}
	if p.looks.Tier && r.Subject.Execution != "" {
		return nil, "the policies look at the tier of the calling program, and the record doesn't have it", nil
	}
	if p.looks.Findings && (r.Subject.Execution != "" || t.Tool.Upstream == tool.Own) {
		return nil, "the policies look at what the review found in programs, and the record doesn't have it for each " +
			"call", nil
	}
	q := &policy.Request{Principal: tool.Principal{ID: r.Principal, Client: r.Client}, Tool: t.Tool,
		Parent: r.Subject.Execution, Time: r.Time.In(time.Local)}
	q.Labels = r.DataLabels()
	if r.Principal == p.cfg.Local.ID {
		q.Principal = p.cfg.Local
		q.Principal.Client = r.Client
	}
	if !p.looks.Arguments && t.Tool.Judge == nil || r.Arguments.Size == 0 {
		return q, "", nil
	}
	who := "the policies look"
	if !p.looks.Arguments {
		who = "decisions on this tool look"
	}
	if r.Arguments.Kept == "" {
		return nil, who + " at arguments, and the record didn't keep them", nil
	}
	if r.Arguments.Kept != r.Arguments.Digest {
		return nil, who + " at arguments, and the record kept them only in part", nil
	}
	data, err := p.cfg.Audit.Kept(ctx, r.Seq, r.Arguments.Kept)
	if tool.AsError(err) != nil && tool.AsError(err).Kind == tool.NotFound || err == nil && data == nil {
		return nil, who + " at arguments, and the record has thrown them away", nil
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
