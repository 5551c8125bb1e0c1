package usage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Meter. Store must be set.
type Config struct {
	Store  Store
	Tokens *tokens.Counter  // default: a new Counter
	Prices *Prices          // nil: costs are not shown
	Keep   time.Duration    // retention of rows; default 400 days
	Hours  time.Duration    // retention of hourly rows before they are merged into daily ones; default 14 days
	Every  time.Duration    // interval of writes; default 2 s
	Log    *slog.Logger     // default: none
	Clock  *wallclock.Clock // nil: the system's
}

// A Meter counts calls. It is safe for concurrent use. Run writes the counts.
type Meter struct {
	cfg       Config
	tally     tally
	writing   sync.Mutex // only one write at a time
	compacted time.Time
}

// A tally holds the counts that are not written yet.
type tally struct {
	clock *wallclock.Clock

	mu      sync.Mutex
	counts  map[slot]*Counts
	clients clients
	work    work
}

// A slot is a key and an hour.
type slot struct {
	Key
	hour int64 // start in seconds since 1970
}

// Defaults of Config.
const (
	defaultKeep  = 400 * 24 * time.Hour
	defaultHours = 14 * 24 * time.Hour
	defaultEvery = 2 * time.Second
)

// New returns a Meter.
func New(cfg Config) *Meter {
	if cfg.Tokens == nil {
		cfg.Tokens = &tokens.Counter{}
	}
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Hours <= 0 {
		cfg.Hours = min(defaultHours, cfg.Keep)
	}
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Meter{cfg: cfg, tally: tally{clock: cfg.Clock, counts: map[slot]*Counts{},
		work: newWork(cfg.Clock.Now())}}
}

// unknown is the upstream of a call of an unknown tool.
const unknown = "unknown"

