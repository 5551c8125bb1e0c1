// Package folder implements an upstream for a directory of files: each function that a file exports
// is a tool. "database/query.ts" with a function query is the tool database.query.
//
// The package finds the files, watches them, and names the tools. What is in a file is known only
// to a Loader, which runs its code in a sandbox. Files are not trusted: their number, sizes and
// depth are limited, links can't lead out of the folder, and a broken file costs only itself.
package folder

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A Loader loads files, and runs their code only in sandboxes. It is safe for concurrent use.
type Loader interface {
	// AcceptsName reports whether a file can have tools, by its name.
	AcceptsName(name string) bool
	// LoadFile loads the file with a path below folder. The error says why the file has no tools.
	LoadFile(ctx context.Context, folder fs.FS, name string) (Module, error)
}

// A Module is a file that was loaded. It is immutable.
type Module interface {
	// ListUses returns the paths of the files that it consists of.
	ListUses() []string
	// ListExports returns its exports.
	ListExports() []Export
}

// An Export is a function that a file exports, or the reason why it is no tool.
type Export struct {
	Name        string // "default" for a default export
	Title       string
	Description string
	Schema      json.RawMessage // of the arguments
	Annotations tool.Annotations
	Notes       []string // for the author of the file
	Broken      string   // why it is no tool; empty: it is one
	Target      tool.Caller
}

// A Notify is called when an upstream's Snapshot has changed.
type Notify func()

// A Config says where a folder is, and how its files are loaded.
type Config struct {
	Name     string        // of the upstream; required
	Path     string        // absolute; required
	Loader   Loader        // required
	Interval time.Duration // between looks for changes; default 1 s
	OnChange Notify        // may be nil
	Log      *slog.Logger  // nil discards
}

// An Upstream is one folder. It implements upstream.Upstream.
type Upstream struct {
	cfg Config
	end chan struct{} // closed when Run ends

	mu      sync.Mutex
	running bool
	table   *table
	snap    upstream.Snapshot
	wake    chan struct{} // closed and replaced when the state changes
}

var _ upstream.Upstream = (*Upstream)(nil)

// New returns an Upstream. Nothing is read before Run.
func New(cfg Config) (*Upstream, error) {
	if cfg.Name == "" || cfg.Path == "" || cfg.Loader == nil {
		return nil, tool.Errorf(tool.Invalid, "upstream %q: name, path and loader are required", cfg.Name)
	}
	if cfg.Interval <= 0 {
		cfg.Interval = time.Second
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("upstream", cfg.Name)
	u := &Upstream{cfg: cfg, end: make(chan struct{}), wake: make(chan struct{})}
	u.snap.Health = tool.Health{State: tool.Connecting, Reason: "its files are not loaded yet: try again in a moment"}
	return u, nil
}

// Name returns the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.cfg.Name }

// Snapshot returns the current state of the upstream.
func (u *Upstream) Snapshot() upstream.Snapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.snap
}

// settleTime is how long files must be unchanged before they are loaded: an editor or a checkout
// writes many at once. After each look for changes, the next one waits for at least busyFactor
// times as long as it took.
const (
	settleTime = 100 * time.Millisecond
	busyFactor = 20

	// firstRetry and lastRetry are the delays before files are loaded again that failed for a
	// reason that is not in the folder.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run loads the files, and again when they change, until ctx is done.
func (u *Upstream) Run(ctx context.Context) error {
	u.mu.Lock()
	again := u.running
	u.running = true
	u.mu.Unlock()
	if again {
		return tool.Errorf(tool.Conflict, "upstream %q: Run was called before", u.cfg.Name)
	}
	defer func() {
		close(u.end)
		u.setState(func() {
			u.snap.Health = tool.Health{State: tool.Down, Reason: "closed", Stale: len(u.snap.Tools) > 0}
		})
	}()
	var loaded, seen string // the states of the folder that is loaded, and that was seen last
	retry := firstRetry
	for {
		began := time.Now()
		s := scanFolder(u.cfg.Path, u.cfg.Loader)
		wait := max(u.cfg.Interval, busyFactor*time.Since(began))
		switch {
		case loaded != "" && s.state == loaded:
		case loaded != "" && s.state != seen:
			wait = settleTime
		default:
			loaded = s.state
			if !u.loadScan(ctx, s) { // try again, even if no file changes
				loaded, wait = "", max(wait, retry)
				retry = min(2*retry, lastRetry)
			}
		}
		seen = s.state
		s.closeRoot()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// loadScan replaces the tools by those of a scan. It reports whether that was possible: false means
// that a file failed for a reason that is not in the folder.
func (u *Upstream) loadScan(ctx context.Context, s *found) (ok bool) {
	began := time.Now()
	t, err := u.readTable(ctx, s)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		u.cfg.Log.Warn("folder not loaded", "reason", err.Error())
		u.setState(func() {
			u.table = nil
			u.snap = upstream.Snapshot{Health: tool.Health{State: tool.Down, Reason: err.Error()}}
		})
		return true
	}
	u.cfg.Log.Info("folder loaded", "tools", len(t.tools), "broken", len(t.broken), "took",
		time.Since(began).Round(time.Millisecond))
	u.setState(func() {
		u.table = t
		u.snap = upstream.Snapshot{Health: tool.Health{State: tool.Ready}, Tools: t.tools, Broken: t.broken,
			Protocol: "folder"}
	})
	return !t.hasFailed()
}

// setState changes the state under the lock, wakes waiting calls and notifies the owner.
func (u *Upstream) setState(change func()) {
	u.mu.Lock()
	change()
	close(u.wake)
	u.wake = make(chan struct{})
	u.mu.Unlock()
	u.cfg.OnChange()
}

// awaitTable returns the tools, and waits until they are loaded.
func (u *Upstream) awaitTable(ctx context.Context) (*table, error) {
	for {
		u.mu.Lock()
		t, h, wake := u.table, u.snap.Health, u.wake
		u.mu.Unlock()
		switch {
		case h.State == tool.Down:
			return nil, tool.Errorf(tool.Unavailable, "upstream %q is down: %s", u.cfg.Name, h.Reason)
		case t != nil:
			return t, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, tool.AsError(context.Cause(ctx))
		}
	}
}

// Call runs the function of a tool.
func (u *Upstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == nil {
		return nil, tool.Errorf(tool.Internal, "upstream %q: the call names no tool", u.cfg.Name)
	}
	var arguments map[string]json.RawMessage
	if len(c.Arguments) > 0 && json.Unmarshal(c.Arguments, &arguments) != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: the arguments must be a JSON object", c.Tool.Path()))
	}
	t, err := u.awaitTable(ctx)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	target := t.byName[c.Tool.Name]
	if target == nil {
		return nil, tool.NotSent(tool.Errorf(tool.NotFound, "%s: the folder has no such tool any more", c.Tool.Path()))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-u.end:
			stop(tool.Errorf(tool.Unavailable, "upstream %q is being closed; whether the tool took effect is unknown",
				u.cfg.Name))
		case <-ctx.Done():
		}
	}()
	return target.Call(ctx, c)
}

// ListNotes returns what the author of the folder should know about its tools.
func (u *Upstream) ListNotes() []Note {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.table == nil {
		return nil
	}
	return u.table.notes
}

// A Note is a remark for the author of a tool.
type Note struct{ Tool, Text string }
