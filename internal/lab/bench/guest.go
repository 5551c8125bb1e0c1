package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A guest is a sandbox and the host's end of its stream. It is the minimum that speaks the guest
// protocol, so that measurements are of the engine.
type guest struct {
	box    sandbox.Sandbox
	stream *stream
	ran    chan error // the result of Run
	cancel context.CancelCauseFunc
}

// silence is the timeout for a guest's next message, or its end. After that it is stopped.
const silence = time.Minute

var errSilent = fmt.Errorf("a sandbox said nothing for %s", silence)

// seed is the random seed of all programs here.
const seed = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// openGuest starts a Run of box, which continues until pause or close.
func openGuest(ctx context.Context, box sandbox.Sandbox, call func(*sandbox.GuestCall) json.RawMessage) *guest {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guest{cancel: cancel, box: box, stream: &stream{call: call, ends: make(chan *sandbox.GuestMessage, 1)},
		ran: make(chan error, 1)}
	g.stream.more.L = &g.stream.mu
	go func() {
		_, err := box.Run(ctx, &sandbox.Cmd{Guest: g.stream, Keep: true})
		_ = g.stream.Close()
		g.ran <- err
	}()
	return g
}

// runOnce runs a program in a fresh sandbox, on the caller's goroutine. It returns the program's
// value, and the time at which the host had it.
func runOnce(ctx context.Context, box sandbox.Sandbox, p *program.Program) (value string, at time.Time, err error) {
	return runWithTraffic(ctx, box, p, nil)
}

// runWithTraffic is like runOnce, for a program with connections.
func runWithTraffic(ctx context.Context, box sandbox.Sandbox, p *program.Program, t sandbox.Traffic) (value string,
	at time.Time, err error) {
	line, err := encodeRun(p)
	if err != nil {
		return "", at, err
	}
	s := &stream{ends: make(chan *sandbox.GuestMessage, 1), once: true}
	s.more.L = &s.mu
	s.sendLine(line)
	if _, err := box.Run(ctx, &sandbox.Cmd{Guest: s, Keep: true, Traffic: t}); err != nil {
		return "", at, fmt.Errorf("a sandbox ended: %w", err)
	}
	select {
	case m := <-s.ends:
		value, err = readResult(m)
		return value, s.at, err
	default:
		return "", at, errors.New("a sandbox ended before its program did")
	}
}

// encodeRun returns the message that starts a program.
func encodeRun(p *program.Program) ([]byte, error) {
	return tool.Marshal(sandbox.HostMessage{At: time.Now().UnixMilli(), Run: &sandbox.Run{
		Code: p.Code, Name: p.Name, Line: p.Line, Seed: seed, Session: true,
		Namespaces: map[string][]string{"bench": {"echo"}},
	}})
}

// readResult returns the value or the error of a program.
func readResult(m *sandbox.GuestMessage) (string, error) {
	if m.Fail != nil {
		return "", fmt.Errorf("a program failed: %s: %s", m.Fail.Error.Name, m.Fail.Error.Message)
	}
	return string(m.Done.Value), nil
}

// evalProgram runs a program, which continues from the state of the ones before it, and returns its
// value.
func (g *guest) evalProgram(p *program.Program) (string, error) {
	line, err := encodeRun(p)
	if err != nil {
		return "", err
	}
	g.stream.sendLine(line)
	late := time.NewTimer(silence)
	defer late.Stop()
	select {
	case <-late.C:
		g.cancel(errSilent)
		return "", errSilent
	case m := <-g.stream.ends:
		return readResult(m)
	case err := <-g.ran:
		g.ran <- err
		return "", fmt.Errorf("a sandbox ended: %w", err)
	}
}

// pauseRun ends the Run; the sandbox stays.
func (g *guest) pauseRun() error {
	g.stream.endStream()
	late := time.AfterFunc(silence, func() { g.cancel(errSilent) }) // a driver that ignores this ends its process
	defer late.Stop()
	err := <-g.ran
	g.ran <- err
	return err
}

// closeGuest ends the Run and closes the sandbox.
func (g *guest) closeGuest() error {
	defer g.cancel(nil)
	return errors.Join(g.pauseRun(), g.box.Close())
}

// A stream is the host's end of a guest stream. It is a sandbox.NonblockingStream, as
// the stream of a child process is.
type stream struct {
	call func(*sandbox.GuestCall) json.RawMessage // answers calls immediately
	ends chan *sandbox.GuestMessage               // receives Done and Fail
	once bool                                     // the stream ends with the first of them
	at   time.Time                                // when that arrived
	part []byte                                   // incomplete line from the guest

	mu    sync.Mutex
	more  sync.Cond
	out   bytes.Buffer // not yet read by the guest
	to    sandbox.Sink // if set, receives the data for the guest instead
	ended bool
}

// Write handles lines from the guest.
func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.part = append(s.part, p...)
			return n, nil
		}
		line := p[:i]
		if len(s.part) > 0 {
			line, s.part = append(s.part, line...), nil
		}
		if err := s.handleLine(line); err != nil {
			return 0, err
		}
		p = p[i+1:]
	}
}

func (s *stream) handleLine(line []byte) error {
	m := &sandbox.GuestMessage{}
	if err := json.Unmarshal(line, m); err != nil {
		return fmt.Errorf("a line of the guest: %w", err)
	}
	switch {
	case m.Call != nil && s.call != nil:
		line, err := tool.Marshal(sandbox.HostMessage{At: time.Now().UnixMilli(),
			Answer: &sandbox.Answer{ID: m.Call.ID, Value: s.call(m.Call)}})
		if err != nil {
			return err
		}
		s.sendLine(line)
	case m.Done != nil, m.Fail != nil:
		s.at = time.Now()
		s.ends <- m
		if s.once {
			s.endStream()
		}
	}
	return nil
}

func (s *stream) sendLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line = append(line, '\n'); s.to != nil && !s.ended {
		s.to.AcceptPush(line, nil)
		return
	}
	s.out.Write(line)
	s.more.Signal()
}

func (s *stream) endStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to != nil && !s.ended {
		s.to.AcceptPush(nil, io.EOF)
	}
	s.ended = true
	s.more.Broadcast()
}

// Push passes data for the guest to a Sink as it arrives.
func (s *stream) Push(to sandbox.Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to = to; s.out.Len() > 0 {
		to.AcceptPush(s.out.Bytes(), nil)
	}
	if s.ended {
		to.AcceptPush(nil, io.EOF)
	}
}

// AddCredit does nothing: the stream holds nothing back.
func (*stream) AddCredit(int) {}

// WriteNow handles lines from the guest. It never blocks.
func (s *stream) WriteNow(p []byte, _ bool) (int, error) { return s.Write(p) }

// Listen does nothing: lines for the guest arrive without polling.
func (*stream) Listen(func() bool) {}

// Read reads data from the host.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended {
		s.more.Wait()
	}
	if s.out.Len() == 0 {
		return 0, io.EOF
	}
	return s.out.Read(p)
}

// Close ends the stream for both sides, even if the guest was stopped before it answered.
func (s *stream) Close() error {
	s.endStream()
	return nil
}
