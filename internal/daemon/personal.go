package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// maxInstances is the maximum number of instances of all upstreams that a single principal can
// have. Together the principals have at most an eighth more.
const maxInstances = 64

// instanceIdle is how long an instance without calls is kept, unless the configuration says
// otherwise.
const instanceIdle = 10 * time.Minute

// An instancePool limits the instances of all upstreams with credentials: person.
type instancePool struct {
	shares *queue.Shares

	mu   sync.Mutex // guards all instances
	idle []*instance
}

func newInstancePool(size int64) *instancePool {
	return &instancePool{shares: queue.NewShares("connections with personal credentials", "open", size)}
}

// An ownOpening creates the connection of one principal to an upstream. auth is nil without
// sign-in.
type ownOpening func(owner string, auth *oauth.Client, secrets map[string]string, changed func()) (upstream.Upstream,
	error)

// A personalUpstream is an upstream that each principal uses with their own secrets or sign-in. It
// has an instance for each of them, which is created for a call, and stopped when it is idle, a
// secret changes or the principal signs out. The tools are those of the first instance that listed
// some.
type personalUpstream struct {
	name    string
	secrets *secrets
	names   []string
	signIns *ownSignIns // nil: without sign-in
	open    ownOpening
	check   checking // every approvalAge while it runs; nil: never
	changed notice
	offered notice // called when the resources of a principal have changed; nil: never
	keep    time.Duration
	pool    *instancePool
	log     *slog.Logger
	running sync.WaitGroup

	// guarded by pool.mu
	ctx       context.Context // of Run; nil before
	instances map[string]*instance
	watches   map[string]map[string]*ownWatch // by principal and URI
	lister    *instance                       // whose tools are listed
	listed    []*tool.Tool
	offers    *tool.Offers // of lister
	snap      upstream.Snapshot
	lists     int // counts the changes of the tools
	published int // the value of lists when the catalog's tools were listed
}

// An instance is the connection of one principal to an upstream. Its fields are guarded by pool.mu,
// except the first four.
type instance struct {
	of     *personalUpstream
	owner  string
	values map[string]string
	done   chan struct{} // closed when everything that it started has ended

	up      upstream.Upstream
	offers  *tool.Offers // as noticed last
	stop    context.CancelFunc
	valid   <-chan struct{} // closed when a secret may have changed
	calls   int
	ended   bool // no longer in instances
	expires *time.Timer
}

func newPersonalUpstream(name string, u *upstreams, names []string, signIns *ownSignIns, keep time.Duration,
	open ownOpening, changed notice) *personalUpstream {
	if keep == 0 {
		keep = instanceIdle
	}
	p := &personalUpstream{name: name, secrets: u.secrets, names: names, signIns: signIns, open: open,
		changed: changed, keep: keep, pool: u.pool, log: u.log.With("upstream", name),
		instances: map[string]*instance{}, watches: map[string]map[string]*ownWatch{}}
	p.snap.Health = tool.Health{State: tool.NeedsSignIn,
		Reason: "each principal signs in"}
	if signIns == nil {
		p.snap.Health.Reason = fmt.Sprintf("each principal sets their own %s: `biplane secrets set %s --for me`",
			strings.Join(names, ", "), names[0])
	}
	return p
}

// Name implements upstream.Upstream.
func (p *personalUpstream) Name() string { return p.name }

// Snapshot implements upstream.Upstream.
func (p *personalUpstream) Snapshot() upstream.Snapshot {
	p.pool.mu.Lock()
	snap := p.snap
	p.pool.mu.Unlock()
	if snap.Health.State == tool.NeedsSignIn && p.signIns != nil {
		if page := p.signIns.upstreams.signInPage(p.name); page != "" {
			snap.Health.Reason += ", also at " + page
		}
	}
	return snap
}

