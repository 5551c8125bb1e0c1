package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/session/live"
)

// Sessions bound sessions. What is zero is the executor's default.
type Sessions struct {
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

func (r *reader) sessions(n *node, s *Sessions) {
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

// Limits gives what sessions are bounded by, of what the configuration says.
func (s Sessions) Limits() live.Limits {
	return live.Limits{
		Idle: s.Idle, Unused: s.Unused, MaxAge: s.MaxAge, Size: s.Size, Workspace: s.Workspace, Files: s.Files, Count: s.Count, Hot: s.Hot, SuspendAfter: s.SuspendAfter,
	}
}

// ShownSessions is a Sessions as it may be shown, with the default where it says nothing.
type ShownSessions struct {
	Idle         string `json:"idle"`
	Unused       string `json:"unused"`
	MaxAge       string `json:"max_age"`
	Size         string `json:"size"`
	Workspace    string `json:"workspace"`
	Files        int    `json:"files"`
	Count        int    `json:"count"`
	Hot          int    `json:"hot"`
	SuspendAfter string `json:"suspend_after"`
}

// Shown gives it as it may be shown.
func (s Sessions) Shown() ShownSessions {
	l := s.Limits().Complete()
	after := "never"
	if l.SuspendAfter > 0 {
		after = prose.Setting(l.SuspendAfter)
	}
	return ShownSessions{
		Idle: prose.Setting(l.Idle), Unused: prose.Setting(l.Unused), MaxAge: prose.Setting(l.MaxAge), Size: formatSize(l.Size), Workspace: formatSize(l.Workspace),
		Files: l.Files, Count: l.Count, Hot: l.Hot, SuspendAfter: after,
	}
}
