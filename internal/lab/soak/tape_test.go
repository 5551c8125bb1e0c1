package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A tape holds everything that went in and out of one guest.
type tape struct {
	spec sandbox.Spec

	mu      sync.Mutex
	in      []byte   // what the host sent on the stream, over all Runs
	answers [][]byte // to the guest's requests
	out     []byte   // what the guest sent on the stream
	asked   [][]byte // the guest's requests
	runs    int
	once    bool // its Runs end with the guest's last message, and leave later lines unread
}

// isEnded reports whether the guest has sent its last message.
func (t *tape) isEnded() bool {
	all := lines(t.out)
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return bytes.HasPrefix(last, []byte(`{"done":`)) || bytes.HasPrefix(last, []byte(`{"fail":`))
}

// lines returns the lines of b, with their ends.
func lines(b []byte) (out [][]byte) {
	for l := range bytes.Lines(b) {
		out = append(out, l)
	}
	return out
}

// A recorder wraps a driver and keeps a tape of each guest, across suspensions.
type recorder struct {
	inner driver

	mu    sync.Mutex
	tapes []*tape
	kept  map[[sha256.Size]byte]*tape // by the digest of snapshots
}

func newRecorder(d driver) *recorder {
	return &recorder{inner: d, kept: map[[sha256.Size]byte]*tape{}}
}

// take returns the tapes and removes them.
func (r *recorder) take() []*tape {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.tapes
	r.tapes, r.kept = nil, map[[sha256.Size]byte]*tape{}
	return out
}

func (r *recorder) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	return r.inner.Probe(ctx)
}

func (r *recorder) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := r.inner.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	t := &tape{spec: spec}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tapes = append(r.tapes, t)
	return &recorded{box, r, t}, nil
}

func (r *recorder) Restore(ctx context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	r.mu.Lock()
	t := r.kept[sha256.Sum256(snapshot)]
	r.mu.Unlock()
	if t == nil {
		return nil, errors.New("a snapshot that was never made")
	}
	box, err := r.inner.Restore(ctx, spec, snapshot)
	if err != nil {
		return nil, err
	}
	return &recorded{box, r, t}, nil
}

// A recorded is a sandbox with its tape.
type recorded struct {
	sandbox.Sandbox
	r *recorder
	t *tape
}

func (s *recorded) Run(ctx context.Context, cmd *sandbox.Cmd) (int, error) {
	inner := *cmd
	inner.Guest = &teed{cmd.Guest, s.t}
	if cmd.Ask != nil {
		inner.Ask = func(ctx context.Context, question []byte) []byte {
			question = bytes.Clone(question)
			a := cmd.Ask(ctx, question)
			s.t.mu.Lock()
			defer s.t.mu.Unlock()
			s.t.asked = append(s.t.asked, question)
			s.t.answers = append(s.t.answers, bytes.Clone(a))
			return a
		}
	}
	s.t.mu.Lock()
	s.t.runs++
	s.t.once = cmd.Once
	s.t.mu.Unlock()
	exit, err := s.Sandbox.Run(ctx, &inner)
	cmd.Usage = inner.Usage
	return exit, err
}

func (s *recorded) Snapshot(ctx context.Context) ([]byte, error) {
	b, err := s.Sandbox.(sandbox.Snapshotter).Snapshot(ctx)
	if err == nil {
		s.r.mu.Lock()
		s.r.kept[sha256.Sum256(b)] = s.t
		s.r.mu.Unlock()
	}
	return b, err
}

// A teed is a stream that is recorded.
type teed struct {
	io.ReadWriter
	t *tape
}

func (s *teed) Read(p []byte) (int, error) {
	n, err := s.ReadWriter.Read(p)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.in = append(s.t.in, p[:n]...)
	return n, err
}

func (s *teed) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	s.t.out = append(s.t.out, p...)
	s.t.mu.Unlock()
	return s.ReadWriter.Write(p)
}

func (s *teed) Close() error {
	if c, ok := s.ReadWriter.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// replay sends the tape's input to a fresh guest, and returns the tape of that run. It suspends the
// guest after each number of lines in cuts, and continues in a sandbox of the next driver.
func (t *tape) replay(ctx context.Context, cuts []int, drivers ...driver) (_ *tape, err error) {
	again := &tape{spec: t.spec}
	box, err := drivers[0].Create(ctx, t.spec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	left, answers := lines(t.in), t.answers
	for i := 0; ; i++ {
		n, last := len(left), i == len(cuts)
		if !last {
			n = min(cuts[i], n)
		}
		s := &played{in: bytes.NewReader(bytes.Join(left[:n], nil)), t: again}
		left = left[n:]
		run, cancel := context.WithCancelCause(ctx)
		cmd := &sandbox.Cmd{Guest: s, Keep: true, Once: t.once}
		cmd.Ask = func(_ context.Context, question []byte) []byte {
			again.mu.Lock()
			defer again.mu.Unlock()
			again.asked = append(again.asked, bytes.Clone(question))
			if len(again.asked) > len(answers) {
				cancel(fmt.Errorf("it asks more than it did: %s", question))
				return nil
			}
			return answers[len(again.asked)-1]
		}
		_, err := box.Run(run, cmd)
		cause := context.Cause(run)
		cancel(nil)
		switch {
		case cause != nil:
			return nil, cause
		case err != nil:
			return nil, err
		case last, t.once && again.isEnded():
			return again, nil
		}
		next := drivers[(i+1)%len(drivers)]
		snapshot, err := box.(sandbox.Snapshotter).Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		if err := box.Close(); err != nil {
			return nil, err
		}
		restored, err := next.Restore(ctx, t.spec, snapshot)
		if err != nil {
			return nil, err
		}
		box = restored
	}
}

// A played is the host's end of the stream in a replay.
type played struct {
	in *bytes.Reader
	t  *tape
}

func (s *played) Read(p []byte) (int, error) { return s.in.Read(p) }

func (s *played) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.out = append(s.t.out, p...)
	return len(p), nil
}

// differs returns where two tapes of the same input differ, or returns "".
func (t *tape) differs(other *tape) string {
	for _, c := range []struct {
		what string
		a, b [][]byte
	}{{"line", lines(t.out), lines(other.out)}, {"question", t.asked, other.asked}} {
		for i := range max(len(c.a), len(c.b)) {
			switch {
			case i >= len(c.a):
				return fmt.Sprintf("%s %d is new: %s", c.what, i, c.b[i])
			case i >= len(c.b):
				return fmt.Sprintf("%s %d is missing: %s", c.what, i, c.a[i])
			case !bytes.Equal(c.a[i], c.b[i]):
				return fmt.Sprintf("%s %d was\n%s\nand is\n%s", c.what, i, c.a[i], c.b[i])
			}
		}
	}
	return ""
}