// Run implements upstream.Upstream. Instances are created for calls; Run stops those whose secrets
// change, or that are no longer approved.
func (p *personalUpstream) Run(ctx context.Context) error {
	p.pool.mu.Lock()
	p.ctx = ctx
	p.pool.mu.Unlock()
	p.changed()
	var again <-chan time.Time
	if p.check != nil {
		ticker := time.NewTicker(approvalAge)
		defer ticker.Stop()
		again = ticker.C
	}
	for ctx.Err() == nil {
		changed := p.secrets.awaitChange()
		for _, i := range p.listInstances() {
			p.checkInstance(ctx, i, changed)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
	for _, i := range p.listInstances() {
		p.endInstance(i)
	}
	p.running.Wait()
	return nil
}

func (p *personalUpstream) listInstances() []*instance {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return slices.Collect(maps.Values(p.instances))
}

// checkInstance stops an instance if a secret has changed, or its approval has ended.
func (p *personalUpstream) checkInstance(ctx context.Context, i *instance, changed <-chan struct{}) {
	now, err := p.secrets.ResolveOwn(ctx, i.owner, p.name, p.names)
	if err == nil && maps.Equal(now, i.values) && (p.check == nil || p.check(now) == nil) {
		p.pool.mu.Lock()
		i.valid = changed
		p.pool.mu.Unlock()
		return
	}
	p.endInstance(i)
}

// endInstance stops an instance. Its calls fail.
func (p *personalUpstream) endInstance(i *instance) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	p.pool.cutInstance(i)
}

// cutInstance stops an instance. The caller holds pool.mu.
func (pool *instancePool) cutInstance(i *instance) {
	if i.ended {
		return
	}
	i.ended = true
	delete(i.of.instances, i.owner)
	pool.idle = slices.DeleteFunc(pool.idle, func(o *instance) bool { return o == i })
	if i.of.lister == i {
		i.of.lister = nil // another may list its tools; until then, these stay
	}
	if i.expires != nil {
		i.expires.Stop()
	}
	i.stop()
}

// useInstance returns the instance of a principal, and creates it if there is none. The caller must
// call release when the call has ended. Until then the principal's client is kept, too: a call that
// outlives the instance may be renewing the token.
func (p *personalUpstream) useInstance(ctx context.Context, owner string) (i *instance, release func(), err error) {
	if owner == "" {
		return nil, nil, newUnsent(tool.Denied, "upstream %s uses the credentials of the calling principal, who is unknown",
			p.name)
	}
	free := func() {}
	if p.signIns != nil {
		if free, err = p.signIns.requireToken(ctx, owner); err != nil {
			return nil, nil, err
		}
	}
	if i, err = p.enterInstance(ctx, owner); err != nil {
		free()
		return nil, nil, err
	}
	return i, func() {
		p.releaseInstance(i)
		free()
	}, nil
}

// enterInstance returns the instance of a principal, who may not be signed in.
func (p *personalUpstream) enterInstance(ctx context.Context, owner string) (*instance, error) {
	if i := p.findValid(owner); i != nil {
		return i, nil
	}
	for {
		changed := p.secrets.awaitChange()
		values, err := p.secrets.ResolveOwn(ctx, owner, p.name, p.names)
		if err != nil {
			return nil, err
		}
		i, wait, err := p.findOrCreate(owner, values, changed)
		if err != nil || i != nil {
			return i, err
		}
		select {
		case <-wait: // an instance that made room has ended
		case <-ctx.Done():
			return nil, tool.NotSent(context.Cause(ctx))
		}
	}
}

// findValid returns the instance of a principal if its secrets have not changed.
func (p *personalUpstream) findValid(owner string) *instance {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	i := p.instances[owner]
	if i == nil {
		return nil
	}
	select {
	case <-i.valid:
		return nil
	default:
		p.pool.beginUse(i)
		return i
	}
}

// beginUse counts a call. The caller holds pool.mu.
func (pool *instancePool) beginUse(i *instance) {
	if i.calls++; i.calls > 1 {
		return
	}
	pool.idle = slices.DeleteFunc(pool.idle, func(o *instance) bool { return o == i })
	if i.expires != nil {
		i.expires.Stop()
	}
}

// findIdle returns the instance to stop to make room for another one of owner: the one idle for
// longest among the principals with the most instances, or nil. The caller holds pool.mu.
func (pool *instancePool) findIdle(owner string) *instance {
	for _, p := range pool.shares.More(owner) {
		for _, i := range pool.idle {
			if i.owner == p {
				return i
			}
		}
	}
	if pool.shares.Held(owner) == 0 && len(pool.idle) > 0 {
		return pool.idle[0]
	}
	return nil
}

// findOrCreate returns the instance of a principal with these secrets. If there is no room, it ends
// an idle instance, and returns a channel that is closed when there is.
func (p *personalUpstream) findOrCreate(owner string, values map[string]string, changed <-chan struct{}) (i *instance,
	wait <-chan struct{}, err error) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil {
		return nil, nil, newUnsent(tool.Unavailable, "upstream %s is closed", p.name)
	}
	if i = p.instances[owner]; i != nil && !maps.Equal(i.values, values) {
		p.pool.cutInstance(i)
		return nil, i.done, nil
	}
	if i == nil {
		if err := p.pool.shares.Acquire(owner, 1); err != nil {
			idle := p.pool.findIdle(owner)
			if idle == nil {
				return nil, nil, err
			}
			p.pool.cutInstance(idle)
			return nil, idle.done, nil
		}
		if i, err = p.createInstance(owner, values); err != nil {
			p.pool.shares.Release(owner, 1)
			return nil, nil, err
		}
	}
	i.valid = changed
	p.pool.beginUse(i)
	return i, nil, nil
}

