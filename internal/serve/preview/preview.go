// Package preview opens servers that run in sandboxes to browsers, by links:
// /previews/SANDBOX/PORT/ with a signed token. The pages come from programs, so they are hostile.
// They get an origin of their own that equals no other (Content-Security-Policy: sandbox), no
// cookie or credential of Biplane reaches them, and nothing that they send can set state at
// Biplane's origin.
package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Prefix begins the paths of previews.
const Prefix = "/previews/"

// Limits.
const (
	maxLinks    = 1024        // that are valid
	maxRequests = 256         // under way
	answerTime  = time.Minute // for connecting, for reading, and until the answer's headers are there
	maxHeaders  = 64 << 10
)

// A Dialer connects to ports of sandboxes.
type Dialer interface {
	// DialPort wakes the sandbox of a link, and connects to one of its ports. The sandbox stays
	// awake until the connection is closed.
	DialPort(ctx context.Context, m *Maker, port int) (net.Conn, error)
}

// A Signer computes keyed digests.
type Signer interface {
	MAC(purpose string, data []byte) [sha256.Size]byte
}

// A Permission decides whether a link still holds.
type Permission interface {
	// MayPreview reports whether the maker of a link may still make one.
	MayPreview(ctx context.Context, m *Maker) bool
}

// A Maker describes who made a link to a port of a sandbox, and by which call.
type Maker struct {
	Call    *tool.Call // that made the link; only what policy decides on
	Sandbox string
	Labels  []string // that the sandbox had then
	Network bool     // the sandbox reaches network hosts
}

// Config configures a Server. The first three fields must be set.
type Config struct {
	Dialer Dialer
	Key    Signer
	Permit Permission
	Clock  *wallclock.Clock // nil: the system's
	// CheckEach is the time between two decisions about a link in use; zero: 5 s.
	CheckEach time.Duration
}

// A Server makes links, and answers requests for them. It is safe for concurrent use.
type Server struct {
	cfg    Config
	proxy  *httputil.ReverseProxy
	shares *queue.Shares // of requests, by the links' owners
	owned  *queue.Shares // of links
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	links map[string]*link // by nonce
}

// A link permits requests to one port until it expires.
type link struct {
	maker   *Maker
	sandbox string
	port    int
	expires time.Time
	nonce   string
}

// ownerID returns the ID of the principal that made a link.
func (l *link) ownerID() string { return l.maker.Call.Principal.ID }

// NewServer returns a Server.
func NewServer(cfg Config) *Server {
	cfg.CheckEach = cmp.Or(cfg.CheckEach, 5*time.Second)
	s := &Server{cfg: cfg, links: map[string]*link{},
		shares: queue.NewShares("requests of previews", "under way", maxRequests),
		owned:  queue.NewShares("links of previews", "valid", maxLinks)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.proxy = s.newProxy()
	return s
}

// CloseAll ends the requests under way.
func (s *Server) CloseAll() { s.cancel() }

// MakeLink returns the path of a new link to a port of a principal's sandbox.
func (s *Server) MakeLink(m *Maker, port int, life time.Duration) (path string, expires time.Time, err error) {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for nonce, l := range s.links {
		if !now.Before(l.expires) {
			delete(s.links, nonce)
			s.owned.Release(l.ownerID(), 1)
		}
	}
	if err := s.owned.Acquire(m.Call.Principal.ID, 1); err != nil {
		return "", expires, err
	}
	l := &link{maker: m, sandbox: m.Sandbox, port: port, expires: now.Add(life).UTC().Truncate(time.Second),
		nonce: rand.Text()[:20]}
	s.links[l.nonce] = l
	return fmt.Sprintf("%s%s/%d/%s/", Prefix, l.sandbox, port, s.signLink(l)), l.expires, nil
}

// signLink returns the token of a link: when it expires, its nonce, and a digest of all of it.
func (s *Server) signLink(l *link) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(l.expires.Unix()))
	head = append(head, l.nonce...)
	sum := s.cfg.Key.MAC("preview", fmt.Appendf(nil, "%s\n%d\n%s", l.sandbox, l.port, head))
	return base64.RawURLEncoding.EncodeToString(append(head, sum[:16]...))
}

// findLink returns the link of a path, and the rest of the path; nil: there is none, or it has
// expired.
func (s *Server) findLink(r *http.Request) (l *link, rest string) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.EscapedPath(), Prefix), "/", 4)
	if len(parts) < 3 {
		return nil, ""
	}
	port, err := strconv.Atoi(parts[1])
	raw, rerr := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || rerr != nil || len(raw) != 8+20+16 {
		return nil, ""
	}
	said := &link{sandbox: parts[0], port: port, nonce: string(raw[8:28]),
		expires: time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)}
	if subtle.ConstantTimeCompare([]byte(s.signLink(said)), []byte(parts[2])) != 1 ||
		!s.cfg.Clock.Now().Before(said.expires) {
		return nil, ""
	}
	s.mu.Lock()
	l = s.links[said.nonce]
	s.mu.Unlock()
	if l == nil || !s.cfg.Permit.MayPreview(r.Context(), l.maker) {
		return nil, ""
	}
	if len(parts) == 3 {
		return l, ""
	}
	return l, "/" + parts[3]
}

type linkKey struct{}

// ServeHTTP answers a request for a preview.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l, rest := s.findLink(r)
	switch {
	case l == nil:
		answerText(w, http.StatusNotFound, "this link is invalid, or has expired: make another with biplane sandboxes "+
			"preview")
		return
	case rest == "": // so that relative addresses in the page have the token
		w.Header().Set("Location", r.URL.EscapedPath()+"/")
		answerText(w, http.StatusPermanentRedirect, "")
		return
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		answerText(w, http.StatusMethodNotAllowed, "this method is not available here")
		return
	case r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "":
		answerText(w, http.StatusNoContent, "")
		return
	}
	if err := s.shares.Acquire(l.ownerID(), 1); err != nil {
		answerText(w, http.StatusTooManyRequests, tool.AsError(err).Msg)
		return
	}
	defer s.shares.Release(l.ownerID(), 1)
	ctx, cancel := context.WithTimeout(r.Context(), l.expires.Sub(s.cfg.Clock.Now())) // also of WebSockets
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	go s.watchLink(ctx, l, cancel)
	ctx = context.WithValue(context.WithValue(ctx, linkKey{}, l), prefixKey{}, prefixOf(r.URL.EscapedPath()))
	s.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// watchLink ends a request when its link no longer holds: a WebSocket can last as long as the link.
func (s *Server) watchLink(ctx context.Context, l *link, cancel context.CancelFunc) {
	t := time.NewTicker(s.cfg.CheckEach)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !s.cfg.Permit.MayPreview(ctx, l.maker) {
				cancel()
				return
			}
		}
	}
}

// answerText answers with a text of Biplane's, or with none.
func answerText(w http.ResponseWriter, status int, text string) {
	isolatePage(w.Header(), nil)
	if text == "" {
		w.WriteHeader(status)
		return
	}
	http.Error(w, "biplane: "+text, status)
}
