// Package upstreamtest is the test suite that every kind of upstream must pass. The test of a kind
// calls Run with a description of a real peer.
package upstreamtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// patience is the longest time that the suite waits for anything.
const patience = 30 * time.Second

// A Case is a call with a check of its result.
type Case struct {
	Tool string
	Args string // a JSON object
	Text string // what the only content of the result contains
}

func (c Case) checkResult(r *tool.Result) error {
	if r.IsError || len(r.Content) != 1 || !strings.Contains(string(r.Content[0]), c.Text) {
		return fmt.Errorf("want the text %q", c.Text)
	}
	return nil
}

// A Peer describes a source of tools for the suite. Cases that a peer doesn't support are nil; the
// suite reports them as skipped.
type Peer struct {
	// New returns an upstream to the peer. onChange must be called when its Snapshot changes.
	New func(t testing.TB, onChange func()) upstream.Upstream
	// Echo returns a call whose result contains i.
	Echo func(i int) Case
	// Fails is a call to which the tool responds with an error result.
	Fails *Case
	// Slow is a call that lasts much longer than the suite would wait.
	Slow *Case
	// Kill ends the other side abruptly. Either the upstream or Kill itself restarts it.
	Kill func(t testing.TB, u upstream.Upstream)
}

// Run runs the suite.
func Run(t *testing.T, p Peer) {
	t.Run("connects and lists", p.testLists)
	t.Run("calls", p.testCalls)
	t.Run("error result", p.errorResult)
	t.Run("unknown tool", p.unknownTool)
	t.Run("wrong arguments", p.wrongArguments)
	t.Run("cancel", p.testCancel)
	t.Run("deadline", p.testDeadline)
	t.Run("many at once", p.testMany)
	t.Run("call before connection", p.testEarly)
	t.Run("call after close", p.testLate)
	t.Run("close in the middle of calls", p.testClosing)
	t.Run("comes back", p.comesBack)
}

// A Running is a running upstream.
type Running struct {
	upstream.Upstream
	changes chan struct{}
	stop    context.CancelFunc
	done    chan error
	once    sync.Once
}

// Start makes an upstream and runs it. At the end of the test it closes the upstream and checks
// that nothing is left: no goroutine of the package, no child process.
func Start(t testing.TB, make func(t testing.TB, onChange func()) upstream.Upstream) *Running {
	t.Helper()
	before := ChildProcesses(t)
	r := &Running{changes: newSignal(), done: newErr()}
	r.Upstream = make(t, func() {
		select {
		case r.changes <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
	t.Cleanup(func() {
		r.Close(t)
		NoneLeft(t, before)
	})
	return r
}

func newSignal() chan struct{} { return make(chan struct{}, 1) }
func newErr() chan error       { return make(chan error, 1) }

// Close stops the upstream and waits for its end.
func (r *Running) Close(t testing.TB) {
	t.Helper()
	r.once.Do(func() {
		r.stop()
		select {
		case err := <-r.done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not return after its ctx was done")
		}
	})
}

// Wait waits until ok returns true for the snapshot.
func (r *Running) Wait(t testing.TB, what string, ok func(upstream.Snapshot) bool) upstream.Snapshot {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond) // a change may be announced before this check
	defer tick.Stop()
	for {
		s := r.Snapshot()
		if ok(s) {
			return s
		}
		select {
		case <-r.changes:
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited for %s; it is %+v, %d tools, broken %v, stderr:\n%s", what, s.Health, len(s.Tools),
				s.Broken, strings.Join(s.Stderr, "\n"))
		}
	}
}

// Ready waits until the upstream is ready.
func (r *Running) Ready(t testing.TB) upstream.Snapshot {
	t.Helper()
	return r.Wait(t, "ready", func(s upstream.Snapshot) bool { return s.Health.State == tool.Ready })
}

// Do makes a call.
func (r *Running) Do(ctx context.Context, name, args string) (*tool.Result, error) {
	return r.Call(ctx, r.newCall(name, args))
}

func (r *Running) newCall(name, args string) *tool.Call {
	t := &tool.Tool{Upstream: r.Name(), Name: name}
	return &tool.Call{Tool: t, Path: t.Path(), Arguments: json.RawMessage(args)}
}

// checkCase makes the call of a case and checks its result.
func (r *Running) checkCase(t testing.TB, c Case) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := r.Do(ctx, c.Tool, c.Args)
	if err != nil {
		t.Fatalf("c.Tool = %s, c.Args = %s, err = %v, want err == nil", c.Tool, c.Args, err)
	}
	if err := c.checkResult(res); err != nil {
		t.Fatalf("c.Tool = %s, c.Args = %s, err = %v, res.Raw = %s, want err == nil", c.Tool, c.Args, err, res.Raw)
	}
}

