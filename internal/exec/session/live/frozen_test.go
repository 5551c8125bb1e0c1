package live

import (
	"context"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
)

// An empty store has no sessions.
type empty struct{ session.Store }

func (empty) Load(context.Context, string, string) (*session.Record, error) { return nil, nil }
func (empty) Labels(context.Context, string, string) ([]string, error)      { return nil, nil }

// A restless guest can't be frozen.
type restless struct {
	sandbox.Sandbox
	closed bool
}

func (*restless) FreezeGuest() error { return errors.New("some of its processes still run") }
func (*restless) ThawGuest() error   { return nil }
func (*restless) UsedMemory() int64  { return 1 }

func (r *restless) Close() error {
	r.closed = true
	return nil
}

// TestGuestNotFrozen checks that a guest that can't be frozen is ended: its processes would go on,
// and no limit would count their CPU time.
func TestGuestNotFrozen(t *testing.T) {
	s := New(Config{Store: empty{}})
	wait, err := s.Join("ann", "work")
	if err != nil {
		t.Fatalf("join the session: %v", err)
	}
	h, err := wait(t.Context())
	if err != nil {
		t.Fatalf("wait for the session: %v", err)
	}
	guest := &restless{}
	h.Keep("python", guest)
	h.Release()
	why, known := s.frozen.lost.Remove(guestKey{h.key, "python"})
	if !guest.closed || !known || len(h.hot) > 0 || len(s.by) > 0 {
		t.Errorf("closed %t, lost for %q, %d guests and %d sessions in memory", guest.closed, why, len(h.hot),
			len(s.by))
	}
}
