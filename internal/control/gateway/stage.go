package gateway

import (
	"cmp"
	"context"
	"slices"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// stages lists the stages that every call passes, in order. Each is in the file named after it. To
// add one, write its file, and add its row here and in ARCHITECTURE.md.
var stages = []stage{
	{name: "plan", wrap: askPlan},         // a program's question about its plan skips to "record"
	{name: "attempt", wrap: denyAttempt},  // a call that its program won't make is recorded if its tool is hidden
	{name: "charge", wrap: charge},        // what the host computes for the call is charged to its caller
	{name: "resolve", wrap: resolve},      // name to tool
	{name: "hide", wrap: hide},            // models see tokens instead of personal data
	{name: "afford", wrap: afford},        // large work is refused if the CPU time is used up
	{name: "reveal", check: reveal},       // tokens to personal data, where policy allows
	{name: "validate", check: validate},   // arguments against the tool's schema
	{name: "authorize", check: authorize}, // policy: allow, deny, ask
	{name: "find", wrap: find},            // tool to the upstream that has it
	{name: "takeover", wrap: takeOver},    // writes of a planned program are listed or matched
	{name: "record", wrap: record},        // intent before, result after; no record, no call
	{name: "approve", wrap: approve},      // wait for a person
	{name: "confirm", wrap: confirm},      // the caller's journal has the intent
	{name: "learn", wrap: learnTypes},     // the types of results, without what redact removes
	{name: "redact", wrap: redact},        // fields that policy removes from the result
	{name: "limit", wrap: limitUse},       // rates, broken upstreams
	{name: "recover", wrap: recoverPanic}, // a panic ends only the call
	{name: "label", wrap: label},          // the tool's labels reach the caller before its output
}

// A stage either wraps the stages after it, or checks the arguments of a call. Checks that follow
// each other share one turn if the arguments are large.
type stage struct {
	name  string
	wrap  wrapper
	check checker
}

// A wrapper returns a handler for one stage. The handler calls next unless the call ends there.
type wrapper func(g *Gateway, next handler) handler

// A checker looks at the arguments of a call, and may change them. An error ends the call.
type checker func(ctx context.Context, g *Gateway, r *request) error

// A handler runs the remaining stages of a call.
type handler func(ctx context.Context, r *request) (*tool.Result, error)

// A request is a call on its way through the stages.
type request struct {
	call     tool.Call       // a copy of the caller's, which the stages complete
	entry    *catalog.Entry  // of its tool; nil for a plan
	remark   string          // what was revealed, for the record
	hidden   bool            // invalid, and denied because the principal may not see the tool
	decision policy.Decision // what is done
	said     policy.Decision // what is recorded: differs from decision for a call of an approved plan
	target   tool.Caller     // what makes the call
	confirm  func() error    // waits until the caller's journal has the intent; nil: no journal
	log      *audit.Entry
}

// setDecision stores a decision that is recorded as it is.
func (r *request) setDecision(d policy.Decision) { r.decision, r.said = d, d }

// stagesFrom returns the stages from the one with a name on.
func stagesFrom(name string) []stage {
	return stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == name }):]
}

// chain returns the handler that passes a call through stages, and then to its target.
func (g *Gateway) chain(stages []stage) handler {
	next := func(ctx context.Context, r *request) (*tool.Result, error) { return r.target.Call(ctx, &r.call) }
	for end := len(stages); end > 0; {
		begin := end - 1
		if stages[begin].wrap != nil {
			next = stages[begin].wrap(g, next)
		} else {
			for begin > 0 && stages[begin-1].check != nil {
				begin--
			}
			next = g.checkAll(stages[begin:end], next)
		}
		end = begin
	}
	return next
}

// checkAll runs checks in one turn.
func (g *Gateway) checkAll(checks []stage, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		var err error
		wait := g.work(ctx, &r.call, len(r.call.Arguments), func() {
			for i := 0; i < len(checks) && err == nil; i++ {
				err = checks[i].check(ctx, g, r)
			}
		})
		if err = cmp.Or(wait, err); err != nil {
			return nil, tool.NotSent(err)
		}
		return next(ctx, r)
	}
}
