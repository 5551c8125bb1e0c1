package child

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestCreateWhereNothingGoesIn covers a process that accepts no data but whose end isn't known yet.
func TestCreateWhereNothingGoesIn(t *testing.T) {
	p := newProcess(&Driver{log: slog.New(slog.DiscardHandler)})
	p.w = newWriter(io.Discard)
	p.w.fail(io.ErrClosedPipe)
	spec := appendSpec(nil, sandbox.Spec{})
	p.known[string(spec)] = true
	box, err := p.createSandbox(t.Context(), spec)
	var crash *sandbox.CrashError
	if box != nil || !errors.As(err, &crash) {
		t.Fatalf("box = %v, err = %v, want box == nil && errors.As(err, &crash)", box, err)
	}
	if p.usable() {
		t.Error("the next sandbox would be made in it, too")
	}
}
