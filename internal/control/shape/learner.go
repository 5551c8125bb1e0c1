package shape

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Learner. Store and Reader must be set.
type Config struct {
	Store    Store
	Reader   ValueReader
	Listener Listener // nil: no one is notified
	// Off turns learning off for the upstreams that are not in Upstreams, which turns it on or off
	// for single ones. Results of upstreams without learning are not read, and stored observations
	// of them are deleted.
	Off       bool
	Upstreams map[string]bool
	Every     time.Duration // interval of writes; default 10 s
	Log       *slog.Logger  // nil: discards
	Clock     *wallclock.Clock
}

// A ValueReader converts results.
type ValueReader interface {
	// ReadValue returns the value of a result as programs see it.
	ReadValue(*tool.Result) (json.RawMessage, error)
}

// A Listener is notified of changes.
type Listener interface {
	// UpdateShapes is called after the observations of a tool have changed in a way that shows. It
	// must not wait for the Learner.
	UpdateShapes()
}

// A Key identifies a tool by its exact names.
type Key struct{ Upstream, Tool string }

// A Row is a stored observation.
type Row struct {
	Key
	Used time.Time // of the last result that was read, to the day
	Data []byte    // see EncodeObservation
}

// A Store stores observations.
type Store interface {
	// LoadShapes returns no more than most rows, the most recently used first. It skips rows that
	// were changed without the key.
	LoadShapes(ctx context.Context, most int) ([]Row, error)
	// SaveShapes stores rows, and replaces those with the same keys.
	SaveShapes(ctx context.Context, rows []Row) error
	// DropShapes deletes the rows with these keys.
	DropShapes(ctx context.Context, keys []Key) error
}

// Limits of a Learner.
const (
	maxTools  = 5000
	maxQueue  = 64       // results that wait to be read
	maxHeld   = 16 << 20 // bytes of these
	maxResult = 4 << 20  // bytes of one
)

// A Learner learns the shapes of tools' results. Run reads results and writes observations. It is
// safe for concurrent use. A nil Learner learns and knows nothing.
type Learner struct {
	cfg   Config
	queue chan job
	held  atomic.Int64 // bytes in the queue

	loading sync.Once

	mu    sync.Mutex
	tools map[Key]*learnedTool
	drop  []Key // to be deleted in the store
}

// A job is a result that waits to be read.
type job struct {
	tool   *tool.Tool
	result *tool.Result
	done   chan<- struct{} // closed when all earlier jobs are done; there is no result then
}

// A learnedTool holds what is known about one tool.
type learnedTool struct {
	Observation
	last      *tool.Tool // the definition that Digest is of; nil: unknown
	used      time.Time
	unchanged int  // results read since the shape changed
	skipped   int  // results since the last one that was read
	stored    bool // the store has it as it is
}

// defaultEvery is the default of Config.Every.
const defaultEvery = 10 * time.Second

// NewLearner returns a Learner.
func NewLearner(cfg Config) *Learner {
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Learner{cfg: cfg, queue: make(chan job, maxQueue), tools: map[Key]*learnedTool{}}
}

// LearnResult queues the result of a tool to be read. It doesn't wait: if many results are queued,
// this one is not read. Neither are results of failed calls, and of tools that declare their type.
func (l *Learner) LearnResult(t *tool.Tool, r *tool.Result) {
	switch {
	case l == nil || t == nil || r == nil || r.IsError || r.Simulated,
		t.OutputSchema != nil || t.Method != "" || t.Upstream == tool.Own || l.isOff(t.Upstream),
		len(r.Raw) > maxResult:
		return
	}
	size := int64(len(r.Raw) + len(r.Structured))
	if l.held.Add(size) > maxHeld {
		l.held.Add(-size)
		return
	}
	select {
	case l.queue <- job{tool: t, result: r}:
	default:
		l.held.Add(-size)
	}
}

// FindObservation returns the observation of a tool's results: the zero Observation if nothing
// was, or if the tool declares their type or its definition has changed since.
func (l *Learner) FindObservation(t *tool.Tool) Observation {
	if l == nil || t.OutputSchema != nil || l.isOff(t.Upstream) {
		return Observation{}
	}
	l.loadRows()
	l.mu.Lock()
	e := l.tools[Key{t.Upstream, t.Name}]
	if e == nil || e.Results == 0 {
		l.mu.Unlock()
		return Observation{}
	}
	o, last := e.Observation, e.last
	l.mu.Unlock()
	if last != t && o.Digest != t.Digest() {
		return Observation{}
	}
	return o
}

// isOff reports whether nothing is learned of an upstream.
func (l *Learner) isOff(upstream string) bool {
	if on, ok := l.cfg.Upstreams[upstream]; ok {
		return !on
	}
	return l.cfg.Off
}

