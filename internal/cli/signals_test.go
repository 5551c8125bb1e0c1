package cli

import "testing"

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
		h := newSignals(func() { ended = true })
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
