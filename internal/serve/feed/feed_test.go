package feed_test

import (
	"context"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/serve/feed"
)

// TestBook reads events on from an id, and learns that events were missed.
func TestBook(t *testing.T) {
	b := feed.NewBook()
	start := b.FindLast()
	found, missed, next := b.ReadEvents(start)
	if len(found) != 0 || missed {
		t.Fatalf("an empty book has %v, missed: %v", found, missed)
	}
	b.AddEvent(feed.Entry{Event: api.Event{Type: "execution", Subject: "a"}})
	if err := feed.WaitNext(t.Context(), next); err != nil {
		t.Fatalf("WaitNext: %v", err)
	}
	b.AddEvent(feed.Entry{Event: api.Event{Type: "execution", Subject: "b"}})
	found, _, _ = b.ReadEvents(start)
	if len(found) != 2 || found[0].Subject != "a" || found[1].ID != b.FindLast() {
		t.Fatalf("found %+v, want a and b", found)
	}
	found, _, next = b.ReadEvents(found[0].ID)
	if len(found) != 1 || found[0].Subject != "b" {
		t.Errorf("after a: %+v, want b", found)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if feed.WaitNext(ctx, next) == nil {
		t.Error("WaitNext succeeds without an event")
	}
	for _, id := range []string{"", "x", "-1", feed.NewBook().FindLast(), start[:9] + "99"} {
		if _, missed, _ := b.ReadEvents(id); !missed {
			t.Errorf("after %q nothing is missed", id)
		}
	}
	for range 5000 {
		b.AddEvent(feed.Entry{})
	}
	if _, missed, _ := b.ReadEvents(start); !missed {
		t.Error("after 5000 events, the first id misses nothing")
	}
	if found, missed, _ := b.ReadEvents(b.FindLast()); missed || len(found) != 0 {
		t.Errorf("after the last one: %v, missed %v", found, missed)
	}
}
