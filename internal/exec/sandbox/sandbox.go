// Package sandbox defines sandboxes: a Driver creates sandboxes of one kind, a Sandbox runs one
// Cmd, and the guest inside communicates with the host over one byte stream, in the protocol of
// protocol.go. Drivers carry the bytes of that stream without reading them. Code that implements
// the protocol doesn't depend on a driver.
package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Driver creates sandboxes of one kind. It is safe for concurrent use.
type Driver interface {
	// Probe returns the capabilities of this kind on this host. Its error explains why the kind
	// can't run here.
	Probe(ctx context.Context) (Capabilities, error)
	// Create returns a fresh sandbox without state of an earlier one. It fails rather than leave
	// out a protection.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
}

// Capabilities describes a kind of sandbox on this host.
type Capabilities struct {
	Driver   string    `json:"driver"` // "wasm"
	Tier     tool.Tier `json:"tier"`
	Runtimes []string  `json:"runtimes"` // valid values of Spec.Runtime: "js", "python", "bash", "go"
	Engine   string    `json:"engine"`   // names and versions of the engines, for users
	// Engines maps runtimes to their engines. If a runtime is missing, only Engine is known.
	Engines map[string]string `json:"engines,omitempty"`
	// Builds maps runtimes to the identities of the engines' builds: a guest of another build may
	// behave differently on the same input. If a runtime is missing, only Engine is known.
	Builds  map[string]string `json:"builds,omitempty"`
	Details map[string]string `json:"details,omitempty"`
	// Modules maps runtimes to the modules that their programs can import and that the embedded
	// engine lacks.
	Modules map[string][]string `json:"modules,omitempty"`
	// Unavailable maps runtimes of this kind that can't run on this host to the reason.
	Unavailable map[string]string `json:"unavailable,omitempty"`
	// Ephemeral means that guests are not deterministic, and can be neither stored nor replayed:
	// they end with the process that created them.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// protections that are not armed on this host, and their substitutes
	Missing []string `json:"missing,omitempty"`
}

// SlowStart is the key in Capabilities.Details of why sandboxes start slowly at the moment, if they
// do.
const SlowStart = "slow start"

// A Spec configures a sandbox. A zero limit means the driver's default, never "none".
type Spec struct {
	Runtime string        // language runtime, one of Capabilities.Runtimes; empty means "js"
	Owner   string        // owner: guests of different owners never share a process, if guests have processes
	Memory  int64         // hard limit of the guest's memory, in bytes
	CPU     time.Duration // CPU time of the guest in one Run
	Stack   int64         // bytes of the guest's own stack
	Output  int64         // bytes that the guest may write to the guest stream in one Run
	Image   string        // image of the sandbox, for an Imager; empty: its default
}

// An Image is an image that sandboxes can be created from.
type Image struct {
	Name     string
	Tier     tool.Tier           // the weakest tier at which its programs run
	Runtimes []string            // valid values of Spec.Runtime with it
	Modules  map[string][]string // that it has beside those of the default, by runtime
	Host     bool                // it has what the default has, too
	Built    bool                // it can be used now
}

// An Imager is a Driver that can create sandboxes from images.
type Imager interface {
	// ListImages returns all images by name, also unbuilt ones.
	ListImages() ([]Image, error)
}

// A Warmer is a Driver that starts sandboxes ahead.
type Warmer interface {
	// WarmImage starts a sandbox like those of a spec ahead, now. It fails if none can be kept.
	WarmImage(ctx context.Context, spec Spec) (Warmth, error)
}

// A Warmth describes the sandboxes that were started ahead and are alike.
type Warmth struct {
	Ready int           // how many wait now
	Claim time.Duration // how long it took to claim one, until its agent answered
	Start time.Duration // how long it took to start one, with its imports
	For   time.Duration // how long one waits for a program
}

// A Sandbox is one guest and its state.
type Sandbox interface {
	// Run runs cmd until the guest ends or ctx is done, like os/exec's Cmd.Run, and returns the
	// guest's exit code. If a limit was reached, the error is a *LimitError. If ctx ended, it wraps
	// the context's cause. After an error the sandbox may only be closed. After a successful Run of
	// a Cmd with Keep, Run may be called again.
	Run(ctx context.Context, cmd *Cmd) (exit int, err error)
	// Close destroys the sandbox and its state. It may be called twice, and stops a Run in
	// progress.
	Close() error
}

