// Package upstream says what a source of tools is. Each kind (MCP servers, OpenAPI documents, folders of tool files)
// is a package below this one, knows its own protocol, and gives an Upstream.
package upstream

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Upstream is a source of tools. It is safe for concurrent use.
//
// Call takes a Call whose Tool is set and belongs to this upstream. When the upstream is not connected, Call waits for
// a connection that is being made, no longer than the ctx and the upstream's own bounds allow, else it fails with
// tool.Unavailable. It never repeats a call whose outcome is unknown.
type Upstream interface {
	tool.Caller
	// Name is the upstream's name in the configuration.
	Name() string
	// Run connects and stays connected, coming back by itself after failures, until ctx is done. It returns when
	// everything it started (goroutines, processes, connections) is gone. It is called once.
	Run(ctx context.Context) error
	// Snapshot says how the upstream is now. It never waits.
	Snapshot() Snapshot
}

// A Snapshot is how an upstream is at one moment.
type Snapshot struct {
	Health   tool.Health
	Tools    []*tool.Tool // the last good list, in the upstream's order; not to be changed
	Broken   []Broken     // tools left out because their definitions are no good
	Protocol string       // revision negotiated, for example "2025-11-25"
	Server   string       // what the other side calls itself, "name version"
	Stderr   []string     // last lines that it wrote to its standard error, oldest first
}

// Broken is a tool that was left out, and why.
type Broken struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}
