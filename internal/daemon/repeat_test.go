package daemon_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestRepeatedRun sends a program twice with the same idempotency key: it runs once.
func TestRepeatedRun(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }")
	c := d.Client()
	ctx := api.WithKey(t.Context(), "one")
	first, err := c.Run(ctx, api.RunRequest{Code: "await peer.echo({ n: 7 })"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	again, err := c.Run(ctx, api.RunRequest{Code: "await peer.echo({ n: 7 })"})
	if err != nil {
		t.Fatalf("Run again: %v", err)
	}
	if again.ID != first.ID || string(again.Value) != string(first.Value) || p.calls.Load() != 1 {
		t.Errorf("the second answer is of %s, and %d calls were made; want %s and 1 call", again.ID, p.calls.Load(),
			first.ID)
	}
	_, err = c.Run(ctx, api.RunRequest{Code: "2"})
	if err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("another program with the same key: %v; want a conflict", err)
	}
	if _, err := c.Audit().Verify(ctx); err == nil || !strings.Contains(err.Error(), "accepts no Idempotency-Key") {
		t.Errorf("a route without keys: %v; want a refusal", err)
	}
}
