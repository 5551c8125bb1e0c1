package executor

import (
	"context"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// unlabelled are Hosts for programs that have read nothing with labels.
type unlabelled struct{}

func (unlabelled) ReachesHost(*tool.Call, string) bool { return true }
func (unlabelled) PermitsConnection(c *tool.Call) bool { return len(c.Labels) == 0 }
func (unlabelled) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if err := c.Observe().OnLabels([]string{"untrusted"}); err != nil { // of its own answer
		return nil, err
	}
	if ctx.Err() == nil {
		close(ctx.Value(startedKey{}).(chan struct{}))
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

type startedKey struct{}

// TestConnectionWithNewLabels checks that a connection ends when its program reads data that policy
// doesn't permit it to send there. The labels of its own answers don't end it.
func TestConnectionWithNewLabels(t *testing.T) {
	t.Parallel()
	r := newParts(t, func(c *Config) { c.Hosts, c.Door = unlabelled{}, unlabelled{} })
	r.taint.network = newNetwork(&r.calls)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.taint.network.CallNetwork(context.WithValue(t.Context(), startedKey{}, started), "connect", nil)
		ended <- err
	}()
	<-started
	if err := r.taint.carry([]string{"pii"}); err != nil {
		t.Fatalf("carry: %v", err)
	}
	if err := <-ended; tool.AsError(err).Kind != tool.Denied {
		t.Errorf("the connection ended with %v, want an error of kind %s", err, tool.Denied)
	}
}
