package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals handles the signals that end this process. A second one ends it at once. SIGHUP ends it,
// too, unless the command reloads its configuration. Also a command that does is ended if the
// process had a terminal that was closed.
type signals struct {
	end     context.CancelFunc
	ends    chan os.Signal // SIGINT and SIGTERM
	hangups chan os.Signal
	ignored bool // SIGHUP is, as under nohup

	mu       sync.Mutex
	terminal bool
	reload   chan struct{} // nil: the command reloads nothing
}

func newSignals(end context.CancelFunc) *signals {
	return &signals{end: end, ends: make(chan os.Signal, 1), hangups: make(chan os.Signal, 1)}
}

// startHandling handles the signals of this process until it ends.
func (s *signals) startHandling() {
	signal.Notify(s.ends, os.Interrupt, syscall.SIGTERM)
	if s.ignored = signal.Ignored(syscall.SIGHUP); !s.ignored {
		signal.Notify(s.hangups, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case <-s.ends:
				s.endCommand(s.ends)
			case <-s.hangups:
				s.handleHangup(hasTerminal())
			}
		}
	}()
}

// endCommand ends the command. Later signals of the channels have their usual effect.
func (s *signals) endCommand(channels ...chan os.Signal) {
	for _, c := range channels {
		signal.Stop(c)
	}
	s.end()
}

// handleHangup handles one SIGHUP. terminal reports whether there is a terminal now.
func (s *signals) handleHangup(terminal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reload == nil || s.terminal && !terminal {
		s.endCommand(s.ends, s.hangups)
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