// loadRows reads the stored observations, once.
func (l *Learner) loadRows() {
	l.loading.Do(func() {
		rows, err := l.cfg.Store.LoadShapes(context.Background(), maxTools)
		if err != nil {
			l.cfg.Log.Warn("observed types of results not read: they are observed again", "err", err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, row := range rows {
			if l.isOff(row.Upstream) {
				l.drop = append(l.drop, row.Key)
				continue
			}
			o, err := ParseObservation(row.Data)
			if err != nil {
				l.cfg.Log.Warn("an observed type of results is malformed: it is observed again", "upstream",
					row.Upstream, "tool", row.Tool, "err", err)
				continue
			}
			l.tools[row.Key] = &learnedTool{Observation: o, used: row.Used, stored: true}
		}
	})
}

// Run reads results and writes observations until ctx is done, and then reads and writes the rest.
func (l *Learner) Run(ctx context.Context) {
	if l == nil {
		return
	}
	write := context.WithoutCancel(ctx) // the store reports when it is closed
	tick := time.NewTicker(l.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case j := <-l.queue:
			l.readResult(j)
		case <-tick.C:
			l.loadRows()
			l.saveShapes(write)
		case <-ctx.Done():
			for len(l.queue) > 0 {
				l.readResult(<-l.queue)
			}
			l.saveShapes(write)
			return
		}
	}
}

// WaitRead waits until all results that are queued now are read.
func (l *Learner) WaitRead(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case l.queue <- job{done: done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readResult reads a result, and merges its Shape.
func (l *Learner) readResult(j job) {
	if j.done != nil {
		close(j.done)
		return
	}
	defer l.held.Add(-int64(len(j.result.Raw) + len(j.result.Structured)))
	l.loadRows()
	e := l.prepareTool(j.tool)
	if e == nil {
		return
	}
	value, err := l.cfg.Reader.ReadValue(j.result)
	var s *Shape
	if err == nil {
		s, err = ReadShape(value)
	}
	if err != nil { // what its caller received is not JSON either
		l.cfg.Log.Debug("result not read", "upstream", j.tool.Upstream, "tool", j.tool.Name, "err", err)
		return
	}
	merged := MergeShapes(e.Shape, s)
	l.mu.Lock()
	before := e.Observation
	if e.unchanged++; !merged.isEqual(e.Shape) {
		e.unchanged = 0
		e.Shape = merged
	}
	e.Results++
	e.used = l.cfg.Clock.Now().UTC().Truncate(24 * time.Hour)
	if e.unchanged < settled || e.Results%saveEach == 0 {
		e.stored = false
	}
	after := e.Observation
	l.mu.Unlock()
	if l.cfg.Listener != nil && showsChange(before, after) {
		l.cfg.Listener.UpdateShapes()
	}
}

// showsChange reports whether a signature changes noticeably.
func showsChange(before, after Observation) bool {
	switch after.Results {
	case minShown, 5, 10, 20, 50, 100, 1000:
		return true
	}
	return after.IsShown() && before.Shape != after.Shape &&
		string(before.Shape.EncodeSchema()) != string(after.Shape.EncodeSchema())
}

// IsShown reports whether enough results were read to show their Shape.
func (o Observation) IsShown() bool { return o.Results >= minShown }

// Results without news after which only a part of them is read.
const (
	settled   = 20
	oneOfMany = 10
	saveEach  = 16 // once a type has settled, every saveEach-th result read writes the number
)

// prepareTool returns the entry of a tool whose result is to be read next, or nil if it is not to
// be read. A tool with a new definition begins again.
func (l *Learner) prepareTool(t *tool.Tool) *learnedTool {
	key := Key{t.Upstream, t.Name}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.tools[key]
	if e == nil {
		l.makeRoom()
		e = &learnedTool{Observation: Observation{Digest: t.Digest(), Version: 1}, last: t}
		l.tools[key] = e
	}
	if e.last != t {
		if digest := t.Digest(); digest != e.Digest {
			e.Observation = Observation{Digest: digest, Version: e.Version + 1}
			e.unchanged, e.skipped = 0, 0
		}
		e.last = t
	}
	if e.skipped++; e.unchanged >= settled && e.skipped < oneOfMany {
		return nil
	}
	e.skipped = 0
	return e
}

// makeRoom forgets the tool that was not used for the longest time, if there are too many. The
// caller holds l.mu.
func (l *Learner) makeRoom() {
	if len(l.tools) < maxTools {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(l.tools)), func(a, b Key) int {
		return cmp.Or(l.tools[a].used.Compare(l.tools[b].used), cmp.Compare(a.Upstream, b.Upstream),
			cmp.Compare(a.Tool, b.Tool))
	})
	delete(l.tools, oldest)
	l.drop = append(l.drop, oldest)
}

// chunk is the number of rows written at once, because the store has only one writer.
const chunk = 64

// saveShapes writes what the store doesn't have. What can't be written is retried.
func (l *Learner) saveShapes(ctx context.Context) {
	l.mu.Lock()
	drop := l.drop
	l.drop = nil
	changed := map[Key]Observation{}
	var rows []Row
	for key, e := range l.tools {
		if !e.stored && e.Results > 0 {
			changed[key] = e.Observation
			rows = append(rows, Row{Key: key, Used: e.used})
			e.stored = true
		}
	}
	l.mu.Unlock()
	var err error
	if len(drop) > 0 {
		err = l.cfg.Store.DropShapes(ctx, drop)
	}
	for i := 0; i < len(rows) && err == nil; i++ {
		rows[i].Data, err = EncodeObservation(changed[rows[i].Key])
	}
	for len(rows) > 0 && err == nil {
		n := min(len(rows), chunk)
		if err = l.cfg.Store.SaveShapes(ctx, rows[:n]); err == nil {
			rows = rows[n:]
		}
	}
	if err == nil {
		return
	}
	l.cfg.Log.Warn("observed types of results not stored; it is retried", "tools", len(rows), "err", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range rows {
		if e := l.tools[row.Key]; e != nil {
			e.stored = false
		}
	}
	l.drop = append(l.drop, drop...)
}
