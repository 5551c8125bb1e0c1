package usage_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A memory is an in-memory usage.Store.
type memory struct {
	mu   sync.Mutex
	rows []usage.Row
	fail error
}

func (m *memory) Add(_ context.Context, rows []usage.Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.rows = append(m.rows, rows...)
	return nil
}

func (m *memory) Sum(_ context.Context, _ usage.Selection, f func(usage.Row) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Compact(context.Context, time.Time, time.Time) error { return nil }

var noon = time.Date(2026, 3, 2, 12, 30, 0, 0, time.UTC)

func meter(t testing.TB, s usage.Store, prices *usage.Prices) (*usage.Meter,
	func(path, parent string, who tool.Principal, args string, r *tool.Result, err error)) {
	t.Helper()
	m := usage.New(usage.Config{Store: s, Prices: prices, Clock: wallclock.At(noon)})
	return m, func(path, parent string, who tool.Principal, args string, r *tool.Result, err error) {
		m.CountCall(&tool.Call{Path: path, By: &tool.Program{Execution: parent}, Arguments: []byte(args),
			Principal: who}, named(path), r, err, 0)
	}
}

func named(path string) *tool.Tool {
	up, name, ok := strings.Cut(path, ".")
	if !ok {
		return nil
	}
	return &tool.Tool{Upstream: up, Name: name}
}

func ask(t *testing.T, m *usage.Meter, by ...string) map[string]usage.Line {
	t.Helper()
	r, err := m.Report(t.Context(), usage.Query{From: noon.Add(-time.Hour), To: noon.Add(time.Hour), By: by})
	if err != nil {
		t.Fatalf("Report: %v", err)
	}
	out := map[string]usage.Line{"total": r.Total}
	for _, l := range r.Lines {
		out[strings.Join(l.Of, " ")] = l
	}
	return out
}

func TestWhatIsCounted(t *testing.T) {
	ann := tool.Principal{ID: "local:ann", Client: "claude-code/2"}
	m, call := meter(t, &memory{}, &usage.Prices{Currency: "USD", Default: usage.Price{Input: 3, Output: 15},
		Special: []usage.Special{
			{Pattern: "claude*", Price: usage.Price{Input: 100, Output: 100}},
			{Pattern: "claude-code*", Price: usage.Price{Input: 1e6, Output: 2e6}},
		}})
	text := strings.Repeat("hello world ", 10) // 21 tokens
	call("crm.list", "ex_1", ann, `{}`, tool.Text(false, text), nil)
	call("crm.list", "ex_1", ann, `{}`, tool.Text(true, "no"), nil)
	call("crm.list", "", ann, `{}`, tool.Text(false, text), nil)
	call("crm.put", "ex_1", ann, `{"a":1}`, nil, tool.NotSent(tool.Errorf(tool.Denied, "no")))
	call("nothing", "", ann, `{}`, nil, tool.NotSent(tool.Errorf(tool.NotFound, "no")))
	call("biplane.execute", "", ann, `{"code":"1"}`, tool.Text(false, "hello"), nil)
	call("biplane.send", "ex_1", ann, `{"url":"https://a.example"}`, nil, nil)
	call("crm.put", "ex_1", ann, `{"a":1}`, nil,
		tool.NotSent(&tool.Error{Kind: tool.Unavailable, Msg: "it goes on later", Err: tool.ErrGoesOn}))
	m.AddRun(ann, 500*time.Microsecond, false)
	m.AddRun(ann, 1000*time.Microsecond, true)

	got := ask(t, m, "tool")
	for name, want := range map[string]usage.Counts{
		"crm.list":        {Calls: 3, Failed: 1, Sent: 6, Kept: 22, Unwritten: 2, Read: 21, Written: 1},
		"crm.put":         {Calls: 1, Failed: 1, Denied: 1},
		"unknown":         {Calls: 1, Failed: 1, Written: 1},
		"biplane.send":    {Calls: 1, Sent: 27, Unwritten: 8},
		"biplane.execute": {Calls: 1, Executions: 1, CPU: 1500, Read: 1, Written: 5},
	} {
		c := got[name].Counts
		c.Received = 0
		if c != want {
			t.Errorf("%s: %+v\nwant %+v", name, c, want)
		}
	}
	if l := got["crm.list"]; l.Saved != 24 || l.Cost != 21+2 || l.SavedMoney != 22+2*2 || l.Received == 0 {
		t.Errorf("crm.list: %+v", l)
	}
	if l := got["biplane.execute"]; l.Saved != -6 || l.Cost != 1+10 || l.SavedMoney != -11 {
		t.Errorf("biplane.execute: %+v", l)
	}
	total := got["total"]
	if total.Calls != 7 || total.Saved != 24+8-6 || total.SavedMoney != 26+8*2-11 {
		t.Errorf("total: %+v", total)
	}
	for _, by := range usage.Dimensions() {
		sum := usage.Counts{}
		lines := ask(t, m, by)
		for name, l := range lines {
			if name != "total" {
				sum.Add(l.Counts)
			}
		}
		if sum != total.Counts {
			t.Errorf("by %s: %+v, want %+v", by, sum, total.Counts)
		}
	}
	for by, want := range map[string]string{"hour": "2026-03-02T12:00Z", "day": "2026-03-02", "month": "2026-03",
		"client": "claude-code/2", "principal": "local:ann"} {
		if _, ok := ask(t, m, by)[want]; !ok {
			t.Errorf("by %s there is no %s", by, want)
		}
	}
}

func TestQueriesThatMakeNoSense(t *testing.T) {
	m, _ := meter(t, &memory{}, nil)
	for _, q := range []usage.Query{
		{From: noon, To: noon}, {From: noon, To: noon.Add(1), By: []string{"colour"}},
		{From: noon, To: noon.Add(1), By: []string{"day", "day"}},
	} {
		if _, err := m.Report(t.Context(), q); err == nil || tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("q = %+v, err = %v, want err != nil && tool.AsError(err).Kind == tool.Invalid", q, err)
		}
	}
}

