package identity

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The reasons for refusing requests, as recorded in the audit log.
const (
	ReasonMissing    = "no credential"
	ReasonMalformed  = "malformed credential"
	ReasonOversize   = "oversized token"
	ReasonUnknown    = "unknown key" // of an API key: no such id, or another secret
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
	ReasonIssuerDown = "the issuer can't be reached"
	ReasonScope      = "insufficient scope"
	ReasonRole       = "insufficient role"
	ReasonAttempt    = "sign-in not completed" // with a browser
)

// An Event is an accepted or refused sign-in.
type Event struct {
	Time      time.Time
	Accepted  bool
	Method    string         // "key", "token", "browser"; empty if no credential was presented
	Principal tool.Principal // zero if it isn't verified
	// Claimed is the unverified identity: the name of a key, or an issuer and a subject. Its length
	// is limited.
	Claimed string
	Reason  string // one of the Reasons; empty when accepted
	Detail  string // for people; of limited length; contains no credential
	Remote  string // address of the other end of the connection
	Path    string // of the request
	More    int    // number of refusals since the last event that were too many to get their own
}

// A SignInRecorder records sign-ins.
type SignInRecorder interface {
	RecordSignIn(Event)
}

// Limits of events: strangers must not be able to fill the audit log.
const (
	refusedMost  = 60 // events per window
	refusedSpan  = time.Minute
	acceptedSpan = time.Hour // until the same credential is recorded again
	acceptedMost = 10_000    // number of credentials remembered
	detailBytes  = 300
)

// events decides which sign-ins are recorded. Refused ones are all recorded, up to a rate. Accepted
// ones are recorded at the first use of a credential, and then at most hourly.
type events struct {
	mu      sync.Mutex
	window  time.Time // start of the current window
	refused int       // in the current window
	more    int       // refused without an event
	seen    map[[sha256.Size]byte]time.Time
}

// countRefusal counts a refusal, and reports whether ev is recorded. It completes ev.
func (e *events) countRefusal(ev *Event) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Time.Sub(e.window) >= refusedSpan {
		e.window, e.refused = ev.Time, 0
	}
	if e.refused >= refusedMost {
		e.more++
		return false
	}
	e.refused++
	ev.More, e.more = e.more, 0
	ev.Claimed, ev.Detail, ev.Path = truncateText(ev.Claimed), truncateText(ev.Detail), truncateText(ev.Path)
	return true
}

// countAccept remembers the use of a credential, and reports whether ev is recorded. It completes
// ev.
func (e *events) countAccept(ev *Event, credential [sha256.Size]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.seen[credential]; ok && ev.Time.Sub(last) < acceptedSpan {
		return false
	}
	if len(e.seen) >= acceptedMost {
		for k, t := range e.seen {
			if ev.Time.Sub(t) >= acceptedSpan {
				delete(e.seen, k)
			}
		}
		if len(e.seen) >= acceptedMost { // more are in use than can be remembered: record them again
			clear(e.seen)
		}
	}
	e.seen[credential] = ev.Time
	ev.Accepted, ev.Path = true, truncateText(ev.Path)
	return true
}

// truncateText truncates untrusted text for the audit log.
func truncateText(s string) string {
	if len(s) <= detailBytes {
		return s
	}
	return strings.ToValidUTF8(s[:detailBytes], "")
}
