package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A settingsSource reads the configuration of `serve` again, with the command's flags. It
// implements daemon.ConfigSource.
type settingsSource struct {
	app        *app
	folder     *folderFlags
	mode       string
	unprefixed bool
	service    *service
}

// ReadSettings returns the configuration as it is now.
func (s *settingsSource) ReadSettings() (*config.Config, error) {
	fresh, err := config.Load(s.app.config, daemon.StrongestTier())
	if err != nil {
		return nil, err
	}
	cfg, mode, unprefixed := daemon.Config{Settings: fresh}, s.mode, s.unprefixed
	if err := applyFolderFlags(&cfg, s.folder, &mode, &unprefixed); err != nil {
		return nil, err
	}
	return cfg.Settings, setMode(&cfg, mode, unprefixed)
}

// ReloadRequests returns a channel that has a value when the process was sent SIGHUP.
func (s *settingsSource) ReloadRequests() <-chan struct{} { return s.app.hangups.reload }

// ReportReload tells the service manager that a reload begins or has ended.
func (s *settingsSource) ReportReload(ended bool) {
	if ended {
		s.service.notifyState("READY=1")
	} else {
		s.service.notifyReloading()
	}
}

// hangups handles SIGHUP. It ends the process, unless the command reloads its configuration. Also a
// command that does is ended if the process had a terminal that was closed.
type hangups struct {
	end     context.CancelFunc
	signals chan os.Signal
	ignored bool // under nohup

	mu       sync.Mutex
	terminal bool
	reload   chan struct{} // nil: the command reloads nothing
}

// startHandling handles the signals of this process.
func (h *hangups) startHandling(end context.CancelFunc) {
	h.end, h.signals, h.ignored = end, make(chan os.Signal, 1), signal.Ignored(syscall.SIGHUP)
	if !h.ignored {
		signal.Notify(h.signals, syscall.SIGHUP)
	}
	go func() {
		for range h.signals {
			h.handleSignal(hasTerminal())
		}
	}()
}

// handleSignal handles one signal. terminal reports whether there is a terminal now.
func (h *hangups) handleSignal(terminal bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reload == nil || h.terminal && !terminal {
		signal.Stop(h.signals) // a second one ends the process at once
		h.end()
		return
	}
	select {
	case h.reload <- struct{}{}:
	default: // a reload is requested already
	}
}

// acceptReloads makes signals request a reload from now on.
func (h *hangups) acceptReloads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reload = make(chan struct{}, 1)
	h.terminal = !h.ignored && hasTerminal()
	if h.signals != nil {
		signal.Notify(h.signals, syscall.SIGHUP)
	}
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
