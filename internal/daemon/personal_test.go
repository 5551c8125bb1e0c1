package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// A scene is a personalUpstream whose instances are fakes.
type scene struct {
	*personalUpstream
	running atomic.Int64
	most    atomic.Int64
	started atomic.Int64
	release chan struct{} // calls of the tool wait end when it is closed
	entered chan string   // receives the secret of each call of the tool wait
}

// A fakeInstance answers calls with its secret.
type fakeInstance struct {
	s     *scene
	value string
	tools []*tool.Tool
	note  notice
}

func (f *fakeInstance) Name() string { return "fake" }

func (f *fakeInstance) Snapshot() upstream.Snapshot {
	return upstream.Snapshot{Health: tool.Health{State: tool.Ready}, Tools: f.tools}
}

func (f *fakeInstance) Run(ctx context.Context) error {
	n := f.s.running.Add(1)
	for most := f.s.most.Load(); n > most && !f.s.most.CompareAndSwap(most, n); most = f.s.most.Load() {
	}
	f.note()
	<-ctx.Done()
	f.s.running.Add(-1)
	return nil
}

func (f *fakeInstance) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Path == "wait" {
		f.s.entered <- f.value
		<-f.s.release
	}
	return &tool.Result{Raw: []byte(f.value)}, nil
}

type noRecord struct{}

func (noRecord) noteQuarantine(string, string) {}

func (noRecord) event(context.Context, audit.Event) error { return nil }

// newScene returns a running personalUpstream with room for size instances, and an eighth more.
func newScene(t *testing.T, size int64, keep time.Duration) *scene {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { st.Close() })
	key, err := secret.NewKey(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s := &scene{release: make(chan struct{}), entered: make(chan string, 100)}
	u := &upstreams{upstreamParts: upstreamParts{log: slog.New(slog.DiscardHandler),
		secrets: newSecrets(config.Default(), st.OpenSecrets(key), mask.New(), noRecord{})},
		startup: newStartup(nil), pool: newInstancePool(size)}
	s.personalUpstream = newPersonalUpstream("fake", u, []string{"KEY"}, nil, keep,
		func(_ string, _ *oauth.Client, values map[string]string, changed func()) (upstream.Upstream, error) {
			s.started.Add(1)
			return &fakeInstance{s: s, value: values["KEY"], tools: []*tool.Tool{{Upstream: "fake", Name: "x"}},
				note: changed}, nil
		}, func() {})
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	s.changed = sync.OnceFunc(func() { close(ready) })
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-ready
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil || s.running.Load() != 0 {
			t.Errorf("Run: %v with %d instances left, want none", err, s.running.Load())
		}
		if used, _ := s.pool.shares.Load(); used != 0 {
			t.Errorf("%d places are still taken, want none", used)
		}
	})
	return s
}

func (s *scene) setSecret(t *testing.T, owner, value string) {
	t.Helper()
	if _, err := s.secrets.SetSecret(t.Context(), owner, "KEY", value); err != nil {
		t.Fatalf("SetSecret: %v", err)
	}
}

func (s *scene) callAs(owner, path string) (string, error) {
	r, err := s.Call(context.Background(), &tool.Call{Path: path, Principal: tool.Principal{ID: owner}})
	if err != nil {
		return "", err
	}
	return string(r.Raw), nil
}

// wantCall makes a call, which must use the value.
func (s *scene) wantCall(t *testing.T, owner, value string) {
	t.Helper()
	if got, err := s.callAs(owner, "x"); err != nil || got != value {
		t.Errorf("call as %s: %q, %v, want %q", owner, got, err, value)
	}
}

