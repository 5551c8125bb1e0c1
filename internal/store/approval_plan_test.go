package store

import (
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
)

// Each query of requests reads only what an index finds, however many requests there are.
func TestApprovalQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	type statement struct {
		query string
		args  []any
		index string
	}
	list := func(q approval.Query, index string) statement {
		query, args := listApprovals(q)
		return statement{query, args, index}
	}
	over := approval.Query{Lapsed: time.Now(), Before: "apr_1"}
	inForce := []approval.State{approval.Pending, approval.Approved}
	for name, c := range map[string]statement{
		"insert": {insertApproval, make([]any, 12), "approval_principal"},
		"forget": {forgetApproval, make([]any, 2), "approval_over"},
		"copy":   {oldApprovals, []any{1}, "approval_expires"},
		"lapsed": list(over, "approval_expires"), "programs": list(approval.Query{Programs: true}, "approval_program"),
		"subject":   list(approval.Query{Execution: "e", Subject: "e/1", Limit: 1}, "approval_execution"),
		"execution": list(approval.Query{Execution: "e", States: inForce}, "approval_execution"),
		"pending":   list(approval.Query{States: inForce[:1]}, "approval_state"),
		"all":       list(approval.Query{Before: "apr_1"}, "approval_seq (seq<?)"),
	} {
		rows, err := s.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.query, c.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan := ""
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			plan += step + "\n"
		}
		if err := rows.Err(); err != nil || !strings.Contains(plan, c.index) ||
			strings.Contains(plan, "SCAN approval\n") {
			t.Errorf("%s: %v; the plan doesn't use only %s:\n%s", name, err, c.index, plan)
		}
	}
}
