package wasm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Sandbox is one guest. It implements sandbox.Sandbox.
type Sandbox struct {
	d      *Driver
	spec   sandbox.Spec
	region *region

	mu     sync.Mutex
	guest  *guest        // nil before the first Run
	ended  error         // why there can be no further Run
	run    *run          // the one under way
	idle   chan struct{} // closed when run is over
	closed bool
}

var errClosed = errors.New("the sandbox is closed")

func newSandbox(d *Driver, spec sandbox.Spec, r *region) *Sandbox {
	return &Sandbox{d: d, spec: spec, region: r}
}

// Run runs the guest until the host hangs up (exit code 0), a limit is reached or ctx is done. It closes cmd.Guest at
// the end if that has a Close method, as a process closes its end of a pipe: otherwise a Read or Write of it that is
// under way goes on, on a goroutine that is left behind, until the other side ends it.
func (s *Sandbox) Run(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	if cmd.Guest == nil {
		return -1, tool.Errorf(tool.Invalid, "a guest needs a stream")
	}
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	}
	r, err := s.begin(cmd)
	if err != nil {
		return -1, err
	}
	unhook := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	err = r.do()
	unhook()
	s.end(err)
	if err != nil {
		return -1, fmt.Errorf("run a guest: %w", err)
	}
	return 0, nil
}

// begin makes a run, and the guest for the first one.
func (s *Sandbox) begin(cmd *sandbox.Cmd) (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, &tool.Error{Kind: tool.Conflict, Msg: errClosed.Error(), Err: errClosed}
	case s.run != nil:
		return nil, tool.Errorf(tool.Conflict, "the sandbox is running already")
	case s.ended != nil:
		return nil, tool.Errorf(tool.Conflict, "the sandbox ended with an error and can only be closed: %w", s.ended)
	}
	img, err := s.d.boot()
	if err != nil {
		return nil, err
	}
	first := s.guest == nil
	if first {
		s.guest = newGuest(s.region, img.h, nil)
	}
	s.run = newRun(s.d, s.guest, s.spec, cmd, first)
	s.idle = make(chan struct{})
	return s.run, nil
}

func (s *Sandbox) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = err; err == nil && s.run.stopped() != nil {
		s.ended = errDead // the host hung up in the middle of something
	}
	s.run = nil
	close(s.idle)
}

// Close stops a Run that is under way, waits for its end and destroys the guest.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	r, idle := s.run, s.idle
	s.mu.Unlock()
	if r != nil {
		r.stop(errClosed)
		<-idle
	}
	s.d.release(s.region)
	return nil
}
