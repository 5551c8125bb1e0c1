package daemon

import (
	"context"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/executor"
	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SessionSettings bound sessions. What is zero is the executor's default.
type SessionSettings struct {
	Idle         time.Duration // a session that nobody uses is suspended after it
	Unused       time.Duration // and ended after this
	MaxAge       time.Duration // ended so long after it was made
	Size         int64         // bytes of its state, packed
	Workspace    int64         // bytes of its files
	Files        int           // how many
	Count        int           // sessions of one principal
	Hot          int           // kept in memory at most, idle
	SuspendAfter time.Duration // a program that only waits for tools is suspended after it; negative: never
}

func (r *reader) sessions(n *node, s *SessionSettings) {
	const day = 24 * time.Hour
	r.object(n, "sessions", key{
		"idle":      func(n *node) { s.Idle = r.duration(n, "sessions.idle", time.Second, day) },
		"unused":    func(n *node) { s.Unused = r.days(n, "sessions.unused", time.Minute, 3650*day) },
		"max_age":   func(n *node) { s.MaxAge = r.days(n, "sessions.max_age", time.Minute, 3650*day) },
		"size":      func(n *node) { s.Size = r.size(n, "sessions.size", 64<<10, 1<<30) },
		"workspace": func(n *node) { s.Workspace = r.size(n, "sessions.workspace", 4<<10, 1<<30) },
		"files":     func(n *node) { s.Files = r.count(n, "sessions.files", 1, 100_000) },
		"count":     func(n *node) { s.Count = r.count(n, "sessions.count", 1, 1_000_000) },
		"hot":       func(n *node) { s.Hot = r.count(n, "sessions.hot", 1, 100_000) },
		"suspend_after": func(n *node) {
			if s.SuspendAfter = -1; r.text(n, "sessions.suspend_after") != "never" {
				s.SuspendAfter = r.duration(n, "sessions.suspend_after", 100*time.Millisecond, time.Hour)
			}
		},
	})
}

// days is duration for long times: 30d is 30 days.
func (r *reader) days(n *node, what string, low, high time.Duration) time.Duration {
	m := *n
	if d, ok := strings.CutSuffix(n.text, "d"); ok {
		if v, err := time.ParseDuration(d + "h"); err == nil && v <= high {
			m.text = (24 * v).String()
		}
	}
	return r.duration(&m, what, low, high)
}

func (s SessionSettings) limits() live.Limits {
	return live.Limits{
		Idle: s.Idle, Unused: s.Unused, MaxAge: s.MaxAge, Size: s.Size, Workspace: s.Workspace, Files: s.Files, Count: s.Count, Hot: s.Hot, SuspendAfter: s.SuspendAfter,
	}
}

// Complete gives the settings with the default where one is zero.
func (s SessionSettings) Complete() SessionSettings {
	l := s.limits().Complete()
	return SessionSettings{
		Idle: l.Idle, Unused: l.Unused, MaxAge: l.MaxAge, Size: l.Size, Workspace: l.Workspace, Files: l.Files, Count: l.Count, Hot: l.Hot, SuspendAfter: l.SuspendAfter,
	}
}

// newExecutor makes what runs programs, and keeps their sessions in the store.
func (d *Daemon) newExecutor(key *secret.Key, door tool.Caller) (err error) {
	s := d.cfg.Settings
	sessions, err := d.store.Sessions(context.Background(), key)
	if err != nil {
		return err
	}
	d.sessions = sessions
	inside := d.upstreams.waitingOne(door)
	d.executor, err = executor.New(executor.Config{
		Driver: d.driver, Door: func() tool.Caller { return inside }, Programs: program.New(program.Config{Catalog: d.catalog.View, Visible: d.policies.visible}),
		Files: d.declarations, Access: fileAccess{d.policies, d.event}, Store: sessions, Journal: d.store.Executions(key), Key: key, Tokens: d.tokens, Ended: d.ended, Admit: d.admit, Readmit: d.readmit, Log: d.log,
		Privacy:  d.privacy,
		Recorded: d.recorded, Named: d.named,
		Page:     d.approvalPage,
		ReadsAll: func(p tool.Principal) bool { return identity.Has(p, identity.Auditor) },
		Limits: executor.Limits{
			Memory: s.Sandbox.Memory, CPU: s.Sandbox.CPU, Calls: s.Sandbox.Calls, Concurrency: s.Sandbox.Concurrency, OutputTokens: s.Sandbox.OutputTokens,
			Sessions: s.Sessions.limits(), Journal: executor.JournalLimits{Keep: s.Journal.Keep, Bytes: s.Journal.Bytes},
		},
	})
	return err
}

// declarations are the files below ./tools. Whoever looks at them waits for the upstreams, for as long as a search does.
func (d *Daemon) declarations(p tool.Principal) map[string]string {
	d.upstreams.ready(context.Background())
	return d.index.tree(p)
}
