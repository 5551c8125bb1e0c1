package wasm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Sandbox is one guest. It implements sandbox.Sandbox.
type Sandbox struct {
	d    *Driver
	kind *kind
	img  *image
	spec sandbox.Spec

	// The fields below belong to the goroutine that called begin, and to park while the sandbox is
	// idle.
	region *region     // nil while the guest is parked, or was never mapped
	guest  *guest      // in region
	saved  *savedGuest // the guest's current state if it was snapshotted and has not run since; never nil while parked
	forked []pageRun   // the pages that differ from the image, if Fork looked for them since the last Run

	mu     sync.Mutex
	ran    bool          // a Run succeeded, or the guest was restored from a snapshot
	ended  error         // why no further Run is possible
	busy   chan struct{} // closed when the current operation ends; nil if there is none
	run    *guestRun     // the current Run
	closed bool
}

var (
	errClosed = errors.New("the sandbox is closed")
	errOver   = errors.New("its last Run was to be the last (it was without Keep)")
)

// newSandbox creates a sandbox from a complete spec.
func (d *Driver) newSandbox(k *kind, spec sandbox.Spec) (*Sandbox, error) {
	img, err := k.loadImage()
	if err != nil {
		return nil, err
	}
	r, err := d.newRegion(img, int(spec.Memory))
	if err != nil {
		return nil, err
	}
	return &Sandbox{d: d, kind: k, img: img, spec: spec, region: r, guest: newGuest(r, img, silentHost{})}, nil
}

// Run runs the guest until the host closes the stream (exit code 0), a limit is reached or ctx is
// done. At the end it closes cmd.Guest if it has a Close method, as a process closes its end of a
// pipe. Otherwise a pending Read or Write continues on a leaked goroutine until the other side ends
// it.
func (s *Sandbox) Run(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	if cmd.Guest == nil {
		return -1, tool.Errorf(tool.Invalid, "a guest needs a stream")
	}
	if cmd.CPU < 0 {
		return -1, tool.Errorf(tool.Invalid, "sandbox limits may not be negative")
	}
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	}
	r := newRun(s, cmd)
	if err := s.begin("run", r); err != nil {
		r.drop()
		return -1, err
	}
	if err := s.wake(); err != nil {
		s.end(nil)
		r.drop()
		return -1, err
	}
	r.setGuest(s.guest)
	s.saved, s.forked = nil, nil
	unhook := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	err = r.perform()
	unhook()
	cmd.Usage = r.usage()
	s.end(func() {
		s.ran = err == nil
		switch {
		case err != nil:
			s.ended = err
		case !cmd.Keep:
			s.ended = errOver
		}
	})
	if err != nil {
		return -1, fmt.Errorf("run a guest: %w", err)
	}
	return 0, nil
}

// begin starts an operation, of which only one may run at a time; r is nil except for a Run. The
// caller must call end.
func (s *Sandbox) begin(what string, r *guestRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &tool.Error{Kind: tool.Conflict, Msg: errClosed.Error(), Err: errClosed}
	case s.busy != nil:
		return tool.Errorf(tool.Conflict, "can't %s the sandbox: it is running", what)
	case s.ended == errOver:
		return &tool.Error{Kind: tool.Conflict, Msg: "can't " + what + " the sandbox: " + errOver.Error(), Err: errOver}
	case s.ended != nil:
		return tool.Errorf(tool.Conflict, "can't %s the sandbox, which ended with an error: %w", what, s.ended)
	case r == nil && !s.ran:
		return tool.Errorf(tool.Conflict, "can't %s the sandbox before its first Run", what)
	}
	s.busy, s.run = make(chan struct{}), r
	s.d.idle.remove(s)
	return nil
}

// end ends the operation started by begin; note updates the sandbox's state.
func (s *Sandbox) end(note func()) {
	s.mu.Lock()
	if note != nil {
		note()
	}
	close(s.busy)
	s.busy, s.run = nil, nil
	var surplus []*Sandbox
	if s.saved != nil && s.region != nil && !s.closed {
		surplus = s.d.idle.add(s, s.saved.size())
	}
	s.mu.Unlock()
	for _, other := range surplus {
		other.park()
	}
}

// Close stops a current Run, waits for its end and destroys the guest.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.d.idle.remove(s)
	r, busy := s.run, s.busy
	s.mu.Unlock()
	if r != nil {
		r.stop(errClosed)
	}
	if busy != nil {
		<-busy
	}
	s.mu.Lock()
	region := s.region
	s.region, s.guest, s.saved = nil, nil, nil
	s.mu.Unlock()
	if region != nil {
		s.d.pool.returnRegion(s.img, region)
	}
	return nil
}