// CountCall counts a call that has ended. t is its tool; nil: it is unknown.
func (m *Meter) CountCall(c *tool.Call, t *tool.Tool, r *tool.Result, err error, took time.Duration) {
	if c.FromProgram().Plan != nil || r != nil && r.Simulated {
		return // planned calls are counted when they are made
	}
	if errors.Is(err, tool.ErrGoesOn) && tool.AsError(err).Unsent {
		return // it is counted when its program is resumed and makes it
	}
	n := Counts{Calls: 1, MS: took.Milliseconds()}
	key := Key{Upstream: unknown}
	if t != nil {
		key.Upstream, key.Tool = t.Upstream, t.Name
	}
	sent := true
	if err != nil {
		e := tool.AsError(err)
		n.Failed, sent = 1, !e.Unsent
		if e.Kind == tool.Denied && e.Unsent {
			n.Denied = 1
		}
	} else if r != nil && r.IsError {
		n.Failed = 1
	}
	if sent && sendsArguments(t) {
		n.Sent = int64(len(c.Arguments))
	}
	if r != nil {
		n.Received = int64(len(r.Raw))
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	s := m.tally.findSlot(c.Principal, key)
	m.tally.counts[s].Add(n)
	inside := c.FromProgram().Execution != ""
	if sent || !inside { // a model wrote it even if it was not sent; but a call that was not made saves nothing
		m.tally.queueText(job{slot: s, kind: kindOf(inside, false), arguments: c.Arguments})
	}
	if r != nil {
		m.tally.queueText(job{slot: s, kind: kindOf(inside, true), content: r})
	}
}

// sendsArguments reports whether a tool sends its arguments anywhere. Of Biplane's own tools, only
// those for network access do.
func sendsArguments(t *tool.Tool) bool {
	return t != nil && (t.Upstream != tool.Own || t.Name == "fetch" || t.Name == "send" || t.Name == "connect")
}

// queueText queues a text for counting its tokens, or estimates them. t.mu is held.
func (t *tally) queueText(j job) {
	if n := j.textSize(); n > 0 && !t.work.addJob(j, t.clock.Now()) {
		t.counts[j.slot].addTokens(j.kind, t.work.estimateTokens(&j, n), false)
	}
}

// AddRun adds the CPU time of a program in this process, and counts the program if it has ended.
func (m *Meter) AddRun(p tool.Principal, cpu time.Duration, ended bool) {
	n := Counts{CPU: cpu.Microseconds()}
	if ended {
		n.Executions = 1
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	m.tally.counts[m.tally.findSlot(p, Key{Upstream: tool.Own, Tool: "execute"})].Add(n)
}

// maxSlots is the maximum number of slots between two writes. Anything beyond it is counted without
// client and agent.
const maxSlots = 4096

// maxText is the maximum size in bytes of a stored attribute of a principal.
const maxText = 200

// findSlot returns the slot to count something for p, and creates it if necessary. t.mu is held.
func (t *tally) findSlot(p tool.Principal, k Key) slot {
	now := t.clock.Now()
	k.Subject = Subject{Principal: shortFact(p.ID), Person: shortFact(p.Person), Agent: shortFact(p.Agent),
		Client: t.clients.clientName(p.ID, shortFact(p.Client), now)}
	if len(t.counts) >= maxSlots {
		k.Client, k.Agent = others, ""
	}
	s := slot{k, now.Truncate(time.Hour).Unix()}
	if t.counts[s] == nil {
		t.counts[s] = &Counts{}
	}
	return s
}

// shortFact returns an attribute of a principal, shortened for storing.
func shortFact(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(text.Head(s, maxText), "")
}

// others is the name under which further clients are counted together.
const others = "(others)"

// maxClients is the maximum number of clients per principal and day that are counted separately.
// Clients choose their names freely, and each name requires a row.
const maxClients = 64

// clients are the clients seen today, by principal.
type clients struct {
	day  int64
	seen map[string]map[string]bool
}

func (c *clients) clientName(principal, client string, now time.Time) string {
	if day := now.Unix() / 86400; c.seen == nil || day != c.day {
		c.day, c.seen = day, map[string]map[string]bool{}
	}
	of := c.seen[principal]
	switch {
	case of[client]:
		return client
	case len(of) >= maxClients || len(c.seen) >= maxSlots:
		return others
	case of == nil:
		of = map[string]bool{}
		c.seen[principal] = of
	}
	of[client] = true
	return client
}

// Run counts tokens and writes the counts until ctx is done, and then writes the rest. Counts that
// can't be written are logged and retried.
func (m *Meter) Run(ctx context.Context) {
	write := context.WithoutCancel(ctx) // the store reports when it is closed
	late, cancel := laterContext(ctx)
	defer cancel()
	tick := time.NewTicker(m.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-m.tally.work.wake:
			m.writing.Lock()
			m.countPending(late)
			m.writing.Unlock()
			continue
		case <-tick.C:
		case <-ctx.Done():
			m.flushCounts(write, late)
			return
		}
		m.flushCounts(write, late)
		m.compactRows(write)
	}
}

// finalCountTime is the time limit of the final counting.
const finalCountTime = 3 * time.Second

// laterContext returns a context that ends some time after ctx.
func laterContext(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(finalCountTime):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// flushCounts counts the tokens of pending texts until counting is done, and writes all counts.
func (m *Meter) flushCounts(ctx, counting context.Context) {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.countPending(counting)
	m.tally.mu.Lock()
	counts := m.tally.counts
	m.tally.counts = map[slot]*Counts{}
	m.tally.mu.Unlock()
	if len(counts) == 0 {
		return
	}
	rows := make([]Row, 0, len(counts))
	for s, c := range counts {
		rows = append(rows, Row{Key: s.Key, Start: time.Unix(s.hour, 0).UTC(), Counts: *c})
	}
	for len(rows) > 0 {
		n := min(len(rows), chunk)
		if err := m.cfg.Store.Add(ctx, rows[:n]); err != nil {
			m.cfg.Log.Warn("usage not stored; it is retried", "rows", len(rows), "err", err)
			break
		}
		rows = rows[n:]
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	for i := range rows {
		s := slot{rows[i].Key, rows[i].Start.Unix()}
		if m.tally.counts[s] == nil {
			m.tally.counts[s] = &Counts{}
		}
		m.tally.counts[s].Add(rows[i].Counts)
	}
}

// chunk is the number of rows written at once, because the store has only one writer.
const chunk = 128

// compactRows merges old hourly rows into daily ones and deletes expired rows. It runs once a day,
// and when the process starts.
func (m *Meter) compactRows(ctx context.Context) {
	const day = 24 * time.Hour
	today := m.cfg.Clock.Now().UTC().Truncate(day)
	if !m.compacted.Before(today) {
		return
	}
	if err := m.cfg.Store.Compact(ctx, today.Add(-m.cfg.Hours).Truncate(day),
		today.Add(-m.cfg.Keep).Truncate(day)); err != nil {
		m.cfg.Log.Warn("old usage not compacted", "err", err)
	}
	m.compacted = today
}

// Report returns a report, including counts not written yet. Its errors are of kind Invalid and
// Limit, or those of the store.
func (m *Meter) Report(ctx context.Context, q Query) (*Report, error) {
	m.flushCounts(ctx, ctx)
	return sumReport(ctx, m.cfg.Store, m.cfg.Prices, q)
}
