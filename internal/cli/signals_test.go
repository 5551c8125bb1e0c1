package cli

import (
	"context"
	"os"
	"testing"
)

// TestInterrupt checks that an interrupt ends a command, which can say why.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s := newSignals(cancel)
	s.startHandling()
	defer s.stopHandling()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	if err != nil {
		t.Skipf("this system can't interrupt a process: %v", err)
	}
	<-ctx.Done()
	if why := context.Cause(ctx).Error(); why != "interrupt signal received" {
		t.Errorf("the cause is %q, want the interrupt", why)
	}
}

// TestHangups checks what SIGHUP does: commands that reload nothing end, and so does one whose
// terminal was closed.
func TestHangups(t *testing.T) {
	for _, c := range []struct {
		name               string
		reloads, had, has  bool
		wantEnd, wantReads bool
	}{
		{"a command that reloads nothing", false, false, false, true, false},
		{"a service", true, false, false, false, true},
		{"at a terminal", true, true, true, false, true},
		{"the terminal was closed", true, true, false, true, false},
	} {
		ended := false
		h := newSignals(func(error) { ended = true })
		if c.reloads {
			h.reload, h.terminal = make(chan struct{}, 1), c.had
		}
		h.handleHangup(c.has)
		h.handleHangup(c.has) // a second one is no other request
		if ended != c.wantEnd || len(h.reload) == 1 != c.wantReads {
			t.Errorf("%s: ended %t, reloads %d, want %t and %t", c.name, ended, len(h.reload), c.wantEnd, c.wantReads)
		}
	}
}
