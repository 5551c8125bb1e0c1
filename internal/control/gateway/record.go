package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// record writes the audit record: the intent before the call, and its result after it. A call that
// can't be recorded is not made.
func record(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		if r.decision.Effect == policy.Allow { // before the audit record, so that one disk flush serves both
			r.confirm = c.Observe().OnSend(c, string(r.decision.Effect))
		}
		var err error
		if r.log, err = g.cfg.Audit.Begin(ctx, c, auditDecision(string(r.said.Effect), r.said)); err != nil {
			return nil, errNotRecorded(ctx, c, err)
		}
		c.Observer = &recordObserver{Observer: c.Observe(), log: r.log}
		result, err := next(ctx, r)
		switch {
		case err != nil:
			result, err = nil, tool.AsError(err)
		case result == nil:
			err = tool.Errorf(tool.Internal, "%s gave neither a result nor an error", c.Path)
		}
		if err != nil && goesOn(ctx, c, r.decision, r.log, err) {
			return nil, err
		}
		// When the end can't be recorded, the audit log reports that in the process's log, and the
		// next Begin fails. The call was made: to hide its result would invite a second call. For a
		// read-only call, the beginning may be unrecorded too, and a second call does no harm.
		if eerr := r.log.End(ctx, result, err); eerr != nil && err == nil && c.FromProgram().Execution == "" &&
			c.Tool.Annotations.Reads() {
			return nil, &tool.Error{Kind: tool.Internal, Msg: "the answer of " + c.Path +
				" is not given: the call can't be recorded: " + tool.AsError(eerr).Msg, Err: eerr}
		}
		return result, err
	}
}

// auditDecision returns d as it is recorded, with an effect.
func auditDecision(effect string, d policy.Decision) audit.Decision {
	return audit.Decision{Effect: effect, Policy: formatPolicies(d), Reason: because(d)}
}

// goesOn reports whether a call failed only because the process ends, and will be made by the next
// process when it resumes the execution. Either it was still waiting for a person, or it may be
// repeated because it changes nothing. Until then its record has no end.
func goesOn(ctx context.Context, c *tool.Call, d policy.Decision, entry *audit.Entry, err error) bool {
	if !errors.Is(context.Cause(ctx), tool.ErrGoesOn) {
		return false
	}
	return c.Tool.Annotations.Repeats() ||
		d.Effect == policy.Ask && !entry.IsApproved() && errors.Is(err, tool.ErrGoesOn)
}

// errNotRecorded returns the error of a call that is not made because it can't be recorded.
func errNotRecorded(ctx context.Context, c *tool.Call, err error) error {
	if ctx.Err() != nil {
		return tool.NotSent(context.Cause(ctx))
	}
	return &tool.Error{Kind: tool.Internal, Msg: c.Path + " was not called: the call can't be recorded: " +
		tool.AsError(err).Msg, Err: err, Unsent: true}
}

// because returns the reason of a decision, for the audit log.
func because(d policy.Decision) string {
	if d.Remark == "" {
		return d.Reason
	}
	return d.Reason + "; " + d.Remark
}

// formatPolicies returns the deciding policies and their version, for the audit log.
func formatPolicies(d policy.Decision) string {
	if d.Version == "" {
		return d.Policy
	}
	return d.Policy + "@" + d.Version
}

// A recordObserver records what the tool's server asks the client, and the findings of a program.
type recordObserver struct {
	tool.Observer
	log   *audit.Entry
	asked []string // one text for each round
}

func (o *recordObserver) OnQuestions(ctx context.Context, asked map[string]tool.Question) (
	map[string]json.RawMessage, error) {
	answers, err := o.Observer.OnQuestions(ctx, asked)
	var texts []string
	for key, q := range asked {
		texts = append(texts, describeQuestion(q, answers[key]))
	}
	slices.Sort(texts)
	text := strings.Join(texts, "+")
	if err != nil {
		text += " (no answer)"
	}
	o.asked = append(o.asked, text)
	o.log.AddQuestions(strings.Join(o.asked, ", "))
	return answers, err
}

// describeQuestion returns a question as it is recorded: its method, the site that a person was
// asked to open, and whether the person agreed.
func describeQuestion(q tool.Question, answer json.RawMessage) string {
	text := q.Method
	if q.Method != "elicitation/create" {
		return text
	}
	var p struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(q.Params, &p) == nil && p.URL != "" {
		if u, err := url.Parse(p.URL); err == nil {
			text += " " + u.Scheme + "://" + u.Host
		}
	}
	var a struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(answer, &a) == nil && slices.Contains([]string{"accept", "decline", "cancel"}, a.Action) {
		text += " " + a.Action
	}
	return text
}

func (o *recordObserver) OnFindings(found []tool.Finding) {
	if len(found) > 0 {
		o.log.AddFindings(tool.FindingRules(found))
	}
	o.Observer.OnFindings(found)
}
