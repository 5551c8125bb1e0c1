package audit_test

import (
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A call that another process began continues its record, if it is still the same call. Otherwise
// it has a new record, and the first one is ended.
func TestAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ended  bool // the first one has ended
		change func(*tool.Call, *audit.Decision)
		same   bool
	}{
		{"the same", false, func(*tool.Call, *audit.Decision) {}, true},
		{"it has an end", true, func(*tool.Call, *audit.Decision) {}, false},
		{"other arguments", false, func(c *tool.Call, _ *audit.Decision) { c.Arguments = []byte(`{"a":2}`) }, false},
		{"other labels", false, func(c *tool.Call, _ *audit.Decision) { c.Labels = []string{"pii"} }, false},
		{"another tool", false, func(c *tool.Call, _ *audit.Decision) { c.Path = "gh.other" }, false},
		{"other policies", false, func(_ *tool.Call, d *audit.Decision) { d.Policy = "open@2" }, false},
		{"another effect", false, func(_ *tool.Call, d *audit.Decision) { d.Effect = "ask" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := audittest.NewMemory()
			c, d := &tool.Call{ID: "x9.1", By: &tool.Program{Execution: "x9"}, Path: "gh.list",
				Arguments: []byte(`{"a":1}`), Principal: tool.Principal{ID: "local:ann"}}, allow
			key, err := secret.NewKey(make([]byte, secret.KeySize))
			if err != nil {
				t.Fatalf("secret.NewKey: %v", err)
			}
			before := audit.New(audit.Config{Store: store, Clock: steps(), Key: key})
			first, err := before.Begin(t.Context(), c, d)
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			if tt.ended {
				if err := first.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
					t.Fatalf("End: %v", err)
				}
			}
			now := audit.New(audit.Config{Store: store, Key: key,
				Clock: wallclock.At(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))})
			next, by := *c, *c.By
			by.Again = first.Record()
			next.By = &by
			tt.change(&next, &d)
			e, err := now.Begin(t.Context(), &next, d)
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			e.AddApproval("apr_1", "local:bob")
			if err := e.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
				t.Fatalf("End: %v", err)
			}
			all, err := now.Records(t.Context(), audit.Query{Execution: "x9"})
			if err != nil {
				t.Fatalf("Records: %v", err)
			}
			last := all[0]
			if last.ID != e.Record() || last.End.Outcome != audit.OK || last.Detail["approved_by"] != "local:bob" {
				t.Errorf("last = %+v, want last.ID == e.Record() && last.End.Outcome == audit.OK && "+
					"last.Detail[\"approved_by\"] == \"local:bob\"", last)
			}
			if tt.same && (len(all) != 1 || last.ID != first.Record() || last.Detail["taken_up"] == "" ||
				last.End.Duration != time.Hour-time.Second) {
				t.Errorf("all = %+v", all)
			}
			if !tt.same && (len(all) != 2 || last.Detail["again"] != first.Record() ||
				all[1].End.Outcome == audit.Unfinished) {
				t.Errorf("all = %+v, want tt.same || len(all) == 2 && last.Detail[\"again\"] == "+
					"first.Record() && all[1].End.Outcome != audit.Unfinished", all)
			}
		})
	}
	l := audittest.NewLog()
	for _, id := range []string{"", "06gzznwtfg00000069fzha6qqm"} { // not the id of a record
		if _, err := l.Begin(t.Context(), &tool.Call{ID: "x9.1",
			By: &tool.Program{Execution: "x9", Again: id}, Path: "gh.list"}, allow); err != nil {
			t.Errorf("Begin: %v", err)
		}
	}
}
