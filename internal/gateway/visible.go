package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Visible gives what p may see of the catalog: all tools but those that would be denied whatever the arguments, ours too.
// Lists, searches, declarations, what programs are checked against, and suggestions are all made of it, so that they
// never show what no call could reach. The same View is given as long as nothing changes.
func (g *Gateway) Visible(p tool.Principal) *catalog.View {
	return g.seen.get(p, g.cfg.Catalog.View(), g.fleeting, func() func(*catalog.Entry) bool {
		sight := g.cfg.Policy.Sight(p, time.Time{})
		return func(e *catalog.Entry) bool {
			return (g.cfg.Barred == nil || g.cfg.Barred(p, e.Tool) == "") && sight.Shows(e.Tool)
		}
	})
}

// Shows reports whether p may see a tool.
func (g *Gateway) Shows(p tool.Principal, t *tool.Tool) bool {
	e := g.Visible(p).Entry(t.Upstream, t.Name)
	return e != nil
}

// hidden decides on a call of a tool that its principal may not see, which is denied.
func (g *Gateway) hidden(c *tool.Call) (policy.Decision, bool) {
	if g.Shows(c.Principal, c.Tool) || c.Tool.Upstream == tool.Own {
		return policy.Decision{}, false
	}
	d := g.decide(policy.Request{Principal: c.Principal, Tool: c.Tool, Arguments: c.Arguments, Parent: c.Parent, Labels: c.Labels})
	return d, d.Effect == policy.Deny
}

// attempted records a call that is not made as denied, if its principal may not see the tool. Its error is that of a call of such a tool,
// of one that doesn't exist, or that the call can't be recorded.
func (g *Gateway) attempted(ctx context.Context, c *tool.Call) error {
	entry, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil {
		return err
	}
	next := *c
	next.Tool, next.ID, next.Arguments = entry.Tool, "call_"+rand.Text(), json.RawMessage("{}")
	d, hidden := g.hidden(&next)
	if !hidden {
		return tool.Errorf(tool.NotFound, "%s was not called", c.Path)
	}
	_, err = g.recorded(ctx, &next, d, nil)
	return err
}

// Tools gives the entries of tools that p may see, without our own.
func (g *Gateway) Tools(p tool.Principal) []*catalog.Entry { return g.Visible(p).Entries() }

// Bounds on what is kept of views.
const (
	maxSeen = 256         // views, of as many principals or of clients of theirs
	fresh   = time.Second // for how long what depends on more than the policy and the catalog is kept
)

// sights keeps what principals see.
type sights struct {
	mu    sync.Mutex
	whole *catalog.View // of which all are parts
	by    *queue.Cache[string, *sight]
}

// keyOf tells apart principals that may see different things.
func keyOf(p tool.Principal) string {
	return fmt.Sprintf("%q", []any{p.ID, p.Name, p.Person, p.Agent, p.Client, p.Roles, p.Groups, p.Scopes, p.Tools, p.Chain})
}

// A sight is what one principal sees.
type sight struct {
	once sync.Once
	made time.Time
	view *catalog.View
}

// get gives what p sees of the whole catalog, worked out anew when the catalog changed, or after a moment where it may
// change by itself: with the time, or with a credential.
func (s *sights) get(p tool.Principal, whole *catalog.View, fleeting bool, keep func() func(*catalog.Entry) bool) *catalog.View {
	key, now := keyOf(p), time.Now()
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
		if last != nil && last != v { // v itself may be found before whoever put it there has worked it out
			last.once.Do(func() { last.view = v.view })
			if v.view.Same(last.view) {
				v.view = last.view // whoever keeps things by the View finds them again
			}
		}
	})
	return v.view
}
