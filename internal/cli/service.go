package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/biplane-dev/biplane/api"
)

// A service reports its state to the service manager (systemd), if one started this process.
type service struct{ log *slog.Logger }

func (s *service) notifyState(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Error("the service manager was not told", "state", state, "err", err)
	}
}

func (s *service) notifyReloading() {
	s.notifyState(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// keepAlive resets the watchdog of the service manager while the process answers requests, until
// ctx is done. If it no longer answers, the service manager starts it again.
func (s *service) keepAlive(ctx context.Context, client *api.Client) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil || limit == 0 {
		return
	}
	tick := time.NewTicker(limit / 3)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, limit/3)
		_, err := client.Status(asking)
		cancel()
		if err == nil {
			s.notifyState(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			s.log.Error("this process doesn't answer itself: the watchdog is not reset", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
