package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
)

// Sessions configures the limits of sessions. Zero values mean the executor's defaults.
type Sessions struct {
	Idle         time.Duration // an unused session is suspended after this time
	Unused       time.Duration // an unused session is ended after this time
	MaxAge       time.Duration // maximum age
	Size         int64         // bytes of its state, packed
	Workspace    int64         // bytes of its files
	Files        int           // maximum number of files
	Count        int           // maximum number of sessions of a principal
	Hot          int           // maximum number of idle sessions in memory
	FrozenIdle   time.Duration // an unused sandbox of processes is ended after this time
	Frozen       int           // maximum number of unused sandboxes of processes
	FrozenEach   int           // maximum for one principal
	FrozenMemory int64         // maximum bytes of their memory
	SuspendAfter time.Duration // suspend a program that only waits for tools after this time; negative: never
}

func (r *fileReader) readSessions(n *node) {
	s := &r.c.Sessions
	const day = 24 * time.Hour
	r.readObject(n, "sessions", key{
		"idle":      func(n *node) { s.Idle = r.readDuration(n, "sessions.idle", time.Second, day) },
		"unused":    func(n *node) { s.Unused = r.readDays(n, "sessions.unused", time.Minute, 3650*day) },
		"max_age":   func(n *node) { s.MaxAge = r.readDays(n, "sessions.max_age", time.Minute, 3650*day) },
		"size":      func(n *node) { s.Size = r.readSize(n, "sessions.size", 64<<10, 1<<30) },
		"workspace": func(n *node) { s.Workspace = r.readSize(n, "sessions.workspace", 4<<10, 1<<30) },
		"files":     func(n *node) { s.Files = r.readCount(n, "sessions.files", 1, 100_000) },
		"count":     func(n *node) { s.Count = r.readCount(n, "sessions.count", 1, 1_000_000) },
		"hot":       func(n *node) { s.Hot = r.readCount(n, "sessions.hot", 1, 100_000) },
		"frozen_idle": func(n *node) {
			s.FrozenIdle = r.readDuration(n, "sessions.frozen_idle", time.Second, 7*day)
		},
		"frozen":      func(n *node) { s.Frozen = r.readCount(n, "sessions.frozen", 1, 10_000) },
		"frozen_each": func(n *node) { s.FrozenEach = r.readCount(n, "sessions.frozen_each", 1, 10_000) },
		"frozen_memory": func(n *node) {
			s.FrozenMemory = r.readSize(n, "sessions.frozen_memory", 1<<20, 1<<40)
		},
		"suspend_after": func(n *node) {
			if s.SuspendAfter = -1; r.readText(n, "sessions.suspend_after") != "never" {
				s.SuspendAfter = r.readDuration(n, "sessions.suspend_after", 100*time.Millisecond, time.Hour)
			}
		},
	})
}

// Limits returns the configured limits.
func (s Sessions) Limits() live.Limits {
	return live.Limits{
		Idle: s.Idle, Unused: s.Unused, MaxAge: s.MaxAge, Size: s.Size, Workspace: s.Workspace, Files: s.Files,
		Count: s.Count, Hot: s.Hot, SuspendAfter: s.SuspendAfter, FrozenIdle: s.FrozenIdle,
		Frozen: s.Frozen, FrozenEach: s.FrozenEach, FrozenBytes: s.FrozenMemory,
	}
}

// ShownSessions is the printable form of a Sessions, with defaults filled in.
type ShownSessions struct {
	Idle         string `json:"idle"`
	Unused       string `json:"unused"`
	MaxAge       string `json:"max_age"`
	Size         string `json:"size"`
	Workspace    string `json:"workspace"`
	Files        int    `json:"files"`
	Count        int    `json:"count"`
	Hot          int    `json:"hot"`
	FrozenIdle   string `json:"frozen_idle"`
	Frozen       int    `json:"frozen"`
	FrozenEach   int    `json:"frozen_each"`
	FrozenMemory string `json:"frozen_memory"`
	SuspendAfter string `json:"suspend_after"`
}

// Shown returns the printable form.
func (s Sessions) Shown() ShownSessions {
	l := s.Limits().Complete()
	after := "never"
	if l.SuspendAfter > 0 {
		after = text.Setting(l.SuspendAfter)
	}
	return ShownSessions{
		Idle: text.Setting(l.Idle), Unused: text.Setting(l.Unused), MaxAge: text.Setting(l.MaxAge),
		Size: formatSize(l.Size), Workspace: formatSize(l.Workspace),
		Files: l.Files, Count: l.Count, Hot: l.Hot, FrozenIdle: text.Setting(l.FrozenIdle),
		Frozen: l.Frozen, FrozenEach: l.FrozenEach, FrozenMemory: formatSize(l.FrozenBytes), SuspendAfter: after,
	}
}
