package sandboxtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

func TestFake(t *testing.T) {
	o := sandboxtest.Exec(t.Context(), t, &sandboxtest.Fake{}, sandbox.Spec{}, "some <code>", sandboxtest.Host{})
	if string(o.Value) != `"some <code>"` || o.Err != nil {
		t.Errorf("o = %v, want string(o.Value) == `\"some <code>\"` && o.Err == nil", o)
	}
	d := &sandboxtest.Fake{Program: func(ctx context.Context, g *sandboxtest.Guest, run *sandbox.Run) error {
		a, err := g.Call(1, "test.echo", json.RawMessage(`{"n":12345678901234567890}`))
		if err != nil {
			return err
		}
		return g.Send(sandbox.GuestMessage{Done: &sandbox.Done{Value: a.Value}})
	}}
	o = sandboxtest.Exec(t.Context(), t, d, sandbox.Spec{}, "",
		sandboxtest.Host{Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
			return &sandbox.Answer{Value: c.Args}
		}})
	if string(o.Value) != `{"n":12345678901234567890}` || o.Err != nil {
		t.Errorf("o = %v, want string(o.Value) == `{\"n\":12345678901234567890}` && o.Err == nil", o)
	}
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	o = sandboxtest.Exec(ctx, t, d, sandbox.Spec{}, "", sandboxtest.Host{Seen: func(*sandbox.GuestMessage) {
		cancel(cause)
	}})
	if !errors.Is(o.Err, cause) {
		t.Errorf("o = %v, want errors.Is(o.Err, cause)", o)
	}
}
