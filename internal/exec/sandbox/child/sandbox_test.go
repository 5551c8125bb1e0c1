//go:build linux

package child_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/tool"
)

// lines is a guest stream with fixed input. It records the guest's output.
type lines struct {
	io.Reader
	said bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) { return l.said.Write(b) }

func say(text string) *lines { return &lines{Reader: strings.NewReader(text)} }

// create creates a sandbox for owner.
func create(t *testing.T, d sandbox.Driver, owner string) *child.Sandbox {
	t.Helper()
	box, err := d.Create(t.Context(), sandbox.Spec{Owner: owner})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return box.(*child.Sandbox)
}

// ran runs lines that must succeed, and returns the guest's output.
func ran(t *testing.T, box sandbox.Sandbox, text string) string {
	t.Helper()
	g := say(text)
	cmd := &sandbox.Cmd{Guest: g, Keep: true}
	if exit, err := box.Run(t.Context(), cmd); err != nil || exit != 7 {
		t.Fatalf("%q: exit %d, %v", text, exit, err)
	}
	if cmd.Usage.CPU != time.Millisecond {
		t.Errorf("usage %+v", cmd.Usage)
	}
	return g.said.String()
}

func TestSession(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	box := create(t, d, "a")
	ran(t, box, "add one\nadd two\n")
	if got := ran(t, box, "get\n"); got != "one two\n" {
		t.Errorf("the guest forgot: %q", got)
	}
	copied, err := box.Fork(t.Context())
	if err != nil {
		t.Fatalf("Fork: %v", err)
	}
	ran(t, copied, "add three\n")
	big := strings.Repeat("long ", 300<<10)
	ran(t, box, "add "+big+"\n")
	kept, err := box.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	back, err := d.Restore(t.Context(), sandbox.Spec{Owner: "b"}, kept)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	if got := ran(t, copied, "get\n"); got != "one two three\n" {
		t.Errorf("the copy has %.50q", got)
	}
	if got := ran(t, back, "get\n"); got != "one two "+big+"\n" {
		t.Errorf("the restored one has %.50q", got)
	}
	if box.PID() == back.(*child.Sandbox).PID() {
		t.Error("two owners share a process")
	}
	var engine *sandbox.EngineError
	if _, err := d.Restore(t.Context(), sandbox.Spec{}, []byte("nonsense")); !errors.As(err, &engine) ||
		engine.Engine != "memo" {
		t.Errorf("nonsense was restored: %v", err)
	}
	for _, b := range []sandbox.Sandbox{copied, back} {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := box.Fork(t.Context()); err != nil {
		t.Errorf("Fork: %v", err)
	}
}

func TestSnapshotTooLarge(t *testing.T) {
	d := newDriver(t, "memo", child.Config{Snapshot: 1000})
	box := create(t, d, "")
	ran(t, box, "add "+strings.Repeat("x", 2000)+"\n")
	if _, err := box.Snapshot(t.Context()); tool.AsError(err).Kind != tool.Limit {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Limit", err)
	}
	ran(t, create(t, d, ""), "get\n")
}

func TestErrors(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	run := func(text string) error {
		_, err := create(t, d, "").Run(t.Context(), &sandbox.Cmd{Guest: say(text)})
		return err
	}
	var limit *sandbox.LimitError
	if err := run("fail limit\n"); !errors.As(err, &limit) || limit.Limit != "cpu" ||
		limit.Msg != "the CPU time of 1s is over" {
		t.Errorf("err = %v, want errors.As(err, &limit) && limit.Limit == \"cpu\" && limit.Msg == \"the "+
			"CPU time of 1s is over\"", err)
	}
	var engine *sandbox.EngineError
	if err := run("fail engine\n"); !errors.As(err, &engine) ||
		*engine != (sandbox.EngineError{Snapshot: "a", Engine: "b"}) {
		t.Errorf("err = %v, want errors.As(err, &engine) && *engine == (sandbox.EngineError{Snapshot: "+
			"\"a\", Engine: \"b\"})", err)
	}
	if err := tool.AsError(run("fail tool\n")); err.Kind != tool.Conflict || err.Msg != "it can't be: inside" {
		t.Errorf(`err = %+v, want err.Kind == tool.Conflict && err.Msg == "it can't be: inside"`, err)
	}
	if err := run("fail plain\n"); err == nil || err.Error() != "run a guest: plain" {
		t.Errorf(`err = %v, want err != nil && err.Error() == "run a guest: plain"`, err)
	}
	if _, err := d.Create(t.Context(), sandbox.Spec{Memory: 1}); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Invalid", err)
	}
	caps, err := d.Probe(t.Context())
	if err != nil || caps.Driver != "memo" || caps.Missing[0] != "everything" ||
		!strings.Contains(caps.Details["process"], "system call filter") {
		t.Errorf("caps = %+v, err = %v", caps, err)
	}
}

