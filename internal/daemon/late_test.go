package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// newLateScene returns a running lateUpstream whose inner upstreams are fakes.
func newLateScene(t *testing.T) (*scene, *lateUpstream) {
	t.Helper()
	s := newScene(t, 1, time.Hour)
	l := newLateUpstream("fake", s.secrets, []string{"KEY"},
		func(values map[string]string, changed func()) (upstream.Upstream, error) {
			if strings.HasPrefix(values["KEY"], "invalid") {
				return nil, tool.Errorf(tool.Invalid, "%s can't be used", values["KEY"])
			}
			return &fakeInstance{s: s, value: values["KEY"], tools: []*tool.Tool{{Upstream: "fake", Name: "x"}},
				note: changed}, nil
		}, nil, func() {})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s, l
}

func TestLateUpstream(t *testing.T) {
	t.Parallel()
	s, l := newLateScene(t)
	call := func() (string, error) {
		r, err := l.Call(t.Context(), &tool.Call{Path: "x"})
		if err != nil {
			return "", err
		}
		return string(r.Raw), nil
	}
	wantError := func(want string) {
		t.Helper()
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "invalid-") {
			t.Errorf("call: %v, want an error with %q and without values", err, want)
		}
	}
	wantError("secret KEY is not set: run `biplane secrets set KEY`")
	if h := l.Snapshot().Health; h.State != tool.Down || !strings.Contains(h.Reason, "secret KEY is not set") {
		t.Errorf("health: %+v, want down with the reason", h)
	}
	for _, value := range []string{"first value", "second value"} {
		s.setSecret(t, "", value)
		if got, err := call(); err != nil || got != value {
			t.Errorf("call: %q, %v, want %q", got, err, value)
		}
	}
	if len(l.Snapshot().Tools) != 1 {
		t.Errorf("snapshot: %+v, want a tool", l.Snapshot())
	}
	s.setSecret(t, "", "invalid-value")
	wantError("[redacted] can't be used")
	if err := s.secrets.RemoveSecret(t.Context(), "", "KEY"); err != nil {
		t.Fatalf("RemoveSecret: %v", err)
	}
	wantError("secret KEY is not set")
	if snap := l.Snapshot(); len(snap.Tools) != 1 || !snap.Health.Stale || snap.Health.State != tool.Down {
		t.Errorf("snapshot: %+v, want down with a stale tool", snap)
	}
}

// TestLateUpstreamRace changes a secret during calls. A call must not use a value that was replaced
// before the call began.
func TestLateUpstreamRace(t *testing.T) {
	t.Parallel()
	s, l := newLateScene(t)
	s.setSecret(t, "", "value 000")
	var set atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for set.Load() < 40 {
				least := set.Load()
				r, err := l.Call(t.Context(), &tool.Call{Path: "x"})
				if err != nil || string(r.Raw) < fmt.Sprintf("value %03d", least) {
					t.Errorf("call after value %d was set: %v, %v", least, r, err)
					return
				}
			}
		})
	}
	for n := range 40 {
		s.setSecret(t, "", fmt.Sprintf("value %03d", n+1))
		set.Store(int64(n + 1))
	}
	all.Wait()
}

// TestApprovalEnds checks that an upstream that is no longer approved is stopped while it runs, and
// is down with the reason.
func TestApprovalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		check := func(map[string]string) error {
			if revoked.Load() {
				return tool.Errorf(tool.Denied, "not approved")
			}
			return nil
		}
		s := &scene{}
		l := newLateUpstream("fake", &secrets{mask: mask.New(), changed: make(chan struct{})}, nil,
			func(values map[string]string, changed func()) (upstream.Upstream, error) {
				return &fakeInstance{s: s, note: changed}, check(values)
			}, check, func() {})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		want := func(running int64, state tool.State) {
			t.Helper()
			time.Sleep(2 * approvalAge)
			synctest.Wait()
			if h := l.Snapshot().Health; s.running.Load() != running || h.State != state {
				t.Errorf("running: %d, health %+v, want %d, %s", s.running.Load(), h, running, state)
			}
		}
		want(1, tool.Ready)
		revoked.Store(true)
		want(0, tool.Down)
		if r := l.Snapshot().Health.Reason; r != "not approved" {
			t.Errorf("reason: %q, want that it is not approved", r)
		}
		revoked.Store(false)
		want(1, tool.Ready)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