func TestPersonalCredentials(t *testing.T) {
	t.Parallel()
	s := newScene(t, 8, time.Hour)
	if len(s.Snapshot().Tools) != 0 || s.Snapshot().Health.State != tool.NeedsSignIn {
		t.Errorf("before the first use: %+v, want needs sign-in", s.Snapshot())
	}
	s.setSecret(t, "key:ann", "secret of ann")
	s.wantCall(t, "key:ann", "secret of ann")
	for _, owner := range []string{"key:bob", ""} {
		_, err := s.callAs(owner, "x")
		const missing = "secret KEY is not set for key:bob: run `biplane secrets set KEY --for key:bob`"
		if e := tool.AsError(err); e == nil || !e.Unsent || owner != "" && !strings.Contains(e.Msg, missing) {
			t.Errorf("call as %q: %v, want an error about the secret", owner, err)
		}
	}
	s.PrepareFor(t.Context(), "key:ann")
	if snap := s.Snapshot(); len(snap.Tools) != 1 || !snap.Tools[0].Personal || snap.Health.State != tool.Ready {
		t.Errorf("after a use: %+v, want one personal tool", snap)
	}
	s.wantCall(t, "key:ann", "secret of ann")
	if n := s.started.Load(); n != 1 {
		t.Errorf("%d instances were started, want 1", n)
	}
	// a new value is used from the next call on, and a removed one no more
	s.setSecret(t, "key:ann", "another secret of ann")
	s.wantCall(t, "key:ann", "another secret of ann")
	if err := s.secrets.RemoveSecret(t.Context(), "key:ann", "KEY"); err != nil {
		t.Fatalf("RemoveSecret: %v", err)
	}
	if _, err := s.callAs("key:ann", "x"); err == nil {
		t.Error("a call without the secret succeeded")
	}
	if len(s.Snapshot().Tools) != 1 {
		t.Error("the tools are gone, want them to stay known")
	}
}

// When all places are taken, an idle instance makes room. If there is none, the call is refused.
func TestPersonalRoom(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, time.Hour) // and one more
	for _, name := range []string{"ann", "bob", "cat", "dan"} {
		s.setSecret(t, "key:"+name, "secret of "+name)
	}
	for _, name := range []string{"ann", "bob", "cat", "dan", "ann"} {
		s.wantCall(t, "key:"+name, "secret of "+name)
	}
	if n := s.started.Load(); n != 5 {
		t.Errorf("%d instances were started, want 5: the longest idle one is stopped", n)
	}
	var calls sync.WaitGroup
	for _, name := range []string{"cat", "dan", "ann"} {
		calls.Go(func() {
			if got, err := s.callAs("key:"+name, "wait"); err != nil || got != "secret of "+name {
				t.Errorf("call as %s: %q, %v", name, got, err)
			}
		})
		<-s.entered
	}
	_, err := s.callAs("key:bob", "x")
	if e := tool.AsError(err); e == nil || e.Kind != tool.Unavailable || !e.Unsent {
		t.Errorf("call without room: %v, want an unavailable error", err)
	}
	close(s.release)
	calls.Wait()
	s.wantCall(t, "key:bob", "secret of bob")
	if n := s.most.Load(); n > 3 {
		t.Errorf("%d instances ran at the same time, want 3 at most", n)
	}
}

// TestPersonalIdle checks that an idle instance ends without another call.
func TestPersonalIdle(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, time.Nanosecond)
	s.setSecret(t, "key:ann", "secret of ann")
	i, release, err := s.useInstance(t.Context(), "key:ann")
	if err != nil {
		t.Fatalf("useInstance: %v", err)
	}
	release()
	<-i.done
	s.wantCall(t, "key:ann", "secret of ann")
}

// TestPersonalRace calls as many principals at the same time, while their secrets change. Each call
// must use a secret of its own principal, and the limit must hold.
func TestPersonalRace(t *testing.T) {
	t.Parallel()
	s := newScene(t, 4, time.Millisecond)
	const principals, calls = 10, 30
	for p := range principals {
		s.setSecret(t, fmt.Sprintf("key:p%d", p), fmt.Sprintf("secret of p%d 0", p))
	}
	var all sync.WaitGroup
	var answered atomic.Int64
	for p := range principals {
		owner := fmt.Sprintf("key:p%d", p)
		all.Go(func() {
			for n := range calls {
				if n%10 == 9 {
					if _, err := s.secrets.SetSecret(t.Context(), owner, "KEY",
						fmt.Sprintf("secret of p%d %d", p, n)); err != nil {
						t.Errorf("SetSecret: %v", err)
					}
				}
				got, err := s.callAs(owner, "x")
				switch e := tool.AsError(err); {
				case err == nil && strings.HasPrefix(got, fmt.Sprintf("secret of p%d ", p)):
					answered.Add(1)
				case e == nil || !e.Unsent:
					t.Errorf("call as %s: %q, %v", owner, got, err)
				}
			}
		})
	}
	all.Wait()
	if n := s.most.Load(); n > 5 {
		t.Errorf("%d instances ran at the same time, want 5 at most", n)
	}
	if answered.Load() == 0 {
		t.Error("no call was answered")
	}
}
