package cli

import (
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
func (s *settingsSource) ReloadRequests() <-chan struct{} { return s.app.signals.reload }

// ReportReload tells the service manager that a reload begins or has ended.
func (s *settingsSource) ReportReload(ended bool) {
	if ended {
		s.service.notifyState("READY=1")
	} else {
		s.service.notifyReloading()
	}
}
