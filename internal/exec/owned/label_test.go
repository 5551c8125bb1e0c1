package owned_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A fullStore is a store on a disk that is full.
type fullStore struct{ records []owned.Record }

var errFull = errors.New("no space left on device")

func (s fullStore) LoadSandboxes(context.Context) ([]owned.Record, error) { return s.records, nil }
func (s fullStore) SaveSandbox(context.Context, *owned.Record) error      { return errFull }
func (s fullStore) DropSandbox(ctx context.Context, id string) error      { return errFull }

// TestLabelsNotStored checks that no operation brings data with labels into a sandbox while they
// can't be stored, not even if an earlier one tried with the same labels.
func TestLabelsNotStored(t *testing.T) {
	ann := tool.Principal{ID: "ann"}
	now := time.Now()
	s := owned.NewSandboxes(owned.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Store: fullStore{[]owned.Record{{ID: "sb_a", Owner: ann.ID, Created: now, Used: now, Labels: []string{"a"}}}}})
	if _, err := s.ResumeSandbox(t.Context(), ann, "sb_a", []string{"a"}); errors.Is(err, errFull) {
		t.Errorf("with labels that it has: %v, want another error", err)
	}
	for range 2 {
		if _, err := s.ResumeSandbox(t.Context(), ann, "sb_a", []string{"pii"}); !errors.Is(err, errFull) {
			t.Errorf("with new labels: %v, want %v", err, errFull)
		}
	}
}
