package executor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// What an execution may take in all stands still while people think.
func TestTotalStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{exec: execution.Execution{Calls: make([]execution.Call, 2)}, outstanding: 2}
		r.holds.wait = make(chan struct{}, 1)
		var over atomic.Bool
		total := time.AfterFunc(time.Minute, func() { over.Store(true) })
		defer total.Stop()
		r.bounded(total, time.Minute)
		time.Sleep(40 * time.Second)
		r.held(0, &tool.Hold{})
		if len(r.holds.wait) != 0 || r.exec.State == execution.Waiting {
			t.Error("it waits for people alone, though a call is under way")
		}
		r.held(1, &tool.Hold{})
		if len(r.holds.wait) != 1 || r.exec.State != execution.Waiting {
			t.Error("it doesn't say that it waits")
		}
		time.Sleep(time.Hour)
		r.held(0, nil)
		time.Sleep(time.Hour)
		r.held(1, nil)
		if over.Load() || r.exec.State != execution.Running {
			t.Errorf("over %t, %s", over.Load(), r.exec.State)
		}
		time.Sleep(19 * time.Second)
		if over.Load() {
			t.Error("its time is over too early")
		}
		time.Sleep(2 * time.Second)
		if !over.Load() {
			t.Error("it has time without end")
		}
	})
}
