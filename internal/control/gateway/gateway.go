// Package gateway is the single entry point for tools. Every use of a tool goes through
// Gateway.Call, whether from outside or from a program, and whether the tool belongs to an upstream
// or to Biplane. So resolving, validating, deciding, asking and recording are implemented once.
package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Gateway. All fields but Barred, Latest, Log, Limits, Privacy and Turns are
// required.
type Config struct {
	Catalog  *catalog.Catalog
	Policy   *policy.Engine
	Approval *approval.Gate
	Audit    *audit.Log
	// Barred returns why a principal's credential may not use a tool, whatever policy says, or ""
	// if it may. If it is nil, no credential is barred.
	Barred func(tool.Principal, *tool.Tool) string
	// Latest returns the version of the policies now in force, which may be newer than Policy; nil:
	// Policy's version.
	Latest func() string
	Log    *slog.Logger   // nil: slog.Default()
	Limits *limit.Limiter // nil: none
	// Privacy hides personal data from models; nil: it is not hidden.
	Privacy *privacy.Guard
	// Turns are those of large work, which Gateways that follow each other share; nil: its own.
	Turns *queue.Fair
}

// A Gateway is a tool.Caller that dispatches to all others. It is immutable: a new configuration
// needs a new Gateway.
type Gateway struct {
	cfg      Config
	fleeting bool // the tools that a principal may see can change without a new catalog
	seen     sights
}

// New returns a Gateway. It returns an error if a required part is missing.
func New(cfg Config) (*Gateway, error) {
	switch {
	case cfg.Catalog == nil:
		return nil, fmt.Errorf("gateway: no catalog")
	case cfg.Policy == nil:
		return nil, fmt.Errorf("gateway: no policy")
	case cfg.Approval == nil:
		return nil, fmt.Errorf("gateway: no approval gate")
	case cfg.Audit == nil:
		return nil, fmt.Errorf("gateway: no audit log")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Turns == nil {
		cfg.Turns = NewTurns()
	}
	return &Gateway{cfg: cfg, fleeting: cfg.Barred != nil || cfg.Policy.Timed()}, nil
}

// Call resolves c.Path, validates the arguments against the tool's schema, and decides. If the
// decision says so, it asks a person. It records the intent, makes the call, and records its
// result. It does not modify c; the call that is passed on is a copy with ID, Tool, Arguments and
// Grant set.
//
// Errors are *tool.Error: NotFound (with the nearest names), Invalid (with the errors in the
// arguments), Denied, Internal if the audit log can't be written (the call is then not made), and
// the errors of the upstream.
func (g *Gateway) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.FromProgram().Plan != nil {
		return g.plan(ctx, c)
	}
	if c.FromProgram().Attempt {
		return nil, tool.NotSent(g.attempted(ctx, c))
	}
	next := *c
	g.charged(ctx, &next)
	entry, err := g.resolve(&next)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	next.Tool = entry.Tool
	if next.ID == "" {
		next.ID = "call_" + rand.Text()
	}
	if len(next.Arguments) == 0 {
		next.Arguments = json.RawMessage("{}")
	}
	g.muffle(ctx, &next)
	result, err := g.made(ctx, &next, entry)
	if g.cfg.Privacy != nil {
		g.afterwards(ctx, &next, result, func() { result, err = g.shown(ctx, &next, result, err) })
	}
	return result, err
}

// made makes a resolved call.
func (g *Gateway) made(ctx context.Context, c *tool.Call, entry *catalog.Entry) (*tool.Result, error) {
	j, err := g.judge(ctx, c, entry)
	switch {
	case err != nil:
		return nil, tool.NotSent(err)
	case j.hidden: // an error in the arguments would reveal its schema
		return g.recorded(ctx, c, j.decision, nil)
	case j.invalid != nil:
		return nil, tool.NotSent(j.invalid)
	}
	decision := j.decision
	caller, ok := g.cfg.Catalog.Caller(entry.Tool.Upstream)
	if !ok {
		return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "upstream %s was removed: search again", entry.Tool.Upstream))
	}
	c.Grant = decision.Grant
	if c.FromProgram().Planner != nil && decision.Effect != policy.Deny && !g.cfg.Policy.ReadOnly(entry.Tool) {
		return g.takenOver(ctx, c, decision, caller)
	}
	return g.recorded(ctx, c, decision, caller)
}

