package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits on requests under way. Each is shared between principals, and before sign-in between
// addresses (see queue.Shares).
const (
	readSlots = 256 // for requests that are answered at once
	waitSlots = 256 // for requests that wait: for a program, its progress, or a long file
	// for requests that stop or decide: decisions, revocations, ends of executions and sessions
	controlSlots = 64
	openSlots    = 256       // for unauthenticated requests
	uploadSlots  = 16        // for requests that send files
	bodyMemory   = 128 << 20 // bytes of request bodies in memory
	bodyBytes    = 4 << 20
	drainedBytes = 32 << 20 // of a body that is too large
	bodyTime     = 30 * time.Second
	writeTime    = 30 * time.Second // for a client to accept one write
)

// A lane is a set of routes with its own slots, which requests of other lanes can't use up.
type lane int

const (
	reads lane = iota
	waits
	controls
	opens // unauthenticated, by address
	uploads
	bodies // not a lane of routes: counts the bytes of bodies
	lanes
)

// A laneSet holds the lanes of one way in. The socket and the network have one each, so that
// neither can fill the other's.
type laneSet [lanes]*queue.Shares

func newLaneSet() (r laneSet) {
	r[reads] = queue.NewShares("requests", "under way", readSlots)
	r[waits] = queue.NewShares("requests that wait for something", "under way", waitSlots)
	r[controls] = queue.NewShares("requests that stop or decide", "under way", controlSlots)
	r[opens] = queue.NewShares("requests without sign-in", "under way", openSlots)
	r[uploads] = queue.NewShares("uploads", "under way", uploadSlots)
	r[bodies] = queue.NewShares("bytes of requests", "held", bodyMemory)
	return r
}

// enterLane acquires a slot of a lane, which leave releases. The slot counts for the principal or,
// if unknown, for the client's address.
func (r *laneSet) enterLane(l lane, q *http.Request, p tool.Principal) (leave func(), err error) {
	who := p.ID
	if l == opens || who == "" {
		l, who = opens, networkOf(q)
	}
	if err := r[l].Acquire(who, 1); err != nil {
		return nil, err
	}
	return func() { r[l].Release(who, 1) }, nil
}

// readBody reads the body of a request before the request has a slot, so that a slow client blocks
// no others. The bytes count until release is called.
func (r *laneSet) readBody(w http.ResponseWriter, q *http.Request, p tool.Principal,
	most int64) (release func(), err error) {
	who := p.ID
	if who == "" {
		who = networkOf(q)
	}
	// Connections without deadlines (tests, pipes) are limited by their other end.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))
	sent := q.Body
	body, release, err := r[bodies].ReadAll(who, http.MaxBytesReader(w, sent, most))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		// Many clients read the answer only once they have sent everything. If the connection were
		// closed before, they would miss it.
		_, _ = io.CopyN(io.Discard, sent, drainedBytes)
	}
	_ = rc.SetReadDeadline(time.Time{})
	switch e := (*tool.Error)(nil); {
	case err == nil:
		q.Body = io.NopCloser(bytes.NewReader(body))
		return release, nil
	case large != nil:
		err = tool.Errorf(tool.Limit, "the body is larger than %d bytes", large.Limit)
	case !errors.As(err, &e):
		err = tool.Errorf(tool.Invalid, "the body did not arrive in time: %w", err)
	}
	release()
	w.Header().Set("Connection", "close") // otherwise net/http waits for the rest of the body
	return func() {}, err
}

// networkOf returns the network that a request comes from; see netaddr.Network64.
func networkOf(r *http.Request) string {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "local"
	}
	return netaddr.Network64(a.Addr())
}

// A timedWriter writer limits the time in which a client must accept each write. A stream may last
// for long, but not stall.
type timedWriter struct{ http.ResponseWriter }

// Unwrap implements the method that http.ResponseController uses.
func (p timedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader renews the deadline and writes the header.
func (p timedWriter) WriteHeader(status int) {
	p.beginWriting()
	p.ResponseWriter.WriteHeader(status)
}

// Write renews the deadline and writes a part of the body.
func (p timedWriter) Write(b []byte) (int, error) {
	p.beginWriting()
	return p.ResponseWriter.Write(b)
}

// FlushError renews the deadline and flushes the data to the client.
func (p timedWriter) FlushError() error {
	p.beginWriting()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

func (p timedWriter) beginWriting() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime))
}
