package notice

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits of a channel.
const (
	maxWaiting  = 500              // notices in its queue
	maxAttempts = 10               // for one notice
	sendTime    = 30 * time.Second // for one attempt
	firstPause  = time.Second      // between attempts; it doubles
	mostPause   = 5 * time.Minute
)

// DefaultRate is how many notices a channel sends in a minute if nothing else is configured.
const DefaultRate = 10

// A Route is a channel with what is sent to it.
type Route struct {
	Name    string
	Channel Channel
	Kinds   []Kind // empty: all
	Rate    int    // notices in a minute; 0: DefaultRate
}

// Config configures a Notifier.
type Config struct {
	Routes []Route
	Log    *slog.Logger     // nil discards
	Clock  *wallclock.Clock // nil: the system's
	// Pauses waits between attempts and for the rate; nil: real time.
	Pauses Pauser
}

// A Pauser waits. Tests replace it.
type Pauser interface {
	WaitFor(ctx context.Context, d time.Duration) error
}

// A Notifier sends notices. It is safe for concurrent use. A nil Notifier sends none.
type Notifier struct {
	cfg     Config
	changed chan struct{} // has one token after routes were replaced

	mu       sync.Mutex
	routes   []*route
	replaced []*route // by others, whose notices have not been moved yet
}

// A route is a channel and its queue.
type route struct {
	Route
	log   *slog.Logger
	clock *wallclock.Clock
	wait  Pauser
	wake  chan struct{} // has one token after a notice was added

	mu     sync.Mutex
	shares *queue.Shares
	lines  map[string][]*Notice // by principal
	order  []string             // principals with notices, the next one first
	missed map[string]int       // dropped notices by principal, until its next one is sent
	state  State
}

// NewNotifier returns a Notifier. It sends nothing until SendNotices is called.
func NewNotifier(cfg Config) *Notifier {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pauses == nil {
		cfg.Pauses = realTime{}
	}
	n := &Notifier{cfg: cfg, changed: make(chan struct{}, 1)}
	n.routes = n.makeRoutes(cfg.Routes)
	return n
}

func (n *Notifier) makeRoutes(all []Route) (out []*route) {
	for _, r := range all {
		if r.Rate <= 0 {
			r.Rate = DefaultRate
		}
		out = append(out, &route{Route: r, log: n.cfg.Log, clock: n.cfg.Clock, wait: n.cfg.Pauses,
			wake:   make(chan struct{}, 1),
			shares: queue.NewShares("notices", "waiting", maxWaiting), lines: map[string][]*Notice{},
			missed: map[string]int{}, state: State{Name: r.Name, Place: r.Channel.DescribePlace()}})
	}
	return out
}

// ReplaceRoutes replaces all channels. Notices that wait for a channel are sent to the one that has
// its name from now on. Those of a channel that is gone are lost.
func (n *Notifier) ReplaceRoutes(all []Route) {
	n.mu.Lock()
	n.replaced = append(n.replaced, n.routes...)
	n.routes = n.makeRoutes(all)
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *Notifier) listRoutes() []*route {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.routes
}

type realTime struct{}

// WaitFor implements Pauser.
func (realTime) WaitFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AddNotice queues a notice for the channels that want its kind. It never waits.
func (n *Notifier) AddNotice(one Notice) {
	if n == nil {
		return
	}
	one.ID, one.Time = "nt_"+rand.Text(), n.cfg.Clock.Now().UTC().Truncate(time.Second)
	one.Subject = text.Cut(tool.VisibleLine(one.Subject), maxSubject) // names of tools are not trusted
	// locked, so that no notice is added to a channel whose notices were moved
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.routes {
		if len(r.Kinds) == 0 || slices.Contains(r.Kinds, one.Kind) {
			own := one
			r.addNotice(&own)
		}
	}
}

// addNotice queues a notice, or counts it if the principal's share of the queue is used up.
func (r *route) addNotice(n *Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteOmission(n.Principal, n.Dropped) // what it would have said is said by the next one
	n.Dropped = 0
	if r.shares.Acquire(n.Principal, 1) != nil {
		r.state.Dropped++
		r.noteOmission(n.Principal, 1)
		return
	}
	if len(r.lines[n.Principal]) == 0 {
		r.order = append(r.order, n.Principal)
	}
	r.lines[n.Principal] = append(r.lines[n.Principal], n)
	r.state.Waiting++
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// noteOmission adds to the dropped notices that a principal's next notice mentions. The caller
// holds r.mu.
func (r *route) noteOmission(who string, dropped int) {
	if _, known := r.missed[who]; dropped > 0 && (known || len(r.missed) < maxWaiting) {
		r.missed[who] += dropped
	}
}

// nextNotice returns the next notice; nil: there is none. Principals alternate.
func (r *route) nextNotice() *Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		return nil
	}
	who := r.order[0]
	n := r.lines[who][0]
	r.order, r.lines[who] = r.order[1:], r.lines[who][1:]
	if len(r.lines[who]) == 0 {
		delete(r.lines, who)
	} else {
		r.order = append(r.order, who)
	}
	n.Dropped = r.missed[who]
	delete(r.missed, who)
	r.shares.Release(who, 1)
	r.state.Waiting--
	return n
}

