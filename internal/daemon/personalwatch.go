package daemon

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A principal subscribes to resources with their own instance of a personalUpstream. An instance
// with subscriptions is not stopped because it is idle. If it ends for another reason, such as a
// new secret, the subscriptions continue with the principal's next instance.

// An ownWatch is a resource that a principal watches.
type ownWatch struct {
	watchers int
	active   bool // a call has subscribed to it
}

// WatchFor counts a watcher of a resource for a principal. See upstream.Watcher.
func (p *personalUpstream) WatchFor(owner, uri string) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	all := p.watches[owner]
	if all == nil {
		all = map[string]*ownWatch{}
		p.watches[owner] = all
	}
	if all[uri] == nil {
		all[uri] = &ownWatch{}
		if w, ok := p.watcherOf(owner); ok {
			w.WatchResource(uri)
		}
	}
	all[uri].watchers++
}

// UnwatchFor undoes WatchFor.
func (p *personalUpstream) UnwatchFor(owner, uri string) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	x := p.watches[owner][uri]
	if x == nil {
		return
	}
	if x.watchers--; x.watchers > 0 {
		return
	}
	delete(p.watches[owner], uri)
	if w, ok := p.watcherOf(owner); ok {
		w.UnwatchResource(uri)
	}
	if len(p.watches[owner]) > 0 {
		return
	}
	delete(p.watches, owner)
	if i := p.instances[owner]; i != nil && i.calls == 0 {
		p.expireLater(i)
	}
}

// watcherOf returns the instance of a principal, if there is one and resources can be watched. The
// caller holds pool.mu.
func (p *personalUpstream) watcherOf(owner string) (upstream.Watcher, bool) {
	i := p.instances[owner]
	if i == nil {
		return nil, false
	}
	w, ok := i.up.(upstream.Watcher)
	return w, ok
}

// continueWatches watches the resources of a principal with a new instance. It subscribes again to
// those to which a call had subscribed. The caller holds pool.mu.
func (p *personalUpstream) continueWatches(owner string) {
	w, ok := p.watcherOf(owner)
	if !ok {
		return
	}
	for uri, x := range p.watches[owner] {
		if w.WatchResource(uri); x.active {
			w.ResumeResource(uri)
		}
	}
}

// noteSubscription remembers that a call has subscribed to a resource.
func (p *personalUpstream) noteSubscription(c *tool.Call) {
	var a struct {
		URI string `json:"uri"`
	}
	if c.Tool == nil || c.Tool.Method != tool.Subscribe || json.Unmarshal(c.Arguments, &a) != nil {
		return
	}
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if x := p.watches[c.Principal.ID][a.URI]; x != nil {
		x.active = true
	}
}

// Call implements upstream.Upstream. It uses the credentials of the call's principal alone.
func (p *personalUpstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	i, release, err := p.useInstance(ctx, c.Principal.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	res, err := i.up.Call(ctx, c)
	if err == nil {
		p.noteSubscription(c)
	}
	return res, err
}
