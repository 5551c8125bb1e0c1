package sandboxtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Host is the host's side of one run, for tests: it sends the program, answers its requests and
// records its messages.
type Host struct {
	// Call answers a call, each on its own goroutine. If it is nil, calls are never answered.
	Call func(ctx context.Context, c *sandbox.GuestCall) *sandbox.Answer
	// Seen is called with every message from the guest, in order; it may be nil.
	Seen func(m *sandbox.GuestMessage)
	// Linger keeps the stream open after the guest's Done or Fail.
	Linger bool
	// Keep keeps the guest for the next Run.
	Keep bool
	// Traffic decides on the guest's connections; nil: it has none.
	Traffic sandbox.Traffic
}

// An Outcome is the outcome of a run.
type Outcome struct {
	Value     json.RawMessage // the value of Done; nil if the program has none
	Done      bool
	Fail      *sandbox.GuestError // the error reported by the guest, or nil
	Unawaited []int64
	Console   []sandbox.Console
	Exit      int
	Err       error // error of Run
}

// Limit returns the limit that ended the run, or "".
func (o *Outcome) Limit() string {
	var l *sandbox.LimitError
	if errors.As(o.Err, &l) {
		return l.Limit
	}
	return ""
}

// String returns the outcome in one line.
func (o *Outcome) String() string {
	switch {
	case o.Err != nil:
		return fmt.Sprintf("error %v", o.Err)
	case o.Fail != nil:
		return fmt.Sprintf("fail %s: %s (%s)", o.Fail.Name, o.Fail.Message, o.Fail.Kind)
	case o.Done:
		return fmt.Sprintf("done %s", o.Value)
	}
	return fmt.Sprintf("exit %d without a result", o.Exit)
}

// Exec runs one program in a fresh sandbox of d. Code is a script whose value is a function, as in
// sandbox.Run.
func Exec(ctx context.Context, t testing.TB, d sandbox.Driver, spec sandbox.Spec, code string, h Host) *Outcome {
	t.Helper()
	box, err := d.Create(ctx, spec)
	if err != nil {
		t.Fatalf("create a sandbox: %v", err)
	}
	o := h.Run(ctx, box, sandbox.Run{Code: code, Name: "program.js", Namespaces: map[string][]string{"test": {"echo"}}})
	if err := box.Close(); err != nil {
		t.Errorf("close the sandbox: %v", err)
	}
	return o
}

// Run runs a program in box and waits for its end.
func (h Host) Run(ctx context.Context, box sandbox.Sandbox, run sandbox.Run) *Outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, theirs := net.Pipe()
	o := &Outcome{}
	var ended, answers sync.WaitGroup
	ended.Go(func() {
		o.Exit, o.Err = box.Run(ctx, &sandbox.Cmd{Guest: theirs, Traffic: h.Traffic, Keep: h.Keep})
		_ = theirs.Close()
	})
	w := &sender{w: ours}
	wake := time.AfterFunc(math.MaxInt64, func() { _ = w.send(message(sandbox.HostMessage{Wake: &sandbox.Wake{}})) })
	defer wake.Stop()
	if run.Seed == "" {
		run.Seed = NewSeed()
	}
	_ = w.send(message(sandbox.HostMessage{Run: &run})) // an error also ends the read below
	in := bufio.NewReader(ours)
	for !o.Done && o.Fail == nil || h.Linger {
		m, err := receive(in)
		if err != nil {
			break
		}
		if h.Seen != nil {
			h.Seen(m)
		}
		o.keep(m)
		if m.Timer != nil {
			wake.Stop()
			if m.Timer.MS >= 0 {
				wake.Reset(time.Duration(m.Timer.MS * float64(time.Millisecond)))
			}
		}
		if c := m.Call; c != nil && h.Call != nil {
			answers.Go(func() {
				if a := h.Call(ctx, c); a != nil {
					a.ID = c.ID
					_ = w.send(message(sandbox.HostMessage{Answer: a})) // the guest may have ended
				}
			})
		}
	}
	_ = ours.Close()
	ended.Wait()
	cancel()
	answers.Wait()
	return o
}

// NewSeed returns a random Seed for a sandbox.Run.
func NewSeed() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// message returns m with the current time of day.
func message(m sandbox.HostMessage) sandbox.HostMessage {
	m.At = time.Now().UnixMilli()
	return m
}

// keep records a message in o.
func (o *Outcome) keep(m *sandbox.GuestMessage) {
	switch {
	case m.Console != nil:
		o.Console = append(o.Console, *m.Console)
	case m.Done != nil:
		o.Done, o.Value, o.Unawaited = true, m.Done.Value, m.Done.Unawaited
	case m.Fail != nil:
		o.Fail = &m.Fail.Error
	}
}

// A sender writes messages atomically.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(m any) error {
	b, err := tool.Marshal(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.w.Write(append(b, '\n'))
	return err
}

func receive(r *bufio.Reader) (*sandbox.GuestMessage, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	m := &sandbox.GuestMessage{}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("guest message %q: %w", line, err)
	}
	return m, nil
}