func TestAsk(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	long := strings.Repeat("why? ", 100<<10)
	g := say("ask short\nask " + long + "\n")
	cmd := &sandbox.Cmd{Guest: g, Ask: func(_ context.Context, q []byte) []byte { return bytes.ToUpper(q) }}
	if _, err := create(t, d, "").Run(t.Context(), cmd); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if want := "SHORT\n" + strings.ToUpper(long) + "\n"; g.said.String() != want {
		t.Errorf("g.said.String() = %.100q, want g.said.String() == want", g.said.String())
	}
	// The context of Ask is canceled when the guest is stopped.
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cmd = &sandbox.Cmd{Guest: say("ask for ever\n"), Ask: func(ctx context.Context, q []byte) []byte {
		cancel(gone)
		<-ctx.Done()
		return nil
	}}
	if _, err := create(t, d, "").Run(ctx, cmd); !errors.Is(err, gone) {
		t.Errorf("err = %v, want errors.Is(err, gone)", err)
	}
}

// TestNext checks that a guest gets lines from Cmd.Next after the end of its stream.
func TestNext(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	long, given := strings.Repeat("more ", 100<<10), 0
	g := say("next\nask this\nnext\nnext\n")
	cmd := &sandbox.Cmd{Guest: g, Keep: true, Ask: func(_ context.Context, q []byte) []byte { return q },
		Next: func(context.Context) []byte {
			given++
			return [][]byte{[]byte("first"), []byte(long), nil}[given-1]
		}}
	if _, err := create(t, d, "").Run(t.Context(), cmd); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if want := "first\nthis\n" + long + "\n\n"; g.said.String() != want || given != 3 {
		t.Errorf("given = %d, g.said.String() = %.100q, want g.said.String() == want && given == 3",
			given, g.said.String())
	}
}

// TestAskWhileStopping stops a guest during a question. The question must block until the guest's
// driver stops it, as a second question would break the protocol.
func TestAskWhileStopping(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	beside := create(t, d, "")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := &sandbox.Cmd{Guest: say("nag\n"), Ask: func(ctx context.Context, q []byte) []byte {
			cancel()
			<-ctx.Done()
			return nil
		}}
		if _, err := create(t, d, "").Run(ctx, cmd); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
		}
	}
	ran(t, beside, "add one\n")
}

// slow is a host that reads nothing until may is closed.
type slow struct {
	io.Reader
	may chan struct{}
	n   int
}

func (s *slow) Write(b []byte) (int, error) { <-s.may; s.n += len(b); return len(b), nil }

func TestSlowReader(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	s := &slow{Reader: strings.NewReader("flood 20000000\n"), may: make(chan struct{})}
	ended := make(chan error, 1)
	box := create(t, d, "")
	go func() {
		_, err := box.Run(t.Context(), &sandbox.Cmd{Guest: s})
		ended <- err
	}()
	for range 20 {
		other := create(t, d, "")
		if other.PID() != box.PID() {
			t.Fatal("not in the same process")
		}
		if got := ran(t, other, "flood 300000\n"); len(got) != 300001 {
			t.Errorf("%d bytes", len(got))
		}
	}
	close(s.may)
	if err := <-ended; err != nil || s.n != 20000001 {
		t.Errorf("%d bytes, %v", s.n, err)
	}
}

func TestMisuse(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	box := create(t, d, "")
	ctx, cancel := context.WithCancel(t.Context())
	running := &announced{Reader: strings.NewReader("get\nspin\n"), said: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() {
		_, err := box.Run(ctx, &sandbox.Cmd{Guest: running})
		ended <- err
	}()
	<-running.said
	for name, f := range map[string]func() error{
		"run":      func() error { _, err := box.Run(t.Context(), &sandbox.Cmd{Guest: say("")}); return err },
		"snapshot": func() error { _, err := box.Snapshot(t.Context()); return err },
		"fork":     func() error { _, err := box.Fork(t.Context()); return err },
	} {
		if err := f(); tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("%s beside a run: %v", name, err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
	}
	if _, err := box.Run(t.Context(), &sandbox.Cmd{Guest: say("")}); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("a run after one that failed: %v", err)
	}
	if _, err := box.Run(t.Context(), &sandbox.Cmd{}); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("a run without a stream: %v", err)
	}
}

// announced is a host that signals the guest's first output.
type announced struct {
	io.Reader
	said chan struct{}
}

func (a *announced) Write(b []byte) (int, error) {
	select {
	case a.said <- struct{}{}:
	default:
	}
	return len(b), nil
}
