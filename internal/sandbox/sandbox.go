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
	Driver   string    `json:"driver"` // "wasm"
	Tier     tool.Tier `json:"tier"`
	Runtimes []string  `json:"runtimes"` // what Spec.Runtime may be: "js", "python"
	Engine   string    `json:"engine"`   // names and versions of what runs guests, for people
	// Engines are those of each, by runtime. Where there is none, Engine is all that is known.
	Engines map[string]string `json:"engines,omitempty"`
	// Builds are the identities of the engines' builds, by runtime: a guest of another build may do something else with
	// what it hears. Where there is none, Engine is all that is known.
	Builds  map[string]string `json:"builds,omitempty"`
	Details map[string]string `json:"details,omitempty"`
	Missing []string          `json:"missing,omitempty"` // protections that are not armed on this host, and what stands in for them
}

// A Spec is what a sandbox is made for. A zero limit means the driver's default, never "none".
type Spec struct {
	Runtime string        // what runs in it, one of Capabilities.Runtimes; empty means "js"
	Owner   string        // whose it is: guests of different owners never share a process, where guests have processes
	Memory  int64         // bytes that the guest can hold, hard
	CPU     time.Duration // CPU time of the guest in one Run
	Stack   int64         // bytes of the guest's own stack
	Output  int64         // bytes that the guest may write to the guest stream in one Run
}

// A Sandbox is one guest and all it holds.
type Sandbox interface {
	// Run runs cmd until the guest ends or ctx is done, as os/exec's Cmd.Run does, and gives the guest's exit code.
	// A limit that was reached is a *LimitError; an end of ctx is an error that wraps the context's cause.
	// After an error the sandbox may only be closed. After a Run without one, of a Cmd with Keep, it may Run again.
	Run(ctx context.Context, cmd *Cmd) (exit int, err error)
	// Close destroys the sandbox and all it holds. It may be called twice, and stops a Run that is under way.
	Close() error
}

// A Cmd is what to run, in the shape of os/exec.Cmd: the caller sets its fields, Run fills in Usage.
type Cmd struct {
	// Guest is the guest stream. When reading gives io.EOF the guest ends, or, with Keep, stays as it is.
	Guest io.ReadWriter
	// Ask answers a question that the guest asks and stands still for: one line each, without '\n', both as small as a
	// file operation needs. Its context is done when the guest is stopped. It may be nil: then there are no answers.
	// Time that the guest waits counts towards none of its limits.
	Ask func(ctx context.Context, question []byte) (answer []byte)
	// Keep keeps the guest when Guest gives io.EOF: Run returns as soon as the guest has taken all lines before the end
	// and has no job left, and the next Run goes on from there, with another stream. What it then waits for (a timer, an
	// answer) comes by a line of a later Run.
	Keep bool
	// Next, with Keep, gives a guest that stands still for a line when Guest has ended the one that would be the first of the next Run; nil
	// when none comes. Without it such a guest is lost. Its context is done when the guest is stopped.
	Next func(ctx context.Context) (line []byte)
	CPU  time.Duration // CPU time of the guest in this Run, if it is to be less than the Spec's

	Usage Usage // what the Run took; set when Run returns
}

// A Pusher is what a Cmd's Guest may be, too: a stream that hands on what the host says on the goroutine that says it, so that
// none has to wake for it.
type Pusher interface {
	// Push has the stream call put, instead of being read, with what the host says, as it comes: one call after the other,
	// the first maybe before Push returns, with the end (io.EOF, or why there is no more) as the last. put doesn't wait and
	// keeps nothing of p; of what it doesn't take at once, in bytes, it says so later by Took. That bounds what comes.
	Push(put func(p []byte, end error) (took int))
	// Took says that the driver has room for n bytes more.
	Took(n int)
}

// A Prompt is a stream both of whose ends can be served without waiting, so that a driver needs no goroutine for either.
type Prompt interface {
	Pusher
	// WriteNow writes as much of p as can be written without waiting for the host, which may be nothing.
	WriteNow(p []byte) (n int, err error)
}

// A Listener is a Prompt that can also look for what the host says on the goroutine that waits for it.
type Listener interface {
	// Listen may look for a moment; it calls put meanwhile, on this goroutine too, and returns when there says that there is
	// something, or after the moment. It is called before the driver waits, and only then.
	Listen(there func() bool)
}

// Usage is what a Run took.
type Usage struct {
	CPU    time.Duration // CPU time of the guest
	Memory int64         // bytes that the guest's memory spans at the end, of which it may use few
}

// A Snapshotter is a Sandbox whose guest can be kept as bytes.
type Snapshotter interface {
	// Snapshot gives the guest as it is between two Runs, packed: what differs from a fresh one. It changes nothing of
	// the guest. It fails before the first Run, while one is under way and after one that failed.
	Snapshot(ctx context.Context) ([]byte, error)
}

// A Restorer is a Driver that makes sandboxes out of what Snapshot gave, in this process or another, on this host or
// another. Snapshots are checked as anything from outside is, but a changed one may give a guest that does anything
// that a guest can do: whoever keeps them authenticates them.
type Restorer interface {
	// Restore makes a sandbox that goes on where the snapshot was taken. The Runtime and Memory of spec are those of
	// the snapshot, or zero. A snapshot of another build of the engine is an *EngineError.
	Restore(ctx context.Context, spec Spec, snapshot []byte) (Sandbox, error)
}

// A Forker is a Sandbox that can be copied between two Runs. The copy is independent; it is as deterministic as the
// original, so whoever runs it gives it randomness of its own (Run.Seed of the guest protocol).
type Forker interface {
	Fork(ctx context.Context) (Sandbox, error)
}

// An EngineError says that a snapshot is of another build of the engine than this one.
type EngineError struct {
	Snapshot, Engine string // identities of both builds
}

// Error names both builds.
func (e *EngineError) Error() string {
	return "the snapshot is of the engine build " + e.Snapshot + ", this one is " + e.Engine
}

// A LimitError says which limit ended a guest.
type LimitError struct {
	Limit string // "memory", "cpu", "stack", "output"
	Msg   string // for the agent: what was reached, and what to do
}

// Error gives Msg.
func (e *LimitError) Error() string { return e.Msg }
