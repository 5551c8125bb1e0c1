package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A mute is a sandbox whose guest sends nothing, and ends only when it is stopped.
type mute struct{ sandbox.Sandbox }

func (mute) Run(ctx context.Context, _ *sandbox.Cmd) (int, error) {
	<-ctx.Done()
	return -1, context.Cause(ctx)
}
func (mute) Close() error { return nil }

func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGuest(t.Context(), mute{}, nil)
		if _, err := g.evalProgram(&program.Program{}); !errors.Is(err, errSilent) {
			t.Errorf("a guest that says nothing: %v", err)
		}
		if err := g.closeGuest(); !errors.Is(err, errSilent) {
			t.Errorf("its end: %v", err)
		}
		g = openGuest(t.Context(), mute{}, nil)
		if err := g.closeGuest(); !errors.Is(err, errSilent) {
			t.Errorf("a guest that doesn't end: %v", err)
		}
	})
}