// createInstance creates and runs an instance. The caller holds pool.mu.
func (p *personalUpstream) createInstance(owner string, values map[string]string) (*instance, error) {
	i := &instance{of: p, owner: owner, values: values, done: make(chan struct{})}
	var auth *oauth.Client
	release := func() {}
	if p.signIns != nil {
		var err error
		if auth, release, err = p.signIns.acquireClient(owner); err != nil {
			return nil, tool.NotSent(err)
		}
	}
	up, err := p.open(owner, auth, values, func() { p.updateList(i) })
	if err != nil {
		release()
		return nil, newUnsent(tool.AsError(err).Kind, "upstream %s for %s: %s", p.name, owner,
			p.secrets.mask.Text(tool.AsError(err).Msg))
	}
	i.up = up
	p.instances[owner] = i
	ctx, stop := context.WithCancel(p.ctx)
	i.stop = stop
	p.continueWatches(owner)
	p.log.Info("started for a principal", "principal", owner)
	p.running.Go(func() {
		defer stop()
		err := up.Run(ctx)
		p.log.Info("stopped for a principal", "principal", owner, "err", err)
		p.endInstance(i)
		p.secrets.forgetValues(owner, p.name, values)
		release()
		p.pool.shares.Release(owner, 1)
		close(i.done)
	})
	return i, nil
}

// endOwner stops the instance of a principal, and waits for its end.
func (p *personalUpstream) endOwner(owner string) {
	p.pool.mu.Lock()
	i := p.instances[owner]
	if i != nil {
		p.pool.cutInstance(i)
	}
	p.pool.mu.Unlock()
	if i != nil {
		<-i.done
	}
}

// releaseInstance ends the use of an instance. One without calls is stopped after a while.
func (p *personalUpstream) releaseInstance(i *instance) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	if i.calls--; i.calls > 0 || i.ended {
		return
	}
	p.pool.idle = append(p.pool.idle, i)
	if len(p.watches[i.owner]) == 0 {
		p.expireLater(i)
	}
}

// expireLater stops an instance after a while, unless it is used. The caller holds pool.mu.
func (p *personalUpstream) expireLater(i *instance) {
	if i.expires != nil {
		i.expires.Stop()
	}
	i.expires = time.AfterFunc(p.keep, func() {
		p.pool.mu.Lock()
		defer p.pool.mu.Unlock()
		if i.calls == 0 && len(p.watches[i.owner]) == 0 {
			p.pool.cutInstance(i)
		}
	})
}

