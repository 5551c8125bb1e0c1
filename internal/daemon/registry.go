package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/registry"
	"github.com/biplane-dev/biplane/internal/tool"
)

// listAge is how long a list in memory is used. An upstream that is not approved asks again after
// secretRetry.
const listAge = 20 * time.Second

// approvalAge is how long an upstream runs until its approval is checked again.
const approvalAge = 30 * time.Second

// approvedServers decides which upstreams may be started. nil: all.
type approvedServers struct {
	source registry.Source
	log    *slog.Logger

	mu     sync.Mutex
	list   *registry.Accepted
	read   time.Time
	logged string // the last problem
}

// newApprovedServers returns the list that decides which upstreams may be started, or nil if the
// configuration doesn't restrict them.
func newApprovedServers(s *config.Config, folder string, log *slog.Logger) *approvedServers {
	if !s.Registry.Only {
		return nil
	}
	return &approvedServers{source: s.Registry.DescribeSource(folder), log: log}
}

// readList returns the list of approved servers. If the list can't be read now, a running upstream
// gets the one that was read last: a list may be unreadable while it is replaced.
func (a *approvedServers) readList(running bool) (*registry.Accepted, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.list != nil && time.Since(a.read) < listAge {
		return a.list, nil
	}
	list, err := registry.OpenList(context.Background(), a.source) // its time is limited
	if err != nil {
		a.read = time.Time{}
		if !running || a.list == nil || !a.list.Expires.IsZero() && !time.Now().Before(a.list.Expires) {
			return nil, err
		}
		if why := err.Error(); why != a.logged {
			a.log.Warn("the list of approved servers can't be read: what runs is not stopped", "reason", why)
			a.logged = why
		}
		return a.list, nil
	}
	if list.Problem != "" && list.Problem != a.logged {
		a.log.Warn("the list of approved servers is the one that was accepted last", "list", list.DescribeList(),
			"reason", list.Problem)
	}
	a.list, a.read, a.logged = list, time.Now(), list.Problem
	return list, nil
}

// guardCheck returns check, or nil if all upstreams are approved.
func (a *approvedServers) guardCheck(check checking) checking {
	if a == nil {
		return nil
	}
	return check
}

// checkServer returns an error if an MCP server is not approved. c has the values of its secrets.
// running is set if it has been started.
func (a *approvedServers) checkServer(c *config.Server, running bool) error {
	shown := c.Shown()
	what := shown.URL
	if c.Command != "" {
		what = strings.Join(append([]string{shown.Command}, shown.Args...), " ")
	}
	return a.checkUpstream(what, running, func(l *registry.Accepted) error {
		return l.CheckRun(registry.Run{Command: c.Command, Args: c.Args, Env: c.Env, URL: c.URL})
	})
}

// checkAPI returns an error if an upstream of another kind is not approved.
func (a *approvedServers) checkAPI(c config.API, running bool) error {
	return a.checkUpstream(c.ShowTarget(), running, func(l *registry.Accepted) error {
		own := c.ListAddresses()
		if err := l.CheckAPI(own); err != nil {
			return err
		}
		return l.CheckSignIn(c.GetSource().SignInURLs, own)
	})
}

func (a *approvedServers) checkUpstream(what string, running bool, check func(*registry.Accepted) error) error {
	if a == nil {
		return nil
	}
	list, err := a.readList(running)
	if err != nil {
		return tool.Errorf(tool.Denied, "not started, because registry.only requires a list of approved servers: %w",
			err)
	}
	if err := check(list); err != nil {
		return tool.Errorf(tool.Denied,
			"not approved, so not started: %s: %s (list %s). `biplane registry list` shows "+
				"what is approved, and `biplane registry add NAME` adds a server of the list", what, err.Error(),
			list.DescribeList())
	}
	return nil
}
