package owned

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Previews makes links by which browsers reach ports of sandboxes.
type Previews interface {
	// MakeLink returns a link to a port of a sandbox that is valid for a time. c asks for it.
	MakeLink(c *tool.Call, sandbox *Record, port int, life time.Duration) (url string, expires time.Time, err error)
}

// defaultPreview is how long a link is valid.
const defaultPreview = time.Hour

// foreignLabels are the labels of what arrives through a link.
var foreignLabels = []string{tool.LabelUntrusted}

// A preview is the answer of the tool that makes a link.
type preview struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// makePreview makes a link to a port of a sandbox. Anyone who has the
// link can send data into the sandbox.
func (s *Sandboxes) makePreview(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	most := s.cfg.Limits.Previews
	s.mu.Lock()
	b, err := s.findBox(ctx, c.Principal, a.Sandbox)
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, tool.NotSent(err)
	case most == 0 || s.cfg.Previews == nil:
		return nil, tool.NotSent(tool.Errorf(tool.Denied, "previews are off: set sandboxes.previews in the "+
			"configuration to the longest time of a link, such as 1h"))
	case a.Port < 1 || a.Port > 65535:
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "port %d: ports are 1 to 65535", a.Port))
	case a.Expires < 0:
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "expires_seconds must be positive"))
	}
	if err := s.bringLabels(ctx, b, tool.JoinLabels(c.Labels, foreignLabels)); err != nil {
		return nil, err
	}
	h := &hold{box: b, all: s}
	if err := h.passLabels(c.Observe()); err != nil { // the link reads what the sandbox has
		return nil, err
	}
	s.mu.Lock()
	b.egress.user = c.Principal // visitors use the sandbox on behalf of the link's maker
	rec := b.rec
	s.mu.Unlock()
	life := min(cmp.Or(inSeconds(a.Expires), defaultPreview), most)
	url, expires, err := s.cfg.Previews.MakeLink(c, &rec, a.Port, life)
	return answerWith(preview{url, expires}, err)
}

// ListLabels returns the labels of a principal's sandbox; none if there is no such sandbox.
func (s *Sandboxes) ListLabels(ctx context.Context, p tool.Principal, id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findBox(ctx, p, id)
	if err != nil {
		return nil
	}
	return b.rec.Labels
}

// DialPort wakes a principal's sandbox, and connects to one of its ports. The sandbox stays awake
// until the connection is closed. What the connection makes its processes do at the network, they
// do on behalf of the principal.
func (s *Sandboxes) DialPort(ctx context.Context, p tool.Principal, id string, port int) (net.Conn, error) {
	h, err := s.holdBox(ctx, p, id)
	if err != nil {
		return nil, err
	}
	conn, err := h.dialPort(ctx, port)
	if err != nil {
		h.endUse()
		return nil, err
	}
	return &portConn{Conn: conn, hold: h}, nil
}

// dialPort wakes the sandbox, and connects to one of its ports.
func (h *hold) dialPort(ctx context.Context, port int) (net.Conn, error) {
	if err := h.wakeBox(ctx); err != nil {
		return nil, err
	}
	stream, err := service.DialPort(ctx, h.machine, port)
	if err != nil {
		return nil, err
	}
	defer stream.Close() // net.FileConn duplicates it
	return net.FileConn(stream)
}

// A portConn is a connection to a port, which keeps its sandbox awake.
type portConn struct {
	net.Conn
	hold *hold
	once sync.Once
}

// Close closes the connection.
func (c *portConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.hold.endUse)
	return err
}
