package audit_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Verify reports each call that names an approver who, according to the record, never approved it.
func TestVerifyApprovers(t *testing.T) {
	for name, c := range map[string]struct {
		event  audit.Event // the decision
		effect string      // the call's
		says   string      // empty: no faults
	}{
		"decided":     {decision("apr_1", "approved", "local:bob", "ex_1", "a.b", ""), "ask", ""},
		"no decision": {audit.Event{}, "ask", "the record contains no such decision"},
		"another one": {decision("apr_2", "approved", "local:bob", "ex_1", "a.b", ""), "ask",
			"the record contains no such decision"},
		"denied": {decision("apr_1", "denied", "local:bob", "ex_1", "a.b", ""), "ask",
			"the record contains no such decision"},
		"refused": {decision("apr_1", "approved", "local:bob", "ex_1", "a.b", audit.Failed), "ask",
			"the record contains no such decision"},
		"by another":   {decision("apr_1", "approved", "local:eve", "ex_1", "a.b", ""), "ask", "decided by local:eve"},
		"another tool": {decision("apr_1", "approved", "local:bob", "ex_1", "a.c", ""), "ask", "another call"},
		"another run":  {decision("apr_1", "approved", "local:bob", "ex_2", "a.b", ""), "ask", "another call"},
		"no request":   {decision("apr_1", "approved", "local:bob", "ex_1", "a.b", ""), "allow", "another call"},
		"not a request": {audit.Event{Kind: audit.KindKey, Subject: audit.Subject{Name: "apr_1"},
			Decision: audit.Decision{Effect: "approved"}}, "ask", "the record contains no such decision"},
	} {
		t.Run(name, func(t *testing.T) {
			l := audittest.NewLog()
			if c.event.Kind != "" {
				if _, err := l.Event(t.Context(), c.event); err != nil {
					t.Fatalf("Event: %v", err)
				}
			}
			e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b",
				By: &tool.Program{Execution: "ex_1"}, ID: "ex_1.1"}, audit.Decision{Effect: c.effect})
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			e.AddApproval("apr_1", "local:bob")
			if err := e.End(t.Context(), tool.Text(false, "fine"), nil); err != nil {
				t.Fatalf("End: %v", err)
			}
			r, err := l.Verify(t.Context())
			if err != nil {
				t.Fatalf("Verify: %v", err)
			}
			if c.says == "" {
				if !r.OK() {
					t.Errorf("r.Faults = %+v, want r.OK()", r.Faults)
				}
				return
			}
			if len(r.Faults) != 1 || r.Faults[0].What != "approval" || r.Faults[0].Record != e.Record() ||
				!strings.Contains(r.Faults[0].Msg, c.says) {
				t.Errorf("%+v, want one that says %q", r.Faults, c.says)
			}
		})
	}
}

func decision(request, effect, by, execution, path string, outcome audit.Outcome) audit.Event {
	return audit.Event{
		Kind: audit.KindApproval, Principal: tool.Principal{ID: by},
		Subject:  audit.Subject{Name: request, Execution: execution, Tool: path},
		Decision: audit.Decision{Effect: effect}, Outcome: outcome,
	}
}