// decide decides on r. A barred credential takes precedence over every policy. A key for one
// upstream therefore sees and calls no other, and a revoked key nothing, even in a running program.
func (g *Gateway) decide(r policy.Request) policy.Decision {
	if g.cfg.Barred != nil {
		if why := g.cfg.Barred(r.Principal, r.Tool); why != "" {
			return policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why}
		}
	}
	return g.cfg.Policy.Decide(r)
}

// recorded makes the call between the two halves of its audit record.
func (g *Gateway) recorded(ctx context.Context, c *tool.Call, d policy.Decision, caller tool.Caller) (*tool.Result, error) {
	return g.record(ctx, c, d, d, caller)
}

// record is like recorded, with a recorded decision, said, that may differ from the effective one.
func (g *Gateway) record(ctx context.Context, c *tool.Call, d, said policy.Decision, caller tool.Caller) (*tool.Result, error) {
	sure := func() error { return nil }
	if d.Effect == policy.Allow { // before the audit record, so that one disk flush serves both
		sure = leaving(c, d)
	}
	entry, err := g.cfg.Audit.Begin(ctx, c, audit.Decision{Effect: string(said.Effect), Policy: versioned(said), Reason: because(said)})
	if err != nil {
		return nil, unrecorded(ctx, c, err)
	}
	result, err := g.decided(ctx, c, d, caller, sure, entry)
	if err != nil && goesOn(ctx, c, d, entry, err) {
		return nil, err
	}
	// When the end can't be recorded, the audit log reports that in the process's log, and the next
	// Begin fails. The call was made: to hide its result would invite a second call. For a
	// read-only call, the beginning may be unrecorded too, and a second call does no harm.
	if eerr := entry.End(ctx, result, err); eerr != nil && err == nil && c.FromProgram().Execution == "" && c.Tool.Annotations.Reads() {
		return nil, &tool.Error{Kind: tool.Internal, Msg: "the answer of " + c.Path + " is not given: the call can't be recorded: " + tool.AsError(eerr).Msg, Err: eerr}
	}
	return result, err
}

// goesOn reports whether a call failed only because the process ends, and will be made by the next
// process when it resumes the execution. Either it was still waiting for a person, or it may be
// repeated because it changes nothing. Until then its record has no end.
func goesOn(ctx context.Context, c *tool.Call, d policy.Decision, entry *audit.Entry, err error) bool {
	if !errors.Is(context.Cause(ctx), tool.ErrGoesOn) {
		return false
	}
	return c.Tool.Annotations.Repeats() || d.Effect == policy.Ask && !entry.IsApproved() && errors.Is(err, tool.ErrGoesOn)
}

// unrecorded returns the error of a call that is not made because it can't be recorded.
func unrecorded(ctx context.Context, c *tool.Call, err error) error {
	if ctx.Err() != nil {
		return tool.NotSent(context.Cause(ctx))
	}
	return &tool.Error{Kind: tool.Internal, Msg: c.Path + " was not called: the call can't be recorded: " + tool.AsError(err).Msg, Err: err, Unsent: true}
}

// because returns the reason of a decision, for the audit log.
func because(d policy.Decision) string {
	if d.Remark == "" {
		return d.Reason
	}
	return d.Reason + "; " + d.Remark
}

// leaving notifies the caller, if it keeps its own journal, that the call is about to be sent. sure
// waits until that is stored.
func leaving(c *tool.Call, d policy.Decision) (sure func() error) {
	if sure = c.Observe().OnSend(c, string(d.Effect)); sure == nil {
		return func() error { return nil }
	}
	return sure
}

// versioned returns the deciding policies and their version, for the audit log.
func versioned(d policy.Decision) string {
	if d.Version == "" {
		return d.Policy
	}
	return d.Policy + "@" + d.Version
}

