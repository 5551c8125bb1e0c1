package live

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A register is a Store that only lists sessions.
type register struct {
	session.Store
	all []session.Record
}

func (r register) List(context.Context, string) ([]session.Record, error) { return r.all, nil }

// A broken driver can't run here.
type broken struct {
	sandbox.Driver
	probes int
}

func (b *broken) Probe(context.Context) (sandbox.Capabilities, error) {
	b.probes++
	return sandbox.Capabilities{}, errors.New("no user namespaces")
}

// TestListProbesOnce checks that a list of many sessions tries a driver that can't run here once:
// each attempt starts processes.
func TestListProbesOnce(t *testing.T) {
	b, store := &broken{}, register{}
	for i := range 100 {
		store.all = append(store.all, session.Record{Owner: "ann", Name: fmt.Sprint(i), Created: time.Now(),
			Used: time.Now(), Engine: "of an earlier build", Languages: []string{"typescript"}})
	}
	s := New(Config{Store: store, Guests: guest.New(guest.Config{Kinds: []sandbox.Kind{{Name: "process", Driver: b}}})})
	all, err := s.List(t.Context(), tool.Principal{ID: "ann"})
	if err != nil || len(all) != 100 || b.probes != 1 {
		t.Errorf("listed %d sessions, %v, with %d probes, want 100 and 1", len(all), err, b.probes)
	}
}