// updateList updates the lists of tools, templates and prompts from an instance, if it is the one
// whose tools are listed or there is none.
func (p *personalUpstream) updateList(i *instance) {
	p.pool.mu.Lock()
	up := i.up
	p.pool.mu.Unlock()
	if up == nil {
		return
	}
	snap := up.Snapshot()
	p.pool.mu.Lock()
	news := p.offered != nil && i.offers != snap.Offers
	i.offers = snap.Offers
	empty := len(snap.Tools) == 0 && (snap.Offers == nil || len(snap.Offers.Tools) == 0)
	if i.ended || empty || p.lister != nil && p.lister != i {
		p.pool.mu.Unlock()
		if news {
			p.offered()
		}
		return
	}
	p.lister = i
	if !slices.Equal(p.listed, snap.Tools) {
		p.listed = snap.Tools
		p.snap.Tools, p.snap.Broken = markPersonal(snap.Tools), snap.Broken
		p.lists++
	}
	if p.offers != snap.Offers {
		p.offers, p.snap.Offers = snap.Offers, shareOffers(snap.Offers)
		p.lists++
	}
	// The connection of one principal says nothing about the state of the upstream.
	p.snap.Health = tool.Health{State: tool.Ready}
	p.snap.Protocol, p.snap.Server = snap.Protocol, snap.Server
	p.pool.mu.Unlock()
	p.publishList()
	if news {
		p.offered()
	}
}

// markPersonal returns copies of tools that are called with the credentials of the caller.
func markPersonal(tools []*tool.Tool) []*tool.Tool {
	out := make([]*tool.Tool, len(tools))
	for n, t := range tools {
		c := *t
		c.Personal = true
		out[n] = &c
	}
	return out
}

// shareOffers returns what principals may see of the offers of another one: templates and prompts,
// which are definitions like those of tools, but no resources.
func shareOffers(o *tool.Offers) *tool.Offers {
	if o == nil {
		return nil
	}
	return &tool.Offers{Upstream: o.Upstream, Templates: o.Templates, Prompts: o.Prompts, Tools: markPersonal(o.Tools)}
}

// ListResources returns the resources that the upstream lists for a principal; none if they aren't
// signed in.
func (p *personalUpstream) ListResources(ctx context.Context, owner string) []tool.Offer {
	i, release, err := p.useInstance(ctx, owner)
	if err != nil {
		return nil // reading a resource says why
	}
	defer release()
	if !i.awaitConnection(ctx) {
		return nil
	}
	o := i.up.Snapshot().Offers
	if o == nil {
		return nil
	}
	return o.Resources
}

// publishList updates the catalog.
func (p *personalUpstream) publishList() {
	p.pool.mu.Lock()
	n := p.lists
	p.pool.mu.Unlock()
	p.changed()
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	p.published = max(p.published, n)
}

// isListed reports whether tools are known. If so, the catalog has them when it returns.
func (p *personalUpstream) isListed() bool {
	p.pool.mu.Lock()
	known, published := p.lists > 0, p.published == p.lists
	p.pool.mu.Unlock()
	if known && !published {
		p.publishList()
	}
	return known
}

// PrepareFor lists the tools with the credentials of a principal who is about to look for tools, if
// no tools are known yet. It waits for that until ctx is done.
func (p *personalUpstream) PrepareFor(ctx context.Context, owner string) {
	if p.isListed() || owner == "" {
		return
	}
	i, release, err := p.useInstance(ctx, owner)
	if err != nil {
		return // its calls say why
	}
	defer release()
	defer p.isListed() // another principal's instance may have listed them meanwhile
	if i.awaitConnection(ctx) {
		p.updateList(i)
	}
}

// awaitConnection waits until an instance is no longer connecting. It returns false if the instance
// or ctx ended first.
func (i *instance) awaitConnection(ctx context.Context) bool {
	tick := time.NewTicker(preparePause)
	defer tick.Stop()
	for i.up.Snapshot().Health.State == tool.Connecting {
		select {
		case <-tick.C:
		case <-i.done:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// preparePause is the interval at which awaitConnection looks at the state of a connection.
const preparePause = 20 * time.Millisecond

// newUnsent returns the error of a call that was not sent.
func newUnsent(kind tool.Kind, format string, a ...any) error {
	e := tool.AsError(tool.Errorf(kind, format, a...))
	e.Unsent = true
	return e
}
