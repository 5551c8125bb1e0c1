// Package sandbox says what a sandbox is: a Driver makes sandboxes of one kind, a Sandbox runs one Cmd, and the guest
// inside talks to the host over one byte stream, in the protocol of protocol.go. Drivers carry the bytes of that
// stream and read none of them; whoever speaks the protocol knows no driver.
package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Driver makes sandboxes of one kind. It is safe for concurrent use.
type Driver interface {
	// Probe says what this kind can do on this host; its error is why it can't run here.
	Probe(ctx context.Context) (Capabilities, error)
	// Create makes a sandbox: fresh, holding nothing of any earlier one. It fails rather than leave out a protection.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
}

// Capabilities are what a kind can do on this host.
type Capabilities struct {
	Driver   string            `json:"driver"` // "wasm"
	Tier     tool.Tier         `json:"tier"`
	Runtimes []string          `json:"runtimes"` // what Cmd.Args[0] may be: "js"
	Engine   string            `json:"engine"`   // name and version of what runs the guest, for people
	Details  map[string]string `json:"details,omitempty"`
	Missing  []string          `json:"missing,omitempty"` // protections that are not armed on this host, and what stands in for them
}

// A Spec is what a sandbox is made for. A zero limit means the driver's default, never "none".
type Spec struct {
	Memory int64         // bytes that the guest can hold, hard
	CPU    time.Duration // CPU time of the guest in one Run
	Stack  int64         // bytes of the guest's own stack
	Output int64         // bytes that the guest may write to the guest stream in one Run
}

// A Sandbox is one guest and all it holds.
type Sandbox interface {
	// Run runs cmd until the guest ends or ctx is done, as os/exec's Cmd.Run does, and gives the guest's exit code.
	// A limit that was reached is a *LimitError; an end of ctx is an error that wraps the context's cause.
	// After an error the sandbox may only be closed.
	Run(ctx context.Context, cmd *Cmd) (exit int, err error)
	// Close destroys the sandbox and all it holds. It may be called twice, and stops a Run that is under way.
	Close() error
}

// A Cmd is what to run, in the shape of os/exec.Cmd.
type Cmd struct {
	Args  []string      // Args[0] is one of Capabilities.Runtimes
	Guest io.ReadWriter // the guest stream; the guest ends when reading gives io.EOF
}

// A LimitError says which limit ended a guest.
type LimitError struct {
	Limit string // "memory", "cpu", "stack", "output"
	Msg   string // for the agent: what was reached, and what to do
}

// Error gives Msg.
func (e *LimitError) Error() string { return e.Msg }
