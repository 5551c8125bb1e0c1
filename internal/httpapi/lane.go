package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Bounds on requests under way. Each is shared by principals, and before sign-in by addresses (see
// queue.Shares).
const (
	readSlots    = 256       // that are answered at once
	waitSlots    = 256       // that wait: for a program, for news of one, for a long file
	controlSlots = 64        // that stop things: decisions, revocations, ends of executions and sessions
	openSlots    = 256       // of whoever can connect
	uploadSlots  = 16        // that send files
	bodyMemory   = 128 << 20 // bytes of bodies held
	bodyBytes    = 4 << 20
	bodyTime     = 30 * time.Second
	writeTime    = 30 * time.Second // for a client to accept one write
)

// A lane is a set of routes with slots of its own, which requests of no other lane use up.
type lane int

const (
	reads lane = iota
	waits
	controls
	opens // whoever can connect, by address
	uploads
	bodies // not of routes: the bytes of their bodies
	lanes
)

// A road has the lanes of the requests that come over it. The socket has one, the network another:
// neither fills the other's.
type road [lanes]*queue.Shares

func newRoad() (r road) {
	r[reads] = queue.NewShares("requests", "under way", readSlots)
	r[waits] = queue.NewShares("requests that wait for something", "under way", waitSlots)
	r[controls] = queue.NewShares("requests that stop or decide", "under way", controlSlots)
	r[opens] = queue.NewShares("requests without sign-in", "under way", openSlots)
	r[uploads] = queue.NewShares("uploads", "under way", uploadSlots)
	r[bodies] = queue.NewShares("bytes of requests", "held", bodyMemory)
	return r
}

// enter holds a slot of a lane until leave, for a principal, or, where that is unknown, for the
// address that a request comes from.
func (r *road) enter(l lane, q *http.Request, p tool.Principal) (leave func(), err error) {
	who := p.ID
	if l == opens || who == "" {
		l, who = opens, address(q)
	}
	if err := r[l].Take(who, 1); err != nil {
		return nil, err
	}
	return func() { r[l].Give(who, 1) }, nil
}

// gather reads the body of a request before the request has a slot, so that a client that sends
// slowly keeps nobody else away. The bytes count as held until release.
func (r *road) gather(w http.ResponseWriter, q *http.Request, p tool.Principal, most int64) (release func(), err error) {
	who := p.ID
	if who == "" {
		who = address(q)
	}
	// Connections that know no deadlines (tests, pipes) are bounded by their other end.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime))
	body, release, err := r[bodies].ReadAll(who, http.MaxBytesReader(w, q.Body, most))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch e := (*tool.Error)(nil); {
	case err == nil:
		q.Body = io.NopCloser(bytes.NewReader(body))
		return release, nil
	case errors.As(err, &large):
		err = tool.Errorf(tool.Limit, "the body is larger than %d bytes", large.Limit)
	case !errors.As(err, &e):
		err = tool.Errorf(tool.Invalid, "the body did not arrive in time: %w", err)
	}
	release()
	w.Header().Set("Connection", "close") // else net/http waits for the rest of the body
	return func() {}, err
}

// address names where a request comes from: the address, of IPv6 the network of 64 bits that one
// subscriber has.
func address(r *http.Request) string {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "local"
	}
	return Network64(a.Addr())
}

// Network64 names the network that an address counts for: the address itself, of IPv6 its first 64
// bits.
func Network64(a netip.Addr) string {
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	if !a.IsValid() {
		return "local"
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// A patient writer bounds the time in which a client must accept what is written to it. Each write
// has its own, so a stream may last for long but not stall.
type patient struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader writes the header.
func (p patient) WriteHeader(status int) {
	p.begin()
	p.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (p patient) Write(b []byte) (int, error) {
	p.begin()
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written to the client.
func (p patient) FlushError() error {
	p.begin()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

func (p patient) begin() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTime))
}