func (p Peer) testLists(t *testing.T) {
	r := Start(t, p.New)
	s := r.Ready(t)
	if s.Health.Reason != "" || s.Health.Stale {
		t.Errorf("ready, but %+v", s.Health)
	}
	want, found := p.Echo(0).Tool, false
	seen := map[string]bool{}
	for _, x := range s.Tools {
		if x.Upstream != r.Name() || x.Name == "" || len(x.InputSchema) == 0 || !json.Valid(x.InputSchema) ||
			seen[x.Name] {
			t.Errorf("bad tool %+v", x)
		}
		seen[x.Name] = true
		found = found || x.Name == want
	}
	if !found {
		t.Errorf("tool %q is not listed", want)
	}
}

func (p Peer) testCalls(t *testing.T) {
	r := Start(t, p.New)
	r.Ready(t)
	r.checkCase(t, p.Echo(7))
	r.checkCase(t, p.Echo(8))
}

func (p Peer) errorResult(t *testing.T) {
	if p.Fails == nil {
		t.Skip("the peer has no tool that fails")
	}
	r := Start(t, p.New)
	r.Ready(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := r.Do(ctx, p.Fails.Tool, p.Fails.Args)
	if err != nil {
		t.Fatalf("an error result is no error: %v", err)
	}
	if !res.IsError {
		t.Errorf("IsError is not set: %s", res.Raw)
	}
	r.checkCase(t, p.Echo(1))
}

func (p Peer) unknownTool(t *testing.T) {
	r := Start(t, p.New)
	r.Ready(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := r.Do(ctx, "no-such-tool", `{}`)
	switch e := new(tool.Error); {
	case err == nil && !res.IsError:
		t.Errorf("a tool that does not exist answered %s", res.Raw)
	case err != nil && (!errors.As(err, &e) || e.Kind != tool.NotFound):
		t.Errorf("got %v, want a tool.Error of kind not_found", err)
	}
	r.checkCase(t, p.Echo(1))
}

func (p Peer) wrongArguments(t *testing.T) {
	r := Start(t, p.New)
	r.Ready(t)
	for _, args := range []string{`[]`, `7`, `{`, `{"a":1}{"b":2}`, "{\"a\":\n}", `{}` + "\n" + `{"jsonrpc":"2.0"}`} {
		if _, err := r.Do(t.Context(), p.Echo(0).Tool, args); kindOf(err) != tool.Invalid {
			t.Errorf("%q: got %v, want kind invalid", args, err)
		}
	}
	r.checkCase(t, p.Echo(1))
}

func kindOf(err error) tool.Kind {
	var e *tool.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Kind
}

func (p Peer) testCancel(t *testing.T) {
	if p.Slow == nil {
		t.Skip("the peer has no slow tool")
	}
	r := Start(t, p.New)
	r.Ready(t)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := r.Do(ctx, p.Slow.Tool, p.Slow.Args)
		failed <- err
	}()
	r.checkCase(t, p.Echo(1)) // the other call has started by now, or will find ctx done
	cancel()
	if err := awaitResult(t, failed); kindOf(err) != tool.Canceled {
		t.Errorf("got %v, want kind canceled", err)
	}
	r.checkCase(t, p.Echo(2))
}

func (p Peer) testDeadline(t *testing.T) {
	if p.Slow == nil {
		t.Skip("the peer has no slow tool")
	}
	r := Start(t, p.New)
	r.Ready(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Do(ctx, p.Slow.Tool, p.Slow.Args); kindOf(err) != tool.Timeout {
		t.Errorf("got %v, want kind timeout", err)
	}
	r.checkCase(t, p.Echo(2))
}

func awaitResult(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatal("it did not end")
		return nil
	}
}

func (p Peer) testMany(t *testing.T) {
	r := Start(t, p.New)
	r.Ready(t)
	const n = 100
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := p.Echo(i)
			res, err := r.Do(ctx, c.Tool, c.Args)
			if err == nil {
				err = c.checkResult(res)
			}
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func (p Peer) testEarly(t *testing.T) {
	r := Start(t, p.New)
	r.checkCase(t, p.Echo(3)) // waits for the connection
}

func (p Peer) testLate(t *testing.T) {
	r := Start(t, p.New)
	r.Ready(t)
	r.Close(t)
	if _, err := r.Do(t.Context(), p.Echo(0).Tool, p.Echo(0).Args); kindOf(err) != tool.Unavailable {
		t.Errorf("got %v, want kind unavailable", err)
	}
	if s := r.Snapshot(); s.Health.State != tool.Down || len(s.Tools) == 0 || !s.Health.Stale {
		t.Errorf("after the end it is %+v with %d tools", s.Health, len(s.Tools))
	}
}

func (p Peer) testClosing(t *testing.T) {
	if p.Slow == nil {
		t.Skip("the peer has no slow tool")
	}
	r := Start(t, p.New)
	r.Ready(t)
	const n = 10
	failed := make(chan error, n)
	for range n {
		go func() {
			_, err := r.Do(context.Background(), p.Slow.Tool, p.Slow.Args)
			failed <- err
		}()
	}
	r.checkCase(t, p.Echo(1))
	r.Close(t)
	for range n {
		if err := awaitResult(t, failed); kindOf(err) != tool.Unavailable {
			t.Errorf("got %v, want kind unavailable", err)
		}
	}
}

func (p Peer) comesBack(t *testing.T) {
	if p.Kill == nil {
		t.Skip("the peer can't be killed")
	}
	r := Start(t, p.New)
	before := r.Ready(t)
	failed := make(chan error, 1)
	if p.Slow != nil {
		go func() {
			_, err := r.Do(context.Background(), p.Slow.Tool, p.Slow.Args)
			failed <- err
		}()
	} else {
		failed <- tool.Errorf(tool.Unavailable, "no slow tool to be killed in")
	}
	r.checkCase(t, p.Echo(1))
	p.Kill(t, r.Upstream)
	again := time.AfterFunc(patience/3, func() { p.Kill(t, r.Upstream) }) // if the call began too late
	err := awaitResult(t, failed)
	again.Stop()
	if kindOf(err) != tool.Unavailable {
		t.Errorf("the call that was under way: got %v, want kind unavailable", err)
	} else {
		t.Logf("the call that was under way: %v", err)
	}
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		c := p.Echo(2)
		res, err := r.Do(ctx, c.Tool, c.Args)
		cancel()
		if err == nil {
			if err := c.checkResult(res); err != nil {
				t.Errorf("checkResult: %v", err)
			}
			break
		}
		if s := r.Snapshot(); len(s.Tools) != len(before.Tools) {
			t.Fatalf("the last good list is gone: %d tools, %+v", len(s.Tools), s.Health)
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not come back: %v; %+v", err, r.Snapshot().Health)
		}
	}
	r.Ready(t)
}

// NoneLeft checks that no goroutine of an upstream runs, and that no child process was added since
// before.
func NoneLeft(t testing.TB, before map[int]string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		stacks, children := strayGoroutines(), strayChildren(t, before)
		if len(stacks) == 0 && len(children) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: processes %v, goroutines:\n%s", children, strings.Join(stacks, "\n\n"))
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// strayGoroutines returns the stacks of goroutines that belong to an upstream.
func strayGoroutines() []string {
	buf := make([]byte, 1<<20)
	var out []string
	for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, line := range strings.Split(s, "\n") {
			if strings.Contains(line, "biplane/internal/upstream/") && !strings.Contains(line, "upstreamtest") &&
				!strings.Contains(line, "_test.") {
				if !strings.Contains(s, "testing.tRunner") && !strings.Contains(s, "_test.") {
					out = append(out, s)
				}
				break
			}
		}
	}
	return out
}

func strayChildren(t testing.TB, before map[int]string) []string {
	var out []string
	for pid, name := range ChildProcesses(t) {
		if _, ok := before[pid]; !ok {
			out = append(out, fmt.Sprintf("%d %s", pid, name))
		}
	}
	return out
}

// ChildProcesses returns our child processes that have their own process group, as those of
// upstreams have and those of tests don't. It works only on Linux.
func ChildProcesses(t testing.TB) map[int]string {
	t.Helper()
	out := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended meanwhile
		}
		head, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var parent, group, pid int
		if _, err := fmt.Sscan(rest, &state, &parent, &group); err != nil || parent != os.Getpid() {
			continue
		}
		if _, err := fmt.Sscan(head, &pid); err == nil && group == pid {
			out[pid] = head + ") " + state
		}
	}
	return out
}