// A Cmd describes one run of a guest, like os/exec.Cmd: the caller sets its fields, and Run fills
// in Usage.
type Cmd struct {
	// Guest is the guest stream. When a read returns io.EOF the guest ends or, with Keep, is kept.
	Guest io.ReadWriter
	// Ask answers a question for which the guest blocks. Question and answer are one line each,
	// without a newline, and small enough for a file operation. Its context is done when the guest
	// is stopped. If Ask is nil, questions get no answer. Time that the guest waits doesn't count
	// towards its limits.
	Ask func(ctx context.Context, question []byte) (answer []byte)
	// Keep keeps the guest when Guest returns io.EOF. Run returns as soon as the guest has consumed
	// all earlier lines and has no job left. The next Run continues from there with another stream.
	// Whatever the guest then waits for (a timer, an answer) arrives as a line of a later Run.
	Keep bool
	// Next, with Keep, returns a line to a guest that blocks for one after Guest has ended: the
	// line that would be the first of the next Run, or nil if none comes. If Next is nil, such a
	// guest is lost. Its context is done when the guest is stopped.
	Next func(ctx context.Context) (line []byte)
	// Once ends the Run when the guest has sent Done or Fail and waits for more, although Guest has
	// not ended. A driver may ignore it: then Run ends when Guest does.
	Once bool
	CPU  time.Duration // limit of the guest's CPU time in this Run, if less than the Spec's
	// Traffic decides on the guest's connections during this Run, if its kind has a network. Nil:
	// none is permitted.
	Traffic Traffic

	Usage Usage // resources used by the Run; set when Run returns
}

// A Pusher is an optional interface of Cmd.Guest: a stream that delivers the host's bytes on the
// host's own goroutine, so that no other goroutine has to wake up.
type Pusher interface {
	// Push makes the stream pass the host's bytes to a Sink as they arrive, instead of being read.
	// Calls are sequential, and the first may come before Push returns. The last call carries the
	// end: io.EOF, or the error that ended the stream.
	Push(to Sink)
	// AddCredit reports that the driver has room for n more bytes.
	AddCredit(n int)
}

// A Sink accepts the host's bytes from a Pusher.
type Sink interface {
	// AcceptPush doesn't block and doesn't retain p. It returns how many bytes it consumed, and
	// reports the rest later by Pusher.AddCredit. That bounds the amount of pending data.
	AcceptPush(p []byte, end error) (took int)
}

// A NonblockingStream is a stream that can be read and written without blocking, so that a driver
// needs no goroutine for either direction.
type NonblockingStream interface {
	Pusher
	// WriteNow writes as much of p as it can without waiting for the host, possibly nothing. If
	// last is set, the host may get the bytes as late as the Run's result.
	WriteNow(p []byte, last bool) (n int, err error)
	// Listen may poll briefly for the host's bytes, on the goroutine that waits for them.
	// Meanwhile it calls the Sink, also on this goroutine. It returns when there reports that
	// something has arrived, or when the time is up. The driver calls it only before it waits.
	Listen(there func() bool)
}

// Usage is the resources that a Run used.
type Usage struct {
	CPU    time.Duration // CPU time of the guest
	Memory int64         // size of the guest's memory at the end, in bytes; only a part may be in use
}

// A Snapshotter is a Sandbox whose guest can be serialized.
type Snapshotter interface {
	// Snapshot returns the guest's state between two Runs, packed as the difference to a fresh
	// guest. It doesn't change the guest. It fails before the first Run, during a Run and after a
	// failed one.
	Snapshot(ctx context.Context) ([]byte, error)
}

// A Restorer is a Driver that creates sandboxes from snapshots, in this process or another, on this
// host or another. Snapshots are validated like any external input. But a modified one may produce
// a guest that does anything a guest can do: the caller that stores snapshots must authenticate
// them.
type Restorer interface {
	// Restore creates a sandbox that continues where the snapshot was taken. The Runtime and Memory
	// of spec must match the snapshot or be zero. If the snapshot is of another engine build, the
	// error is an *EngineError.
	Restore(ctx context.Context, spec Spec, snapshot []byte) (Sandbox, error)
}

// A Forker is a Sandbox that can be copied between two Runs. The copy is independent. It is as
// deterministic as the original, so the caller must seed it with its own randomness (Run.Seed of
// the guest protocol).
type Forker interface {
	Fork(ctx context.Context) (Sandbox, error)
}

// A Freezer is a Sandbox whose guest is kept between two Runs of a Cmd with Keep, but only as the
// processes that it consists of: it can be neither serialized nor copied. FreezeGuest and ThawGuest
// may be called at any time.
type Freezer interface {
	// FreezeGuest stops all processes of the guest. During a Run it does nothing.
	FreezeGuest() error
	// ThawGuest lets the processes continue. It fails if the guest has ended.
	ThawGuest() error
	// UsedMemory returns the memory that the guest uses, in bytes.
	UsedMemory() int64
}

// An EngineError reports that a snapshot was taken by another build of the engine.
type EngineError struct {
	Snapshot, Engine string // identities of both builds
}

// Error returns a message that names both builds.
func (e *EngineError) Error() string {
	return "the snapshot is of the engine build " + e.Snapshot + ", this one is " + e.Engine
}

// A LimitError reports which limit ended a guest.
type LimitError struct {
	Limit string // "memory", "cpu", "stack", "output"
	Msg   string // for the agent: the limit that was reached, and what to do
}

// Error returns Msg.
func (e *LimitError) Error() string { return e.Msg }
