package identity

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The reasons for which requests are refused, for the record.
const (
	ReasonMissing    = "no credential"
	ReasonMalformed  = "malformed credential"
	ReasonOversize   = "oversized token"
	ReasonUnknown    = "unknown key" // of an API: no such id, or another secret
	ReasonRevoked    = "revoked key"
	ReasonChanged    = "changed key"
	ReasonExpired    = "expired"
	ReasonNotYet     = "not yet valid"
	ReasonIssuer     = "unknown issuer"
	ReasonAudience   = "another audience"
	ReasonAlgorithm  = "algorithm not allowed"
	ReasonSigningKey = "unknown signing key"
	ReasonSignature  = "bad signature"
	ReasonClaims     = "claims not usable"
	ReasonIssuerDown = "issuer can't be asked"
	ReasonScope      = "insufficient scope"
	ReasonRole       = "insufficient role"
)

// An Event is a sign-in that was accepted or refused.
type Event struct {
	Time      time.Time
	Accepted  bool
	Method    string         // "key", "token"; empty where nothing was presented
	Principal tool.Principal // zero where it isn't proven who asks
	Claimed   string         // who it claims to be, unproven: the name of a key, an issuer and a subject; bounded
	Reason    string         // one of the Reasons; empty when accepted
	Detail    string         // for people; bounded; holds no credential
	Remote    string         // address of the other end of the connection
	Path      string         // of the request
	More      int            // refused requests since the last event that have none of their own: there were too many
}

// Bounds on events: what strangers send must not fill the record.
const (
	refusedMost  = 60 // events a window
	refusedSpan  = time.Minute
	acceptedSpan = time.Hour // until the same credential is recorded again
	acceptedMost = 10_000    // credentials remembered
	detailBytes  = 300
)

// events decides which sign-ins are recorded: all refused ones, up to a rate, and of the accepted ones the first use of a
// credential and one an hour after it.
type events struct {
	record func(Event)

	mu      sync.Mutex
	window  time.Time // when the current one began
	refused int       // in it
	more    int       // refused without an event
	seen    map[[sha256.Size]byte]time.Time
}

func (e *events) refuse(ev Event) {
	e.mu.Lock()
	if ev.Time.Sub(e.window) >= refusedSpan {
		e.window, e.refused = ev.Time, 0
	}
	if e.refused >= refusedMost {
		e.more++
		e.mu.Unlock()
		return
	}
	e.refused++
	ev.More, e.more = e.more, 0
	e.mu.Unlock()
	ev.Claimed, ev.Detail, ev.Path = bounded(ev.Claimed), bounded(ev.Detail), bounded(ev.Path)
	e.record(ev)
}

func (e *events) accept(ev Event, credential [sha256.Size]byte) {
	e.mu.Lock()
	if last, ok := e.seen[credential]; ok && ev.Time.Sub(last) < acceptedSpan {
		e.mu.Unlock()
		return
	}
	if len(e.seen) >= acceptedMost {
		for k, t := range e.seen {
			if ev.Time.Sub(t) >= acceptedSpan {
				delete(e.seen, k)
			}
		}
		if len(e.seen) >= acceptedMost { // more are in use than can be remembered: they are recorded once more
			clear(e.seen)
		}
	}
	e.seen[credential] = ev.Time
	e.mu.Unlock()
	ev.Accepted, ev.Path = true, bounded(ev.Path)
	e.record(ev)
}

// bounded makes text from outside fit for the record.
func bounded(s string) string {
	if len(s) <= detailBytes {
		return s
	}
	return strings.ToValidUTF8(s[:detailBytes], "")
}
