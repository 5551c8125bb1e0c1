package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals handles the signals that end this process. A second one of the same kind ends it at once.
// SIGHUP ends it, too, unless the command reloads its configuration. Even a command that does ends
// if its terminal was closed.
type signals struct {
	end     context.CancelCauseFunc
	ends    chan os.Signal // SIGINT and SIGTERM
	hangups chan os.Signal
	ignored bool // SIGHUP is, as under nohup
	done    chan struct{}

	mu       sync.Mutex
	terminal bool
	reload   chan struct{} // nil: the command reloads nothing
}

func newSignals(end context.CancelCauseFunc) *signals {
	return &signals{end: end, ends: make(chan os.Signal, 1), hangups: make(chan os.Signal, 1),
		done: make(chan struct{})}
}

// startHandling handles the signals of this process until stopHandling is called.
func (s *signals) startHandling() {
	signal.Notify(s.ends, os.Interrupt, syscall.SIGTERM)
	if s.ignored = signal.Ignored(syscall.SIGHUP); !s.ignored {
		signal.Notify(s.hangups, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case by := <-s.ends:
				s.endCommand(by, s.ends)
			case <-s.hangups:
				s.handleHangup(hasTerminal())
			case <-s.done:
				return
			}
		}
	}()
}

// stopHandling restores the usual effect of the signals. It may be called once.
func (s *signals) stopHandling() {
	signal.Stop(s.ends)
	signal.Stop(s.hangups)
	close(s.done)
}

// endCommand ends the command because of a signal. Later signals of the channels have their usual
// effect.
func (s *signals) endCommand(by os.Signal, channels ...chan os.Signal) {
	for _, c := range channels {
		signal.Stop(c)
	}
	s.end(fmt.Errorf("%s signal received", by))
}

// handleHangup handles one SIGHUP. terminal reports whether there is a terminal now.
func (s *signals) handleHangup(terminal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reload == nil || s.terminal && !terminal {
		s.endCommand(syscall.SIGHUP, s.ends, s.hangups)
		return
	}
	select {
	case s.reload <- struct{}{}:
	default: // a reload is requested already
	}
}

// acceptReloads makes SIGHUP request a reload from now on.
func (s *signals) acceptReloads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reload = make(chan struct{}, 1)
	s.terminal = !s.ignored && hasTerminal()
	signal.Notify(s.hangups, syscall.SIGHUP)
}

// hasTerminal reports whether this process has a terminal. It has none once that was closed.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	f.Close()
	return true
}
