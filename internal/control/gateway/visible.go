package gateway

import (
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Visible returns the part of the catalog that p may see: all tools except the ones that would be
// denied with any arguments. That applies to our own tools, too. Lists, searches, declarations,
// program checks and suggestions are based on it, so that they never show an unreachable tool. It
// returns the same View until something changes.
func (g *Gateway) Visible(p tool.Principal) *catalog.View {
	return g.seen.get(p, g.cfg.Catalog.View(), g.fleeting, func() func(*catalog.Entry) bool {
		sight := g.cfg.Policy.Sight(p, time.Time{})
		return func(e *catalog.Entry) bool {
			_, barred := g.explainBar(p, e.Tool)
			return !barred && sight.Shows(e.Tool)
		}
	})
}

// Shows reports whether p may see a tool.
func (g *Gateway) Shows(p tool.Principal, t *tool.Tool) bool {
	e := g.Visible(p).Entry(t.Upstream, t.Name)
	return e != nil
}

// denyHidden decides on a call of a tool that its principal may not see. The second result reports
// whether the call is denied for that reason.
func (g *Gateway) denyHidden(c *tool.Call) (policy.Decision, bool) {
	if g.Shows(c.Principal, c.Tool) || c.Tool.Upstream == tool.Own {
		return policy.Decision{}, false
	}
	d := g.decide(requestOf(c, c.Tool))
	return d, d.Effect == policy.Deny
}

// Tools returns the entries of the tools that p may see, without our own.
func (g *Gateway) Tools(p tool.Principal) []*catalog.Entry { return g.Visible(p).Entries() }

// Limits of cached views.
const (
	maxSeen = 256         // number of views; one per principal and client
	fresh   = time.Second // how long a view is cached that may change without a new policy or catalog
)

// sights caches the views of principals.
type sights struct {
	mu    sync.Mutex
	whole *catalog.View // all views are parts of it
	by    *queue.Cache[string, *sight]
}

// A sight is the view of one principal.
type sight struct {
	once sync.Once
	made time.Time
	view *catalog.View
}

// get returns the view of p. It computes a new one if the catalog changed, or, if fleeting is set,
// after a moment: the view may then change with the time, or with a credential.
func (s *sights) get(p tool.Principal, whole *catalog.View, fleeting bool,
	keep func() func(*catalog.Entry) bool) *catalog.View {
	key, now := string(p.AppendKey(nil)), time.Now()
	s.mu.Lock()
	if s.by == nil || s.whole != whole {
		s.whole, s.by = whole, queue.NewCache[string, *sight](maxSeen, 0)
	}
	last, _ := s.by.Use(key)
	v := last
	if v == nil || fleeting && now.Sub(v.made) > fresh {
		v = &sight{made: now}
		s.by.Put(p.ID, key, v, 0)
	}
	s.mu.Unlock()
	v.once.Do(func() {
		v.view = whole.Only(keep())
		if last != nil && last != v { // v itself may be found before its creator has computed it
			last.once.Do(func() { last.view = v.view })
			if v.view.Same(last.view) {
				v.view = last.view // caches keyed by View stay valid
			}
		}
	})
	return v.view
}
