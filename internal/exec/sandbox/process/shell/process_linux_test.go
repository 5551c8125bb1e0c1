package shell

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestStopBeforeStart stops a background process that is in the list and not started yet. Without a
// check, the signal would end this test.
func TestStopBeforeStart(t *testing.T) {
	s := &steward{}
	b := &background{ended: make(chan struct{})}
	if err := s.processes.addProcess(b); err != nil {
		t.Fatalf("addProcess: %v", err)
	}
	for _, signal := range []int{0, 9} {
		_, err := s.stopBackground(&service.Request{Process: b.id, Signal: signal})
		if e := tool.AsError(err); e == nil || e.Kind != tool.Conflict {
			t.Errorf("stopBackground with signal %d: err = %v, want a conflict", signal, err)
		}
	}
}
