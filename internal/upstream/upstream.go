// Package upstream defines sources of tools. Each kind, such as MCP servers, is a package below
// this one, which knows its own protocol and implements Upstream.
package upstream

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Upstream is a source of tools. It is safe for concurrent use.
//
// Call expects a Call whose Tool is set and belongs to this upstream. If the upstream is
// connecting, Call waits for the connection, within ctx and the upstream's own time limits. If
// there is no connection, it fails with tool.Unavailable. It never repeats a call whose outcome is
// unknown.
type Upstream interface {
	tool.Caller
	// Name returns the upstream's name in the configuration.
	Name() string
	// Run connects and stays connected, reconnecting after failures, until ctx is done. It returns
	// when everything it started (goroutines, processes, connections) has ended. It is called once.
	Run(ctx context.Context) error
	// Snapshot returns the current state of the upstream. It never blocks.
	Snapshot() Snapshot
}

// A Watcher is an Upstream whose resources can be watched for updates. Its methods don't block.
type Watcher interface {
	// WatchResource counts a watcher of a resource. The subscription itself is a call of the tool
	// with the method tool.Subscribe, which fails for a resource without a watcher.
	WatchResource(uri string)
	// UnwatchResource undoes WatchResource. When the last watcher is gone, the subscription ends.
	UnwatchResource(uri string)
	// ResumeResource subscribes to a resource that has a watcher without a call. It is for a
	// subscription that a call of another connection with the same credentials has begun.
	ResumeResource(uri string)
}

// A Snapshot is the state of an upstream at one moment.
type Snapshot struct {
	Health   tool.Health
	Tools    []*tool.Tool // the last valid list, in the upstream's order; must not be modified
	Offers   *tool.Offers // what it offers besides tools; may be nil
	Broken   []Broken     // tools left out because their definitions are invalid
	Protocol string       // negotiated revision, for example "2025-11-25"
	Server   string       // what the server calls itself, "name version"
	Stderr   []string     // last lines of its standard error, oldest first
}

// A Broken is a tool that was left out, with the reason.
type Broken struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}