// SendNotices sends notices until ctx is done. Notices that are still waiting then are lost.
func (n *Notifier) SendNotices(ctx context.Context) {
	if n == nil {
		return
	}
	for {
		n.moveWaiting()
		limited, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for _, r := range n.listRoutes() {
			all.Go(func() { r.sendNotices(limited) })
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
		}
		cancel()
		all.Wait()
		if ctx.Err() != nil {
			return
		}
	}
}

// moveWaiting moves the notices that wait for replaced channels to the new ones of their names. No
// channel sends meanwhile.
func (n *Notifier) moveWaiting() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, from := range n.replaced {
		for _, to := range n.routes {
			if to.Name != from.Name {
				continue
			}
			from.mu.Lock()
			to.mu.Lock()
			to.state.Sent += from.state.Sent
			if from.state.SentAt.After(to.state.SentAt) {
				to.state.SentAt = from.state.SentAt
			}
			to.state.Dropped += from.state.Dropped
			for who, dropped := range from.missed {
				to.noteOmission(who, dropped)
			}
			clear(from.missed)
			to.mu.Unlock()
			from.mu.Unlock()
			for one := from.nextNotice(); one != nil; one = from.nextNotice() {
				to.addNotice(one)
			}
		}
	}
	n.replaced = nil
}

// sendNotices sends the notices of one channel, at its rate.
func (r *route) sendNotices(ctx context.Context) {
	every := time.Minute / time.Duration(r.Rate)
	for {
		n := r.nextNotice()
		if n == nil {
			select {
			case <-r.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if r.sendPatiently(ctx, n) != nil { // the channel that replaces this one sends it
			r.addNotice(n)
			return
		}
		if r.wait.WaitFor(ctx, every) != nil {
			return
		}
	}
}

// sendPatiently sends a notice, in several attempts if necessary. It returns an error only if ctx
// is done.
func (r *route) sendPatiently(ctx context.Context, n *Notice) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := r.sendOnce(ctx, n)
		switch {
		case err == nil: // also if ctx was done meanwhile: it must not be sent twice
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case tool.AsError(err).Kind == tool.Invalid || attempt == maxAttempts:
			r.log.Error("notice not sent", "channel", r.Name, "kind", n.Kind, "attempts", attempt, "err", err)
			r.mu.Lock()
			r.state.Dropped++
			r.noteOmission(n.Principal, n.Dropped)
			r.mu.Unlock()
			return nil
		}
		wait := max(pause, min(tool.AsError(err).RetryAfter, mostPause))
		if err := r.wait.WaitFor(ctx, wait); err != nil {
			return err
		}
		pause = min(2*pause, mostPause)
	}
}

// sendOnce makes one attempt, and keeps its result in the state.
func (r *route) sendOnce(ctx context.Context, n *Notice) error {
	limited, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := r.Channel.SendNotice(limited, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.state.Failures++
		r.state.Error = describeFailure(err)
		if r.state.Failures == 1 {
			r.log.Warn("notice not sent yet", "channel", r.Name, "kind", n.Kind, "err", err)
		}
		return err
	}
	r.state.Sent++
	r.state.SentAt, r.state.Failures, r.state.Error = r.clock.Now().UTC(), 0, ""
	return nil
}

// ListStates returns the states of the channels.
func (n *Notifier) ListStates() (out []State) {
	if n == nil {
		return nil
	}
	for _, r := range n.listRoutes() {
		r.mu.Lock()
		out = append(out, r.state)
		r.mu.Unlock()
	}
	return out
}

// SendTest sends a test to all channels at once, or to the one with a name, and returns the state
// of each. The error of a State is that of the test.
func (n *Notifier) SendTest(ctx context.Context, name, link string) ([]State, error) {
	if n == nil || len(n.listRoutes()) == 0 {
		return nil, tool.Errorf(tool.NotFound, "no channel for notices is configured: add notify to the configuration")
	}
	var out []State
	for _, r := range n.listRoutes() {
		if name != "" && r.Name != name {
			continue
		}
		err := r.sendOnce(ctx, &Notice{ID: "nt_" + rand.Text(), Kind: Test, Link: link, Command: "biplane notify list",
			Time: n.cfg.Clock.Now().UTC().Truncate(time.Second)})
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
		r.mu.Lock()
		out = append(out, r.state)
		r.mu.Unlock()
	}
	if len(out) == 0 {
		return nil, tool.Errorf(tool.NotFound, "no channel %q: biplane notify list shows them", name)
	}
	return out, nil
}
