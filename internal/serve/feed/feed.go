// Package feed keeps the newest changes in memory, so that the API can report them to clients.
package feed

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/api"
)

// maxEvents is how many events are kept.
const maxEvents = 4096

// An Entry is an event with those who may see it.
type Entry struct {
	api.Event
	Principal string // whose it is; empty: everyone's
}

// A Book keeps the newest events. It is safe for concurrent use.
type Book struct {
	epoch string // of this process: numbers start again in the next one

	mu      sync.Mutex
	entries []Entry
	last    int64
	changed chan struct{} // closed at the next event
}

// NewBook returns an empty Book.
func NewBook() *Book { return &Book{epoch: rand.Text()[:8], changed: make(chan struct{})} }

// AddEvent adds an event. It never waits.
func (b *Book) AddEvent(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e.ID = b.formatID(b.last)
	if len(b.entries) >= maxEvents {
		b.entries = slices.Delete(b.entries, 0, maxEvents/8)
	}
	b.entries = append(b.entries, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Book) formatID(n int64) string { return b.epoch + "-" + strconv.FormatInt(n, 10) }

// FindLast returns the id of the newest event.
func (b *Book) FindLast() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.formatID(b.last)
}

// ReadEvents returns the events after the one with an id. If that is unknown, because it is too old
// or of another process, missed is true, and the client must read the current state. The channel is
// closed at the next event.
func (b *Book) ReadEvents(after string) (found []Entry, missed bool, next <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	epoch, number, _ := strings.Cut(after, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	oldest := b.last - int64(len(b.entries))
	if err != nil || epoch != b.epoch || n < oldest || n > b.last {
		return nil, true, b.changed
	}
	return slices.Clone(b.entries[n-oldest:]), false, b.changed
}

// WaitNext waits until next is closed or ctx is done.
func WaitNext(ctx context.Context, next <-chan struct{}) error {
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
