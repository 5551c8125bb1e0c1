package shape

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A memory is a Store in memory.
type memory struct {
	mu    sync.Mutex
	rows  map[Key]Row
	saves int
	err   error // of all writes
}

func (m *memory) LoadShapes(_ context.Context, most int) (out []Row, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		out = append(out, r)
	}
	return out[:min(len(out), most)], nil
}

func (m *memory) SaveShapes(_ context.Context, rows []Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.saves++
	for _, r := range rows {
		m.rows[r.Key] = r
	}
	return nil
}

func (m *memory) DropShapes(_ context.Context, keys []Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.rows, k)
	}
	return m.err
}

// structured reads the structured content of results, and counts the reads.
type structured struct{ reads atomic.Int64 }

func (s *structured) ReadValue(r *tool.Result) (json.RawMessage, error) {
	s.reads.Add(1)
	return r.Structured, nil
}

// changes counts notifications.
type changes struct{ atomic.Int64 }

func (c *changes) UpdateShapes() { c.Add(1) }

func newTool(name, description string) *tool.Tool {
	return &tool.Tool{Upstream: "up", Name: name, Description: description, InputSchema: json.RawMessage(`{}`)}
}

func result(value string) *tool.Result {
	return &tool.Result{Raw: json.RawMessage(value), Structured: json.RawMessage(value)}
}

// start runs a Learner until stop is called.
func start(t *testing.T, cfg Config) (l *Learner, stop func()) {
	t.Helper()
	if cfg.Reader == nil {
		cfg.Reader = &structured{}
	}
	l = NewLearner(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return l, func() { cancel(); <-done }
}

// learnAll learns results one after another.
func learnAll(t *testing.T, l *Learner, tl *tool.Tool, values ...string) {
	t.Helper()
	for _, v := range values {
		l.LearnResult(tl, result(v))
		if err := l.WaitRead(t.Context()); err != nil {
			t.Fatalf("WaitRead: %v", err)
		}
	}
}

func TestLearner(t *testing.T) {
	store, listener := &memory{rows: map[Key]Row{}}, &changes{}
	l, stop := start(t, Config{Store: store, Listener: listener})
	a := newTool("list", "Lists.")
	learnAll(t, l, a, `{"id":1}`)
	if o := l.FindObservation(a); o.IsShown() || listener.Load() != 0 {
		t.Errorf("after one result: %+v and %d notifications, want nothing to be shown", o, listener.Load())
	}
	learnAll(t, l, a, `{"id":2}`, `{"id":3}`)
	o := l.FindObservation(a)
	const want = `{"type":["object"],"properties":{"id":{"type":["integer"]}},"required":["id"]}`
	if got := string(o.Shape.EncodeSchema()); got != want || o.Results != 3 || o.Version != 1 {
		t.Errorf("%s in %d results, version %d; want %s in 3, version 1", got, o.Results, o.Version, want)
	}
	if n := listener.Load(); n != 1 {
		t.Errorf("%d notifications, want one: the third result changes nothing", n)
	}
	stop()

	// Another process knows it, and the same definition read again.
	l, stop = start(t, Config{Store: store})
	if o := l.FindObservation(newTool("list", "Lists.")); o.Results != 3 || string(o.Shape.EncodeSchema()) != want {
		t.Errorf("after a restart: %+v, want what was learned", o)
	}
	// A changed definition begins a new version.
	changed := newTool("list", "Lists all.")
	if o := l.FindObservation(changed); o.Results != 0 {
		t.Errorf("the changed definition has %d results, want none", o.Results)
	}
	learnAll(t, l, changed, `{"name":"x"}`, `{"name":"y"}`)
	o = l.FindObservation(changed)
	if o.Version != 2 || o.Results != 2 || o.Shape.Fields["id"] != nil {
		t.Errorf("the changed definition: %+v, want version 2 without the fields of version 1", o)
	}
	if o := l.FindObservation(a); o.Results != 0 {
		t.Errorf("the old definition has %d results, want none", o.Results)
	}
	stop()
}

// TestNotLearned checks which results are not read.
func TestNotLearned(t *testing.T) {
	store, reader := &memory{rows: map[Key]Row{{"old", "x"}: {Key: Key{"old", "x"}}}}, &structured{}
	l, stop := start(t, Config{Store: store, Reader: reader, Upstreams: map[string]bool{"quiet": false, "old": false}})
	plain := newTool("plain", "")
	typed, method, own, quiet := *plain, *plain, *plain, *plain
	typed.OutputSchema, method.Method = json.RawMessage(`{}`), tool.ReadResource
	own.Upstream, quiet.Upstream = tool.Own, "quiet"
	for _, tl := range []*tool.Tool{&typed, &method, &own, &quiet} {
		learnAll(t, l, tl, `{"id":1}`, `{"id":1}`)
	}
	failed, planned, large := result(`{"id":1}`), result(`{"id":1}`), result(`{"id":1}`)
	failed.IsError, planned.Simulated, large.Raw = true, true, make(json.RawMessage, maxResult+1)
	for _, r := range []*tool.Result{failed, planned, large, nil} {
		l.LearnResult(plain, r)
	}
	learnAll(t, l, plain)
	if n := reader.reads.Load(); n != 0 {
		t.Errorf("%d results were read, want none", n)
	}
	l.FindObservation(plain)
	stop()
	if len(store.rows) != 0 {
		t.Errorf("stored %v, want nothing, also of an upstream that was turned off", store.rows)
	}

	store = &memory{rows: map[Key]Row{}}
	l, stop = start(t, Config{Store: store, Off: true, Upstreams: map[string]bool{"quiet": true}})
	learnAll(t, l, plain, `{"id":1}`, `{"id":1}`)
	learnAll(t, l, &quiet, `{"id":1}`, `{"id":1}`)
	if l.FindObservation(plain).Results != 0 || l.FindObservation(&quiet).Results != 2 {
		t.Error("want only what the upstream says that is turned on")
	}
	stop()

	var none *Learner
	none.LearnResult(plain, result(`1`))
	if o := none.FindObservation(plain); o.Results != 0 {
		t.Errorf("a nil Learner knows %+v, want nothing", o)
	}
}

// TestSteadyResults checks that only some of many equal results are read, and that a new field is
// still found.
func TestSteadyResults(t *testing.T) {
	reader := &structured{}
	l, stop := start(t, Config{Store: &memory{rows: map[Key]Row{}}, Reader: reader})
	defer stop()
	tl := newTool("list", "")
	for range 1000 {
		learnAll(t, l, tl, `{"id":1}`)
	}
	if n := reader.reads.Load(); n < 100 || n > 150 {
		t.Errorf("%d of 1000 equal results were read, want the first ones and about every tenth", n)
	}
	for range oneOfMany {
		learnAll(t, l, tl, `{"id":1,"late":true}`)
	}
	if l.FindObservation(tl).Shape.Fields["late"] == nil {
		t.Error("a new field was not found")
	}
}

// TestFullQueue checks that a result that finds the queue full is dropped without waiting.
func TestFullQueue(t *testing.T) {
	reader := &structured{}
	l := NewLearner(Config{Store: &memory{rows: map[Key]Row{}}, Reader: reader})
	for range 3 * maxQueue {
		l.LearnResult(newTool("list", ""), result(`{"id":1}`)) // nothing reads the queue
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ctx) // reads the rest
	if n := reader.reads.Load(); n == 0 || n > maxQueue {
		t.Errorf("%d results were read, want those in the queue", n)
	}
	if n := l.held.Load(); n != 0 {
		t.Errorf("%d bytes are counted as waiting, want none", n)
	}
	large := make(json.RawMessage, maxResult/2-1)
	for range 2*maxHeld/len(large) + 2 {
		l.LearnResult(newTool("list", ""), &tool.Result{Raw: large})
	}
	if n := l.held.Load(); n > maxHeld {
		t.Errorf("%d bytes wait, want at most %d", n, maxHeld)
	}
}

// TestFailedWrites checks that what can't be written is written later.
func TestFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{rows: map[Key]Row{}, err: errors.New("no space")}
		l, stop := start(t, Config{Store: store, Every: time.Second})
		tl := newTool("list", "")
		learnAll(t, l, tl, `{"id":1}`, `{"id":1}`)
		time.Sleep(3 * time.Second)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		store.mu.Lock()
		rows, saves := len(store.rows), store.saves
		store.mu.Unlock()
		if rows != 1 || saves != 1 {
			t.Errorf("%d rows stored with %d writes, want one", rows, saves)
		}
		stop()
	})
}

