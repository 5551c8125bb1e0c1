package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// began is the start time of a stage's programs, in milliseconds since the epoch.
const began = 1_900_000_000_000

// A stage is a guest that is kept between Runs, with a deterministic host that has no clock or
// randomness. The host's messages depend only on the test and on the guest's messages.
type stage struct {
	t   testing.TB
	box sandbox.Sandbox
	at  int64

	sent  []string // lines sent by the host
	heard []string // lines sent by the guest
	calls []*sandbox.GuestCall
	timer float64 // milliseconds until the wake requested by the guest; negative: none
	done  *sandbox.Done
	fail  *sandbox.Fail
}

func newStage(t testing.TB, d sandbox.Driver, runtime string) *stage {
	t.Helper()
	spec := roomy
	spec.Runtime = runtime
	box, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("create a sandbox: %v", err)
	}
	return onStage(t, box)
}

// onStage returns a stage for a sandbox; the test closes it.
func onStage(t testing.TB, box sandbox.Sandbox) *stage {
	s := &stage{t: t, box: box, at: began, timer: -1}
	t.Cleanup(s.close)
	return s
}

func (s *stage) close() {
	if err := s.box.Close(); err != nil {
		s.t.Errorf("close the sandbox: %v", err)
	}
}

// A tape is a stream with predefined host input.
type tape struct {
	*strings.Reader
	said bytes.Buffer
}

// Write records the guest's output.
func (t *tape) Write(b []byte) (int, error) { return t.said.Write(b) }

// feed runs the guest with lines as input, and keeps it.
func (s *stage) feed(lines ...string) error {
	tp := &tape{Reader: strings.NewReader(strings.Join(lines, "\n") + "\n")}
	if _, err := s.box.Run(s.t.Context(), &sandbox.Cmd{Guest: tp, Keep: true}); err != nil {
		return err
	}
	s.sent = append(s.sent, lines...)
	for line := range strings.Lines(tp.said.String()) {
		line = strings.TrimSuffix(line, "\n")
		s.heard = append(s.heard, line)
		var m sandbox.GuestMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return fmt.Errorf("guest message %q: %w", line, err)
		}
		switch {
		case m.Call != nil:
			s.calls = append(s.calls, m.Call)
		case m.Timer != nil:
			s.timer = m.Timer.MS
		case m.Done != nil:
			s.done = m.Done
		case m.Fail != nil:
			s.fail = m.Fail
		}
	}
	return nil
}

// say sends messages.
func (s *stage) say(ms ...sandbox.HostMessage) {
	s.t.Helper()
	var lines []string
	for _, m := range ms {
		s.at += 3
		m.At = s.at
		b, err := tool.Marshal(m)
		if err != nil {
			s.t.Fatalf("tool.Marshal: %v", err)
		}
		lines = append(lines, string(b))
	}
	if err := s.feed(lines...); err != nil {
		s.t.Fatalf("run: %v", err)
	}
}

// begin starts a program with the given seed.
func (s *stage) begin(code string, seed uint64) {
	s.t.Helper()
	s.done, s.fail, s.timer = nil, nil, -1
	s.say(sandbox.HostMessage{Run: &sandbox.Run{Code: code, Name: "program", Session: true,
		Seed: fmt.Sprintf("%064x", seed), Namespaces: map[string][]string{"test": {"echo"}}}})
}

// answer answers the call at i with its arguments.
func (s *stage) answer(i int) {
	s.t.Helper()
	c := s.calls[i]
	s.calls = append(s.calls[:i:i], s.calls[i+1:]...)
	s.say(sandbox.HostMessage{Answer: &sandbox.Answer{ID: c.ID, Value: c.Args}})
}

// next answers a random pending call or the timer. It reports false if nothing is pending.
func (s *stage) next(r *rand.Rand) bool {
	s.t.Helper()
	switch {
	case len(s.calls) > 0:
		s.answer(r.IntN(len(s.calls)))
	case s.timer >= 0:
		s.at += int64(s.timer)
		s.timer = -1
		s.say(sandbox.HostMessage{Wake: &sandbox.Wake{}})
	default:
		return false
	}
	return true
}

// finish continues until the program has ended, and returns its value.
func (s *stage) finish(r *rand.Rand) string {
	s.t.Helper()
	for s.done == nil && s.fail == nil {
		if !s.next(r) {
			s.t.Fatalf("the guest waits for nothing and has not ended; it said %q", s.heard)
		}
	}
	if s.fail != nil {
		s.t.Fatalf("the program failed: %+v", s.fail.Error)
	}
	return string(s.done.Value)
}

// run runs a program to its end.
func (s *stage) run(code string) string {
	s.t.Helper()
	s.begin(code, 1)
	return s.finish(rand.New(rand.NewPCG(1, 1)))
}

// snapshot returns a snapshot of the guest, or skips the test.
func (s *stage) snapshot() []byte {
	s.t.Helper()
	b, err := snapshotter(s.t, s.box).Snapshot(s.t.Context())
	if err != nil {
		s.t.Fatalf("snapshot: %v", err)
	}
	return b
}

func snapshotter(t testing.TB, box sandbox.Sandbox) sandbox.Snapshotter {
	t.Helper()
	x, ok := box.(sandbox.Snapshotter)
	if !ok {
		t.Skip("this kind doesn't keep its guests as bytes")
	}
	return x
}

// restore returns a stage with the guest of a snapshot, in the same state as s.
func (s *stage) restore(d sandbox.Driver, b []byte) *stage {
	s.t.Helper()
	r, ok := d.(sandbox.Restorer)
	if !ok {
		s.t.Skip("this kind doesn't make guests of bytes")
	}
	box, err := r.Restore(s.t.Context(), sandbox.Spec{CPU: roomy.CPU}, b)
	if err != nil {
		s.t.Fatalf("restore: %v", err)
	}
	return s.like(box)
}

// fork copies the guest.
func (s *stage) fork() *stage {
	s.t.Helper()
	f, ok := s.box.(sandbox.Forker)
	if !ok {
		s.t.Skip("this kind doesn't copy its guests")
	}
	box, err := f.Fork(context.WithoutCancel(s.t.Context()))
	if err != nil {
		s.t.Fatalf("fork: %v", err)
	}
	return s.like(box)
}

// like returns a stage for another guest, in the same state as s.
func (s *stage) like(box sandbox.Sandbox) *stage {
	n := onStage(s.t, box)
	n.at, n.timer, n.done, n.fail = s.at, s.timer, s.done, s.fail
	n.calls = append(n.calls, s.calls...)
	return n
}
