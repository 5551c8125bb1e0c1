package store_test

import (
	"context"
	"errors"
	"testing"
)

// TestPausedCheck checks that SQLite's integrity check of a table pauses again and again, and that
// other statements don't afterwards.
func TestPausedCheck(t *testing.T) {
	t.Parallel()
	s := openDatabase(t, t.TempDir())
	fill(t, auditLog(t, s), 300)
	a, pauses := stored(t, s), 0
	for range 8 { // on all connections
		before := pauses
		problems, err := a.CheckTable(t.Context(), "audit_leaf", func() { pauses++ })
		if err != nil || len(problems) > 0 {
			t.Fatalf("CheckTable: %v, %v, want no problems", problems, err)
		}
		if got := pauses - before; got < 10 {
			t.Fatalf("the check of 600 leaves paused %d times, want at least 10", got)
		}
	}
	before := pauses
	sound(t, auditLog(t, s))
	if pauses != before {
		t.Errorf("statements paused %d times after the check, want 0", pauses-before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := a.CheckTable(ctx, "audit_leaf", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("CheckTable whose context ends in a pause: %v, want context.Canceled", err)
	}
}
