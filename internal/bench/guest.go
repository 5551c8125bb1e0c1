package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A guest is a sandbox with a program's end in it, and the host's end of its stream: the least that can speak the guest
// protocol, so that what is measured is the engine.
type guest struct {
	box    sandbox.Sandbox
	stream *stream
	ran    chan error // what Run gave
	cancel context.CancelCauseFunc
}

// silence is how long a guest may say nothing, or take to end: it is stopped then.
const silence = time.Minute

var errSilent = fmt.Errorf("a sandbox said nothing for %s", silence)

// seed is the randomness of all programs here.
var seed = strings.Repeat("0123456789abcdef", 4)

// open begins a Run of box, which goes on until pause or close.
func open(ctx context.Context, box sandbox.Sandbox, call func(*sandbox.GuestCall) json.RawMessage) *guest {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guest{cancel: cancel, box: box, stream: &stream{call: call, ends: make(chan *sandbox.GuestMessage, 1)}, ran: make(chan error, 1)}
	g.stream.more.L = &g.stream.mu
	go func() {
		_, err := box.Run(ctx, &sandbox.Cmd{Guest: g.stream, Keep: true})
		_ = g.stream.Close()
		g.ran <- err
	}()
	return g
}

// once runs a program in a fresh sandbox, on the caller's goroutine, and gives its value and when the host had it.
func once(ctx context.Context, box sandbox.Sandbox, p *program.Program) (value string, at time.Time, err error) {
	line, err := begins(p)
	if err != nil {
		return "", at, err
	}
	s := &stream{ends: make(chan *sandbox.GuestMessage, 1), once: true}
	s.more.L = &s.mu
	s.send(line)
	if _, err := box.Run(ctx, &sandbox.Cmd{Guest: s, Keep: true}); err != nil {
		return "", at, fmt.Errorf("a sandbox ended: %w", err)
	}
	select {
	case m := <-s.ends:
		value, err = result(m)
		return value, s.at, err
	default:
		return "", at, errors.New("a sandbox ended before its program did")
	}
}

// begins is the line that begins a program.
func begins(p *program.Program) ([]byte, error) {
	return tool.Marshal(sandbox.HostMessage{At: time.Now().UnixMilli(), Run: &sandbox.Run{
		Code: p.Code, Name: p.Name, Line: p.Line, Seed: seed, Session: true, Namespaces: map[string][]string{"bench": {"echo"}},
	}})
}

// result is what a program gave.
func result(m *sandbox.GuestMessage) (string, error) {
	if m.Fail != nil {
		return "", fmt.Errorf("a program failed: %s: %s", m.Fail.Error.Name, m.Fail.Error.Message)
	}
	return string(m.Done.Value), nil
}

// eval runs a program, which goes on where the ones before it ended, and gives its value.
func (g *guest) eval(p *program.Program) (string, error) {
	line, err := begins(p)
	if err != nil {
		return "", err
	}
	g.stream.send(line)
	late := time.NewTimer(silence)
	defer late.Stop()
	select {
	case <-late.C:
		g.cancel(errSilent)
		return "", errSilent
	case m := <-g.stream.ends:
		return result(m)
	case err := <-g.ran:
		g.ran <- err
		return "", fmt.Errorf("a sandbox ended: %w", err)
	}
}

// pause ends the Run; the sandbox stays.
func (g *guest) pause() error {
	g.stream.end()
	late := time.AfterFunc(silence, func() { g.cancel(errSilent) }) // a driver that doesn't heed that ends its process
	defer late.Stop()
	err := <-g.ran
	g.ran <- err
	return err
}

// close ends all of it.
func (g *guest) close() error {
	defer g.cancel(nil)
	return errors.Join(g.pause(), g.box.Close())
}

// A stream is the host's end of a guest stream. It is a sandbox.Prompt, as that of a child process is.
type stream struct {
	call func(*sandbox.GuestCall) json.RawMessage // answers calls, at once
	ends chan *sandbox.GuestMessage               // Done and Fail
	once bool                                     // it ends with the first of them
	at   time.Time                                // when that came
	part []byte                                   // of a line of the guest

	mu    sync.Mutex
	more  sync.Cond
	out   bytes.Buffer                  // what the guest has yet to read
	put   func(p []byte, end error) int // takes what the guest is to hear instead
	ended bool
}

// Write takes lines of the guest.
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
		if err := s.take(line); err != nil {
			return 0, err
		}
		p = p[i+1:]
	}
}

func (s *stream) take(line []byte) error {
	m := &sandbox.GuestMessage{}
	if err := json.Unmarshal(line, m); err != nil {
		return fmt.Errorf("a line of the guest: %w", err)
	}
	switch {
	case m.Call != nil && s.call != nil:
		line, err := tool.Marshal(sandbox.HostMessage{At: time.Now().UnixMilli(), Answer: &sandbox.Answer{ID: m.Call.ID, Value: s.call(m.Call)}})
		if err != nil {
			return err
		}
		s.send(line)
	case m.Done != nil, m.Fail != nil:
		s.at = time.Now()
		s.ends <- m
		if s.once {
			s.end()
		}
	}
	return nil
}

func (s *stream) send(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line = append(line, '\n'); s.put != nil && !s.ended {
		s.put(line, nil)
		return
	}
	s.out.Write(line)
	s.more.Signal()
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil && !s.ended {
		s.put(nil, io.EOF)
	}
	s.ended = true
	s.more.Broadcast()
}

// Push hands on what the guest is to hear, as it comes.
func (s *stream) Push(put func(p []byte, end error) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put = put; s.out.Len() > 0 {
		put(s.out.Bytes(), nil)
	}
	if s.ended {
		put(nil, io.EOF)
	}
}

// Took does nothing: the stream holds nothing back.
func (*stream) Took(int) {}

// WriteNow takes lines of the guest, which never waits.
func (s *stream) WriteNow(p []byte) (int, error) { return s.Write(p) }

// Read gives what the host says.
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

// Close ends the stream for both: also where the guest was stopped before it answered.
func (s *stream) Close() error {
	s.end()
	return nil
}
