package sandbox

import (
	"context"
	"encoding/json"
	"os"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Network creates the host's ends of sandboxes' networks. It is safe for concurrent use.
type Network interface {
	// NewGate returns the host's end for a new sandbox.
	NewGate() (Gate, error)
}

// A Gate is the host's end of the network of one sandbox: everything that leaves the sandbox passes
// through it. Without traffic, it refuses everything.
type Gate interface {
	// DescribeSetup returns the setup for the sandbox.
	DescribeSetup() netns.Setup
	// AttachListeners accepts the listeners that the sandbox passed to the host, in the order of
	// package netns. It is called once, and closes the files.
	AttachListeners(files []*os.File) error
	// OpenTraffic serves the sandbox until close is called, which ends its connections. One
	// program's traffic is open at a time.
	OpenTraffic(ctx context.Context, t Traffic) (close func())
	CloseListeners() error
}

// Traffic decides on the connections of one program, or of one machine, on behalf of its principal,
// and records them. It is safe for concurrent use.
type Traffic interface {
	// ReachesHost reports whether some connection to a host could be permitted. The host is a name
	// or an address, in lower case.
	ReachesHost(host string) bool
	// PermitsConnection reports whether a call of the tool connect could be permitted.
	PermitsConnection(arguments json.RawMessage) bool
	// CallNetwork calls one of Biplane's tools for the network. The context carries what is done if
	// the call is permitted.
	CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error)
	// AddNote adds a line for the program's author to the console.
	AddNote(text string)
}
