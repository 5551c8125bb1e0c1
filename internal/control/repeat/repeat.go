// Package repeat makes requests that create something safe to repeat. A client sends a key with
// such a request. If it sends the same request again, it receives the first answer, and nothing is
// created twice. The answers are stored, so this also holds after a restart.
package repeat

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of what is kept for each principal. Beyond them, its oldest answers are deleted.
const (
	Kept       = 24 * time.Hour // how long an answer is kept
	MaxKept    = 1000           // answers
	MaxBytes   = 4 << 20        // bytes of all answers
	MaxAnswer  = 256 << 10      // bytes of an answer; larger ones are not repeated
	MaxKeyText = 255            // bytes of a key
)

// A Request identifies a request.
type Request struct {
	Principal string
	Key       string // chosen by the client
	Digest    []byte // of everything that the request asks for
}

// An Answer is the response to a request.
type Answer struct {
	Status int    `json:"status"`
	Type   string `json:"type,omitempty"`  // its Content-Type
	Place  string `json:"place,omitempty"` // where the created object is; also of errors after that
	Body   []byte `json:"body,omitempty"`
	// Omitted says why the body was not kept; empty: it was.
	Omitted string `json:"omitted,omitempty"`
}

// An Entry is the stored state of a request.
type Entry struct {
	Request
	Began  time.Time
	Answer *Answer // nil: not answered yet
}

// A Store stores entries. The owner of the data folder is its only user.
type Store interface {
	// LoadEntry returns the entry of a principal's key that began after since; nil: there is none.
	LoadEntry(ctx context.Context, principal, key string, since time.Time) (*Entry, error)
	// SaveEntry adds or replaces an entry, and deletes what the limits no longer allow. It returns
	// once the entry is on disk.
	SaveEntry(ctx context.Context, e *Entry, expired time.Time) error
	DropEntry(ctx context.Context, principal, key string) error
}

// A Log remembers answers. It is safe for concurrent use.
type Log struct {
	store Store
	clock *wallclock.Clock

	mu   sync.Mutex
	open map[[2]string]*turn // requests under way, by principal and key
}

// A turn is a request under way.
type turn struct {
	digest []byte
	done   chan struct{}
}

// NewLog returns a Log. A nil clock is the system's.
func NewLog(s Store, clock *wallclock.Clock) *Log {
	return &Log{store: s, clock: clock, open: map[[2]string]*turn{}}
}

var errOther = &tool.Error{Kind: tool.Conflict,
	Msg: "this idempotency key was used for another request: use another key for each request"}

// AnswerOnce returns the answer of the request with this key, if there is one. If it is under way,
// AnswerOnce waits for it. Otherwise, it calls serve, and keeps its answer if that is final.
func (l *Log) AnswerOnce(ctx context.Context, r Request, serve func() *Answer) (a *Answer, repeated bool,
	err error) {
	end, err := l.beginTurn(ctx, r)
	if err != nil {
		return nil, false, err
	}
	defer end()
	now := l.clock.Now()
	e, err := l.store.LoadEntry(ctx, r.Principal, r.Key, now.Add(-Kept))
	switch {
	case err != nil:
		return nil, false, err
	case e != nil && !bytes.Equal(e.Digest, r.Digest):
		return nil, false, errOther
	case e != nil && e.Answer == nil:
		return nil, false, tool.Errorf(tool.Conflict, "a request with this idempotency key was interrupted, and may "+
			"have had its effect: check what exists, then use another key")
	case e != nil && e.Answer.Omitted != "":
		return nil, false, tool.Errorf(tool.Conflict, "the request with this idempotency key was made, with status "+
			"%d, but its answer can't be repeated: %s", e.Answer.Status, e.Answer.Omitted)
	case e != nil:
		return e.Answer, true, nil
	}
	e = &Entry{Request: r, Began: now}
	if err := l.store.SaveEntry(ctx, e, now.Add(-Kept)); err != nil {
		return nil, false, err
	}
	a = serve()
	rest := context.WithoutCancel(ctx)
	// If the store fails from here on, the caller still gets its answer. The entry stays without
	// one, so a repeated request is refused.
	if !isFinal(a.Status) && a.Place == "" { // nothing was done: it may be sent again
		_ = l.store.DropEntry(rest, r.Principal, r.Key)
		return a, false, nil
	}
	kept := *a
	switch {
	case kept.Omitted != "":
	case !isFinal(a.Status):
		kept.Omitted = "it was interrupted; what was created is at " + kept.Place
	case len(kept.Body) > MaxAnswer:
		kept.Omitted = "it is too large; what was created is at " + kept.Place
	}
	if kept.Omitted != "" {
		kept.Body = nil
	}
	e.Answer = &kept
	_ = l.store.SaveEntry(rest, e, now.Add(-Kept))
	return a, false, nil
}

// beginTurn waits until no other request with the same key is under way. end must be called.
func (l *Log) beginTurn(ctx context.Context, r Request) (end func(), err error) {
	name := [2]string{r.Principal, r.Key}
	for {
		l.mu.Lock()
		other := l.open[name]
		if other == nil {
			t := &turn{digest: r.Digest, done: make(chan struct{})}
			l.open[name] = t
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.open, name)
				l.mu.Unlock()
				close(t.done)
			}, nil
		}
		l.mu.Unlock()
		if !bytes.Equal(other.digest, r.Digest) {
			return nil, errOther
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, tool.AsError(ctx.Err())
		}
	}
}

// isFinal reports whether a request with the same content would get the same answer. Otherwise it
// was refused because of a limit or since something was not available. It did nothing, unless the
// answer names what was created.
func isFinal(status int) bool { return status != 429 && status != 503 }