// A report for a principal contains only the principal's own usage.
func TestOwn(t *testing.T) {
	m, call := meter(t, &memory{}, nil)
	call("crm.list", "", tool.Principal{ID: "ann"}, `{}`, nil, nil)
	call("crm.list", "", tool.Principal{ID: "bob"}, `{}`, nil, nil)
	r, err := m.Report(t.Context(), usage.Query{From: noon.Add(-time.Hour), To: noon.Add(time.Hour), Principal: "bob"})
	if err != nil || len(r.Lines) != 1 || r.Lines[0].Of[0] != "bob" || r.Total.Calls != 1 {
		t.Errorf("r = %+v, err = %v, want err == nil && len(r.Lines) == 1 && r.Lines[0].Of[0] == "+
			"\"bob\" && r.Total.Calls == 1", r, err)
	}
}

// Counts that can't be written are not lost, and not written twice.
func TestAStoreThatFails(t *testing.T) {
	s := &memory{fail: errors.New("disk full")}
	m, call := meter(t, s, nil)
	call("crm.list", "", tool.Principal{ID: "ann"}, `{}`, nil, nil)
	_ = ask(t, m)
	s.fail = nil
	call("crm.list", "", tool.Principal{ID: "ann"}, `{}`, nil, nil)
	_ = ask(t, m)
	if l := ask(t, m)["ann"]; l.Calls != 2 || l.Written != 2 {
		t.Errorf("l = %+v, want l.Calls == 2 && l.Written == 2", l)
	}
}

// The number of rows is bounded, whatever clients call themselves.
func TestClientsAreBounded(t *testing.T) {
	s := &memory{}
	m, call := meter(t, s, nil)
	for i := range 1000 {
		call("crm.list", "", tool.Principal{ID: "ann", Client: fmt.Sprint("bot", i)}, `{}`, nil, nil)
	}
	call("crm.list", "", tool.Principal{ID: "bob", Client: strings.Repeat("x", 10_000)}, `{}`, nil, nil)
	lines := ask(t, m, "client")
	if len(lines) > 70 || lines["total"].Calls != 1001 || lines["(others)"].Calls != 936 {
		t.Errorf("%d lines, %+v", len(lines), lines["(others)"])
	}
	for name := range lines {
		if len(name) > 200 {
			t.Errorf("a client of %d bytes", len(name))
		}
	}
}

