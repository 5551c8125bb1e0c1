package daemon_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

var errStop = errors.New("enough")

// TestEvents follows an execution that waits for approval, disconnects, and continues after the
// last event that it saw.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	defer stop()
	c := d.Client()
	if _, err := c.Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	last := ""
	err := c.FollowEvents(t.Context(), "of another process-1", func(e api.Event) error {
		last = e.ID
		if e.Type != api.EventMissed {
			t.Errorf("after an unknown event comes %+v, want missed", e)
		}
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Fatalf("FollowEvents: %v", err)
	}
	began := ""
	ctx := api.WithStart(t.Context(), func(id string) { began = id })
	x, err := c.Run(ctx, api.RunRequest{Code: "await peer.meet({ n: 1 })", NoWait: true})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if began != x.ID {
		t.Errorf("the early answer names %q, want %q", began, x.ID)
	}
	// follow collects events until one is of a type, for the execution.
	follow := func(want string, types ...string) (states []string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := c.FollowEvents(ctx, last, func(e api.Event) error {
			last = e.ID
			if !slices.Contains(types, e.Type) {
				return nil
			}
			states = append(states, e.Type+" "+e.State)
			if states[len(states)-1] == want {
				return errStop
			}
			return nil
		})
		if !errors.Is(err, errStop) {
			t.Fatalf("FollowEvents: %v", err)
		}
		return states
	}
	got := follow("approval pending", api.EventExecution, api.EventApproval)
	if !slices.Equal(got, []string{"execution running", "approval pending"}) {
		t.Errorf("the events are %q", got)
	}
	all, err := c.Approvals().ListFor(t.Context(), x.ID, false)
	if err != nil || len(all) != 1 {
		t.Fatalf("Approvals: %v, %v", all, err)
	}
	if _, err := c.Approvals().Decide(t.Context(), all[0].ID, api.Decision{Digest: all[0].Digest,
		Approve: true}); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	if got := follow("execution done", api.EventExecution); len(got) != 1 {
		t.Errorf("after the decision: %q, want only the end", got)
	}
}

// TestEventsOfRevokedKey revokes a key while it follows events: its stream ends at once.
func TestEventsOfRevokedKey(t *testing.T) {
	t.Parallel()
	d, stop := run(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	c := clientOf(d, makeKey(t, d, api.KeyRequest{Name: "ci", Scopes: []string{"api"}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.FollowEvents(ctx, "of another process-1", func(api.Event) error { // it is open
		if _, err := d.Client().Keys().Revoke(t.Context(), "ci"); err != nil {
			t.Errorf("RevokeKey: %v", err)
		}
		return nil
	})
	var refused *api.Error
	if !errors.As(err, &refused) {
		t.Errorf("FollowEvents: %v, want that the key is refused when the client connects again", err)
	}
}
