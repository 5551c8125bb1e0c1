package executor_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestExecutionsStayWithWhoBeganThem checks that an execution's owner is read from its journal:
// changing the unencrypted column of the database grants no one else access.
func TestExecutionsStayWithWhoBeganThem(t *testing.T) {
	t.Parallel()
	c := &customs{}
	s := newStage(t, c.door)
	s.do("work", read1("pii"))
	s.stop()
	s.execSQL(`UPDATE execution SET principal = 'key:eve'`)
	s.start()
	eve := tool.Principal{ID: "key:eve"}
	all, err := s.x.Executions(t.Context(), eve, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("all = %+v, err = %v, want err == nil && len(all) == 1", all, err)
	}
	if d, err := s.x.Details(t.Context(), eve, all[0].ID); kindOf(err) != tool.NotFound {
		t.Errorf("d = %+v, err = %v, want kindOf(err) == tool.NotFound", d, err)
	}
	if d, err := s.x.Details(t.Context(), ann, all[0].ID); err != nil || d.Principal != ann.ID || len(d.Calls) != 1 {
		t.Errorf("d = %+v, err = %v, want err == nil && d.Principal == ann.ID && len(d.Calls) == 1", d, err)
	}
}