// TestTooManyTools checks that the tools used last are kept.
func TestTooManyTools(t *testing.T) {
	store := &memory{rows: map[Key]Row{}}
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range maxTools {
		data, err := EncodeObservation(Observation{Version: 1, Results: 1, Shape: &Shape{Kinds: Null}})
		if err != nil {
			t.Fatalf("EncodeObservation: %v", err)
		}
		key := Key{"up", fmt.Sprint("t", i)}
		store.rows[key] = Row{Key: key, Used: day.AddDate(0, 0, i%100+1), Data: data}
	}
	oldest := Key{"up", "t7"}
	row := store.rows[oldest]
	row.Used = day
	store.rows[oldest] = row
	l, stop := start(t, Config{Store: store})
	tl := newTool("new", "")
	learnAll(t, l, tl, `1`, `2`)
	stop()
	if len(store.rows) != maxTools || store.rows[oldest].Data != nil || store.rows[Key{"up", "new"}].Data == nil {
		t.Errorf("%d rows, want %d, with the new tool and without the one that was used first",
			len(store.rows), maxTools)
	}
}

// TestMalformedRows checks that a row that can't be parsed is learned again.
func TestMalformedRows(t *testing.T) {
	key := Key{"up", "list"}
	store := &memory{rows: map[Key]Row{key: {Key: key, Data: []byte(`{"version":1,"results":2,"shape":{"kinds":0}}`)}}}
	l, stop := start(t, Config{Store: store})
	tl := newTool("list", "")
	if o := l.FindObservation(tl); o.Results != 0 {
		t.Errorf("the malformed row has %+v, want nothing", o)
	}
	learnAll(t, l, tl, `"a"`, `"b"`)
	stop()
	if o, err := ParseObservation(store.rows[key].Data); err != nil || o.Results != 2 || o.Digest != tl.Digest() {
		t.Errorf("stored %+v, %v; want what was learned", o, err)
	}
}

// TestConcurrentUse learns and reads from several goroutines.
func TestConcurrentUse(t *testing.T) {
	l, stop := start(t, Config{Store: &memory{rows: map[Key]Row{}}, Listener: &changes{}, Every: time.Millisecond})
	var wg sync.WaitGroup
	tools := []*tool.Tool{newTool("a", ""), newTool("b", ""), newTool("a", "other")}
	for i, tl := range slices.Concat(tools, tools) {
		wg.Go(func() {
			for n := range 200 {
				l.LearnResult(tl, result(fmt.Sprintf(`{"id":%d,"x%c":{}}`, n, 'a'+(n+i)%26)))
				l.FindObservation(tl)
			}
		})
	}
	wg.Wait()
	stop()
	if !slices.ContainsFunc(tools, func(tl *tool.Tool) bool { return l.FindObservation(tl).Results > 0 }) {
		t.Error("nothing was learned")
	}
}
