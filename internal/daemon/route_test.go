package daemon

import (
	"context"
	"log/slog"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A swappedUpstream calls swap when its state is read.
type swappedUpstream struct {
	upstream.Upstream
	tools []*tool.Tool
	swap  func()
}

func (s *swappedUpstream) Name() string { return "peer" }

func (s *swappedUpstream) Snapshot() upstream.Snapshot {
	s.swap()
	return upstream.Snapshot{Health: tool.Health{State: tool.Ready}, Tools: s.tools}
}

// noStore stores no hints.
type noStore struct{}

func (noStore) Load(context.Context, string) ([]byte, error) { return nil, nil }

func (noStore) Save(context.Context, string, []byte) error { return nil }

// noObserver ignores changes of tools.
type noObserver struct{ toolObserver }

func (noObserver) updateTools() {}

func (noObserver) updateOffers() {}

func (noObserver) noteHealth(string, string) {}

// TestUpdateDuringReload checks that the catalog keeps no tools of an upstream that is replaced or
// removed while its state is copied there.
func TestUpdateDuringReload(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for _, removed := range []bool{true, false} {
		pins, err := newDefinitions(config.Default(), noRecord{}, log)
		if err != nil {
			t.Fatalf("newDefinitions: %v", err)
		}
		u := &upstreams{upstreamParts: upstreamParts{log: log, hints: &hints{noStore{}, noRecord{}, log},
			observer: noObserver{}, catalog: catalog.New(catalog.Config{})},
			startup: newStartup(nil), pins: pins, lastTools: map[string][]*tool.Tool{},
			lastOffers: map[string]*tool.Offers{}}
		named := func(name string, swap func()) *source {
			return &source{up: &swappedUpstream{swap: swap, tools: []*tool.Tool{{Upstream: "peer", Name: name,
				Description: "Does something", InputSchema: []byte(`{"type":"object"}`)}}}}
		}
		var old, fresh *source
		swapped := false
		old = named("old", func() {
			if swapped {
				return
			}
			swapped = true
			if removed {
				u.removeSources(nil)
			} else {
				u.replaceSources(t.Context(), []*source{fresh}, 0)
			}
		})
		fresh = named("fresh", func() {})
		u.sources.Store(&[]*source{old})
		u.update(old)
		view := u.catalog.View()
		if _, err := view.Resolve("peer.old"); err == nil {
			t.Errorf("removed %t: the catalog has the tool of the old upstream", removed)
		}
		if _, err := view.Resolve("peer.fresh"); (err == nil) == removed {
			t.Errorf("removed %t: the tool of the new upstream: %v", removed, err)
		}
		if removed && len(view.Upstreams()) != 0 {
			t.Errorf("the catalog has %+v, want no upstream", view.Upstreams())
		}
	}
}
