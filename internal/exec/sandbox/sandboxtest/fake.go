package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Fake is a driver whose guests are Go functions, for tests of code that uses drivers. It
// isolates nothing.
type Fake struct {
	// Program is the guest: it receives the Run that the host sent, and its result ends the
	// sandbox's Run. A nil Program answers every Run with its code as a JSON string.
	Program func(ctx context.Context, g *Guest, run *sandbox.Run) error
	Missing error // error of Probe and Create, if not nil
}

// Probe returns capabilities of tier wasm, and Missing as the error.
func (f *Fake) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Driver: "fake", Tier: tool.WASM, Runtimes: []string{"js"}, Engine: "Go functions"},
		f.Missing
}

// Create returns a sandbox that ignores its limits.
func (f *Fake) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	if f.Missing != nil {
		return nil, f.Missing
	}
	return &fakeSandbox{fake: f, closed: make(chan struct{})}, nil
}

// A fakeSandbox runs a Go function.
type fakeSandbox struct {
	fake   *Fake
	closed chan struct{}
	once   sync.Once
	runs   sync.WaitGroup
}

var errClosed = errors.New("the sandbox is closed")

// Run runs the function until it ends, ctx is done or the sandbox is closed.
func (s *fakeSandbox) Run(ctx context.Context, cmd *sandbox.Cmd) (int, error) {
	s.runs.Add(1)
	defer s.runs.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- s.guest(ctx, cmd) }()
	select {
	case err := <-done:
		if err != nil {
			return -1, err
		}
		return 0, nil
	case <-s.closed:
		cancel(errClosed)
	case <-ctx.Done():
	}
	if c, ok := cmd.Guest.(io.Closer); ok {
		_ = c.Close()
	}
	<-done
	return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
}

// guest handles Runs until the stream ends.
func (s *fakeSandbox) guest(ctx context.Context, cmd *sandbox.Cmd) error {
	g := &Guest{in: bufio.NewReader(cmd.Guest), out: sender{w: cmd.Guest}}
	for {
		m, err := g.Receive()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if m.Run == nil {
			continue
		}
		if s.fake.Program == nil {
			code, _ := tool.Marshal(m.Run.Code) // a string always marshals
			err = g.Send(sandbox.GuestMessage{Done: &sandbox.Done{Value: code}})
		} else {
			err = s.fake.Program(ctx, g, m.Run)
		}
		if err != nil {
			return err
		}
	}
}

// Close ends a Run in progress.
func (s *fakeSandbox) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.runs.Wait()
	return nil
}

// A Guest is the guest's end of the stream, for the Program of a Fake.
type Guest struct {
	in  *bufio.Reader
	out sender
}

// Receive reads a message from the host. It returns io.EOF when the host has closed the stream.
func (g *Guest) Receive() (*sandbox.HostMessage, error) {
	line, err := g.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	m := &sandbox.HostMessage{}
	return m, json.Unmarshal(line, m)
}

// Send writes a message to the host.
func (g *Guest) Send(m sandbox.GuestMessage) error { return g.out.send(m) }

// Call calls a tool and waits for its answer. Only one Call may be pending.
func (g *Guest) Call(id int64, path string, args json.RawMessage) (*sandbox.Answer, error) {
	if err := g.Send(sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: id, Path: path, Args: args}}); err != nil {
		return nil, err
	}
	for {
		m, err := g.Receive()
		if err != nil {
			return nil, err
		}
		if m.Answer != nil && m.Answer.ID == id {
			return m.Answer, nil
		}
	}
}