// Tokens beyond the budget are estimated, approximately right, and reported as estimates.
func TestEstimates(t *testing.T) {
	m, call := meter(t, &memory{}, nil)
	ann := tool.Principal{ID: "ann"}
	text := strings.Repeat("hello world ", 2000) // 4,000 tokens
	call("crm.list", "ex_1", ann, `{}`, tool.Text(false, text), nil)
	if l := ask(t, m, "tool")["crm.list"]; l.Kept < 4000 || l.Kept > 4010 || l.Estimated != 0 {
		t.Errorf("within the budget: %+v", l.Counts)
	}
	m.Leave(100)
	for range 9 {
		call("crm.list", "ex_1", ann, `{}`, tool.Text(false, text), nil)
	}
	call("crm.huge", "ex_1", ann, ``, tool.Text(false, strings.Repeat("a", 9<<20)), nil)
	lines := ask(t, m, "tool")
	if l := lines["crm.list"]; l.Kept < 39_000 || l.Kept > 41_000 || l.Estimated < 35_000 ||
		l.Estimated > l.Kept+l.Unwritten {
		t.Errorf("over it: %+v", l.Counts)
	}
	if l := lines["crm.huge"]; l.Kept < 1_000_000 || l.Kept > 4_000_000 || l.Estimated != l.Kept {
		t.Errorf("too large: %+v", l.Counts)
	}
}

// Run writes all counts when it ends, however many there are.
func TestRunWritesTheRest(t *testing.T) {
	// In fake time, loading the tables on a slow machine doesn't exceed the timeout of the final
	// counting.
	synctest.Test(t, func(t *testing.T) {
		s := &memory{}
		m, call := meter(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					call("crm.list", "", tool.Principal{ID: "ann"}, `{}`, tool.Text(false, "hello"), nil)
				}
			})
		}
		wg.Wait()
		cancel()
		<-done
		sum := usage.Counts{}
		for _, r := range s.rows {
			sum.Add(r.Counts)
		}
		if sum.Calls != 400 || sum.Read != 400 || sum.Written != 400 {
			t.Errorf("sum = %+v, want sum.Calls == 400 && sum.Read == 400 && sum.Written == 400", sum)
		}
	})
}

// TestShortProcess checks that a process that ends immediately counts its last texts.
func TestShortProcess(t *testing.T) {
	for _, words := range []int{20, 2000} {
		synctest.Test(t, func(t *testing.T) { // as above
			s := &memory{}
			m, call := meter(t, s, nil)
			call("crm.list", "", tool.Principal{ID: "ann"}, `{}`, tool.Text(false, strings.Repeat("hello ", words)),
				nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			m.Run(ctx)
			if len(s.rows) != 1 || s.rows[0].Read != int64(words)+1 || s.rows[0].Estimated > 0 {
				t.Errorf("%d words: %+v, want a token for each word and for the last space", words, s.rows)
			}
		})
	}
}

// Each count has exactly one column.
func TestColumns(t *testing.T) {
	c := usage.Counts{}
	n := reflect.TypeFor[usage.Counts]().NumField()
	if len(usage.Columns()) != n || len(c.Values()) != n || len(c.Scan()) != n {
		t.Fatalf("%d fields, %d columns, %d values", n, len(usage.Columns()), len(c.Values()))
	}
	for i, to := range c.Scan() {
		*to.(*int64) = int64(i + 1)
	}
	for i, v := range c.Values() {
		if v != int64(i+1) || reflect.ValueOf(c).Field(i).Int() != int64(i+1) {
			t.Errorf("usage.Columns()[i] = %s, v = %v, want v == int64(i+1) && "+
				"reflect.ValueOf(c).Field(i).Int() == int64(i+1)", usage.Columns()[i], v)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	m, _ := meter(b, &memory{}, nil)
	r := tool.Text(false, strings.Repeat("hello world ", 100))
	crm := &tool.Tool{Upstream: "crm", Name: "list"}
	c := &tool.Call{Path: "crm.list", By: &tool.Program{Execution: "ex_1"},
		Arguments: []byte(`{"id":1}`), Principal: tool.Principal{ID: "local:ann", Client: "claude-code/2"}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	b.ReportAllocs()
	for b.Loop() {
		m.CountCall(c, crm, r, nil, time.Millisecond)
	}
	cancel()
	<-done
}
