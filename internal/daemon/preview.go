package daemon

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/serve/preview"
	"github.com/biplane-dev/biplane/internal/tool"
)

// previews makes links to ports of sandboxes, and serves them.
type previews struct {
	d      *Daemon
	server *preview.Server
}

// newPreviews returns the previews; nil if the configuration doesn't permit any.
func newPreviews(d *Daemon, key *secret.Key) *previews {
	if d.cfg.Settings.Sandbox.Own.Previews == 0 {
		return nil
	}
	p := &previews{d: d}
	p.server = preview.NewServer(preview.Config{Dialer: p, Key: key, Permit: p})
	return p
}

// MakeLink implements owned.Previews.
func (p *previews) MakeLink(c *tool.Call, b *owned.Record, port int, life time.Duration) (url string,
	expires time.Time, err error) {
	base := cmp.Or(p.d.publicURL(), p.d.URL())
	if base == "" {
		return "", expires, tool.Errorf(tool.Unavailable,
			"a preview needs an address that browsers reach: run biplane serve")
	}
	made := &tool.Call{Principal: c.Principal, Tool: c.Tool, Arguments: c.Arguments, Labels: c.Labels, By: c.By}
	path, expires, err := p.server.MakeLink(&preview.Maker{Call: made, Sandbox: b.ID, Labels: b.Labels,
		Network: b.Network}, port, life)
	return base + path, expires, err
}

// DialPort implements preview.Dialer.
func (p *previews) DialPort(ctx context.Context, m *preview.Maker, port int) (net.Conn, error) {
	return p.d.sandboxes.own.DialPort(ctx, m.Call.Principal, m.Sandbox, port)
}

// MayPreview implements preview.Permission. With more labels than the sandbox had when the link was
// made, policy decides on a maker that has read its data.
func (p *previews) MayPreview(ctx context.Context, m *preview.Maker) bool {
	c := *m.Call
	labels := tool.JoinLabels(m.Labels, p.d.sandboxes.own.ListLabels(ctx, c.Principal, m.Sandbox))
	more := len(labels) > len(m.Labels)
	if more {
		c.Labels = tool.JoinLabels(c.Labels, labels)
	}
	return p.d.policies.permitsAgain(&c, more)
}

// servePreviews serves links to ports, and passes all other requests on.
func (s *sandboxes) servePreviews(next http.Handler) http.Handler {
	if s.previews == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, preview.Prefix) {
			s.previews.server.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