// decided makes the call if the decision, or the person it defers to, allows it, and sure confirms
// that the intent is stored.
func (g *Gateway) decided(ctx context.Context, c *tool.Call, d policy.Decision, caller tool.Caller, sure func() error, entry *audit.Entry) (*tool.Result, error) {
	switch d.Effect {
	case policy.Allow:
	case policy.Ask:
		approved, err := g.cfg.Approval.Wait(ctx, &approval.Ask{
			Call: c, Policy: d.Policy, Version: d.Version, Reason: d.Reason, Labels: c.Labels, Approvers: d.Approvers, Current: g.current(c),
		})
		if err != nil {
			return nil, tool.NotSent(err)
		}
		c.Arguments = approved.Arguments
		entry.AddApproval(approved.ID, approved.Decider)
		sure = leaving(c, d)
	default:
		return nil, tool.NotSent(tool.Errorf(tool.Denied, "%s is denied by policy %s: %s", c.Path, d.Policy, d.Reason))
	}
	if err := sure(); err != nil {
		return nil, &tool.Error{Kind: tool.Internal, Msg: c.Path + " was not called: its intent can't be written to the journal: " + tool.AsError(err).Msg, Err: err, Unsent: true}
	}
	silent := quiet(c, d)
	result, err := g.limited(ctx, c, caller)
	if silent {
		g.afterwards(ctx, c, result, func() { result, err = redacted(result, err, d.Redact) })
	}
	if err != nil {
		return nil, tool.AsError(err)
	}
	if result == nil {
		return nil, tool.Errorf(tool.Internal, "%s gave neither a result nor an error", c.Path)
	}
	return result, nil
}

// current returns a check that runs after a call was approved. It returns an error if the tool or
// the policies have changed, or if the caller may no longer call: keys may be revoked and hours may
// end while people think.
func (g *Gateway) current(c *tool.Call) func(context.Context) error {
	return func(context.Context) error {
		if g.version() != g.cfg.Policy.Version() {
			return tool.Errorf(tool.Conflict, "the policies have changed since: call it again, to have it decided on by the new ones")
		}
		if c.FromProgram().Plan != nil {
			return g.currentPlan(c)
		}
		e := g.cfg.Catalog.View().Entry(c.Tool.Upstream, c.Tool.Name)
		if e == nil {
			return tool.Errorf(tool.NotFound, "%s is not there any more", c.Tool.Path())
		}
		if e.Tool.Digest() != c.Tool.Digest() {
			return tool.Errorf(tool.Conflict, "%s has changed since: what it does may not be what was approved", c.Tool.Path())
		}
		if d := g.decide(policy.Request{Principal: c.Principal, Tool: e.Tool, Arguments: c.Arguments,
			Parent: c.FromProgram().Execution, Tier: c.FromProgram().Tier, Labels: c.Labels}); d.Effect == policy.Deny {
			return tool.Errorf(tool.Denied, "it is denied by policy %s by now: %s", d.Policy, d.Reason)
		}
		return nil
	}
}

// limited makes the call within the limits, unless its upstream or the call itself has failed
// repeatedly.
func (g *Gateway) limited(ctx context.Context, c *tool.Call, caller tool.Caller) (*tool.Result, error) {
	if g.cfg.Limits == nil && len(c.Grant.Bounds) > 0 {
		return nil, &tool.Error{Kind: tool.Internal, Unsent: true, Msg: c.Path + " was not called: policy bounds how much it is used, and nothing here holds that"}
	}
	// programs are counted when they start
	if g.cfg.Limits == nil || c.Tool.Upstream == tool.Own && !policy.ReachesNetwork(c.Tool) {
		return g.guarded(ctx, c, caller)
	}
	return g.cfg.Limits.Guard(ctx, c, func() (*tool.Result, error) { return g.guarded(ctx, c, caller) })
}

// guarded keeps a panic of one Caller from ending the process with everyone's work.
func (g *Gateway) guarded(ctx context.Context, c *tool.Call, caller tool.Caller) (_ *tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.cfg.Log.Error("a call panicked", "call", c.ID, "tool", c.Path, "panic", p, "stack", string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "%s broke down inside: whether it took effect is unknown", c.Path)
		}
	}()
	return g.labelled(ctx, c, caller)
}
