package limit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A memory is a Store in memory.
type memory struct {
	mu    sync.Mutex
	times map[string]time.Time
	doubt time.Time
	fails bool
}

func (m *memory) Load(context.Context, time.Time) (map[string]time.Time, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.times), m.doubt, nil
}

func (m *memory) Save(_ context.Context, times map[string]time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails {
		return errors.New("disk full")
	}
	if m.times == nil {
		m.times = map[string]time.Time{}
	}
	maps.Copy(m.times, times)
	return nil
}

func call(principal, path string, groups ...string) *tool.Call {
	upstream, name, _ := strings.Cut(path, ".")
	return &tool.Call{Path: path, Tool: &tool.Tool{Upstream: upstream, Name: name}, Arguments: []byte(`{"a":1}`),
		Principal: tool.Principal{ID: principal, Groups: groups}}
}

func limiter(t *testing.T, c *wallclock.Clock, s limit.Store, rules ...limit.Rule) *limit.Limiter {
	t.Helper()
	l, err := limit.New(t.Context(), limit.Config{Rules: rules, Store: s, Clock: c})
	if err != nil {
		t.Fatalf("limit.New: %v", err)
	}
	return l
}

func start() *wallclock.Clock { return wallclock.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) }

func TestCallsInAWindow(t *testing.T) {
	c, s := start(), &memory{}
	rule := limit.Rule{What: limit.Calls, Max: 3, Window: time.Minute, Tools: "shop.*"}
	l := limiter(t, c, s, rule)
	for range 3 {
		if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); err != nil {
			t.Fatalf("Take: %v", err)
		}
	}
	_, err := l.Take(t.Context(), call("ann", "shop.put"), false)
	if e := tool.AsError(err); e == nil || e.Kind != tool.Limit || e.RetryAfter != 20*time.Second || !e.Unsent ||
		!strings.Contains(e.Msg, "3 calls in 60 s of shop.* for each principal: try again in 20 s") {
		t.Errorf("over the limit: %+v", err)
	}
	for _, other := range []*tool.Call{call("bob", "shop.get"), call("ann", "bank.get")} {
		if _, err := l.Take(t.Context(), other, false); err != nil {
			t.Errorf("%s of %s: %v", other.Path, other.Principal.ID, err)
		}
	}
	c.Advance(10 * time.Second)
	l = limiter(t, c, s, rule) // a restart doesn't reset the limits
	if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); tool.AsError(err) == nil ||
		tool.AsError(err).RetryAfter != 10*time.Second {
		t.Errorf("after a restart: %v", err)
	}
	c.Advance(10 * time.Second)
	if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); err != nil {
		t.Errorf("when its time has come: %v", err)
	}
}

func TestPer(t *testing.T) {
	for _, tt := range []struct {
		per   limit.Scope
		other *tool.Call
		same  bool
	}{
		{limit.PerAll, call("bob", "bank.get"), true},
		{limit.PerUpstream, call("bob", "shop.put"), true},
		{limit.PerUpstream, call("ann", "bank.get"), false},
		{limit.PerTool, call("bob", "shop.get"), true},
		{limit.PerTool, call("ann", "shop.put"), false},
		{limit.PerPrincipal, call("ann", "bank.get"), true},
		{limit.PerPrincipal, call("bob", "shop.get"), false},
		{limit.PerGroup, call("bob", "bank.get", "x", "dev"), true},
		{limit.PerGroup, call("bob", "shop.get", "ops"), false},
		{limit.PerGroup, call("bob", "shop.get"), false},
	} {
		l := limiter(t, start(), nil, limit.Rule{What: limit.Calls, Max: 1, Window: time.Hour, Per: tt.per})
		if _, err := l.Take(t.Context(), call("ann", "shop.get", "dev"), false); err != nil {
			t.Fatalf("Take: %v", err)
		}
		if _, err := l.Take(t.Context(), tt.other, false); (err != nil) != tt.same {
			t.Errorf("per %s, %s of %s: %v", tt.per, tt.other.Path, tt.other.Principal.ID, err)
		}
	}
}

func TestNothingIsUsedWhereOneRuleSaysNo(t *testing.T) {
	c := start()
	l := limiter(t, c, nil, limit.Rule{What: limit.Calls, Max: 2, Window: time.Hour},
		limit.Rule{What: limit.Egress, Max: 10, Window: time.Second})
	for i := range 2 { // 7 bytes each
		if _, err := l.Take(t.Context(), call("ann", "a.b"), false); (err == nil) != (i == 0) {
			t.Fatalf("i = %v, err = %v, want (err == nil) == (i == 0)", i, err)
		}
	}
	c.Advance(time.Second)
	if _, err := l.Take(t.Context(), call("ann", "a.b"), false); err != nil {
		t.Errorf("the refused call was counted: %v", err)
	}
}

func TestExecutions(t *testing.T) {
	c := start()
	l := limiter(t, c, nil, limit.Rule{What: limit.Concurrent, Max: 1},
		limit.Rule{What: limit.CPU, Max: 10, Window: 10 * time.Second},
		limit.Rule{What: limit.Tokens, Max: 1000, Window: time.Minute})
	run := call("ann", "biplane.execute")
	done, err := l.Take(t.Context(), run, true)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	if _, err := l.Take(t.Context(), run, true); err == nil || !strings.Contains(err.Error(), "1 executions at once") {
		t.Errorf("a second at once: %v", err)
	}
	done(limit.Spent{CPU: 14 * time.Second, Tokens: 500})
	done(limit.Spent{CPU: time.Hour}) // called twice
	_, err = l.Take(t.Context(), run, true)
	if e := tool.AsError(err); e == nil || e.RetryAfter < 4*time.Second || e.RetryAfter > 4*time.Second+
		time.Millisecond {
		t.Errorf("what was used up is waited for: %v", err)
	}
	c.Advance(4*time.Second + time.Millisecond)
	if done, err = l.Take(t.Context(), run, true); err != nil {
		t.Fatalf("Take: %v", err)
	}
	done(limit.Spent{})
}

func TestNoStoreNoUse(t *testing.T) {
	l := limiter(t, start(), &memory{fails: true}, limit.Rule{What: limit.Calls, Max: 2, Window: time.Hour})
	if _, err := l.Take(t.Context(), call("ann", "a.b"), false); err == nil {
		t.Error("used without a record of it")
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	for _, r := range []limit.Rule{
		{}, {What: "cups", Max: 1, Window: 1}, {What: limit.Calls, Window: time.Second}, {What: limit.Calls, Max: 1},
		{What: limit.Concurrent, Max: 1, Window: 1},
		{What: limit.Tokens, Max: 1, Window: 1, Tools: "a.*"}, {What: limit.CPU, Max: 1, Window: 1, Per: limit.PerTool},
		{What: limit.Calls, Max: 1, Window: 1, Tools: "a.["},
		{What: limit.Calls, Max: 1, Window: 1, Per: "cup"},
	} {
		if l, err := limit.New(t.Context(), limit.Config{Rules: []limit.Rule{r}}); err == nil {
			t.Errorf("r = %+v, l = %v, want err != nil", r, l)
		}
	}
}

// TestRateHolds checks that for any sequence of calls, no more are allowed than an even rate plus
// one burst.
func TestRateHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 20).Draw(t, "max")
		window := time.Duration(rapid.IntRange(1, 100).Draw(t, "window")) * time.Second
		c, s := start(), &memory{}
		begin := c.Now()
		l, err := limit.New(context.Background(),
			limit.Config{Rules: []limit.Rule{{What: limit.Calls, Max: float64(most), Window: window}},
				Store: s, Clock: c})
		if err != nil {
			t.Fatalf("limit.New: %v", err)
		}
		let := 0
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			c.Advance(time.Duration(rapid.Int64Range(0, int64(window)/4).Draw(t, "pause")))
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				if l, err = limit.New(context.Background(),
					limit.Config{Rules: []limit.Rule{{What: limit.Calls, Max: float64(most), Window: window}}, Store: s,
						Clock: c}); err != nil {
					t.Fatalf("limit.New: %v", err)
				}
			}
			_, err := l.Take(context.Background(), call("ann", "a.b"), false)
			if err == nil {
				let++
			} else if e := tool.AsError(err); e.RetryAfter <= 0 || e.RetryAfter > window {
				t.Fatalf("wait %s of a window of %s", e.RetryAfter, window)
			}
			if even := float64(most) * (1 + c.Now().Sub(begin).Seconds()/window.Seconds()); float64(let) > even+1e-6 {
				t.Fatalf("%d let through after %s, at most %g may be", let, c.Now().Sub(begin), even)
			}
		}
	})
}

func TestParallel(t *testing.T) {
	l := limiter(t, start(), &memory{}, limit.Rule{What: limit.Calls, Max: 50, Window: time.Hour})
	var wg sync.WaitGroup
	var mu sync.Mutex
	let := 0
	for range 200 {
		wg.Go(func() {
			if _, err := l.Take(context.Background(), call("ann", "a.b"), false); err == nil {
				mu.Lock()
				let++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if let != 50 {
		t.Errorf("%d let through, want 50", let)
	}
}

var errDown = &tool.Error{Kind: tool.Unavailable, Msg: "no answer"}

func TestBreaker(t *testing.T) {
	c := start()
	b := limit.NewBreaker(c)
	try := func(i int, r *tool.Result, err error) error {
		cl := call("ann", "shop.get")
		cl.Arguments = fmt.Appendf(nil, `{"i":%d}`, i)
		done, refused := b.Allow(cl, "")
		if refused == nil {
			done(r, err)
		}
		return refused
	}
	for i := range 8 {
		if err := try(i, nil, errDown); err != nil {
			t.Fatalf("i = %v, err = %v, want nil", i, err)
		}
	}
	err := try(9, nil, nil)
	if e := tool.AsError(err); e == nil || e.Kind != tool.Unavailable || !e.Unsent ||
		!strings.Contains(e.Msg, "try again in 2 s") {
		t.Fatalf("kept away: %v", err)
	}
	if done, err := b.Allow(call("ann", "bank.get"), ""); err != nil {
		t.Error("another upstream", err)
	} else {
		done(nil, nil)
	}
	c.Advance(2 * time.Second)
	trial, err := b.Allow(call("ann", "shop.get"), "")
	if err != nil {
		t.Fatal("no trial:", err)
	}
	if try(10, nil, nil) == nil {
		t.Error("two trials at once")
	}
	trial(nil, errDown)
	if e := tool.AsError(try(11, nil, nil)); e == nil || e.RetryAfter != 4*time.Second {
		t.Errorf("after a failed trial: %v", e)
	}
	c.Advance(4 * time.Second)
	if err := try(12, tool.Text(true, "an answer, though no good one"), nil); err != nil {
		t.Fatalf("try: %v", err)
	}
	if err := try(13, nil, errDown); err != nil {
		t.Errorf("it is back: %v", err)
	}
}

func TestLoops(t *testing.T) {
	c := start()
	b := limit.NewBreaker(c)
	bad := tool.Text(true, "no such issue")
	fail := func(cl *tool.Call, r *tool.Result) error {
		done, err := b.Allow(cl, "")
		if err == nil {
			done(r, nil)
		}
		return err
	}
	for i := range 10 {
		if err := fail(call("ann", "gh.get"), bad); err != nil {
			t.Fatalf("i = %v, err = %v, want nil", i, err)
		}
	}
	if err := fail(call("ann", "gh.get"), bad); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Limit ||
		!strings.Contains(err.Error(), "10 times in a row") || strings.Contains(err.Error(), "no such issue") {
		t.Errorf("the 11th: %v", err)
	}
	other := call("ann", "gh.get")
	other.Arguments = []byte(`{"a":2}`)
	for _, cl := range []*tool.Call{other, call("bob", "gh.get"), call("ann", "gh.list")} {
		if err := fail(cl, bad); err != nil {
			t.Errorf("another call: %v", err)
		}
	}
	c.Advance(time.Minute)
	if err := fail(call("ann", "gh.get"), tool.Text(false, "found")); err != nil {
		t.Errorf("after a rest: %v", err)
	}
	for range 9 {
		if err := fail(call("ann", "gh.get"), bad); err != nil {
			t.Errorf("after it went well: %v", err)
		}
	}
}

// TestBoundsOfPolicies checks that limits of policies apply in addition to the rules, separately
// for each policy, and that a restart doesn't reset them.
func TestBoundsOfPolicies(t *testing.T) {
	c, s := start(), &memory{}
	l := limiter(t, c, s)
	bounded := func(path string, b ...tool.Bound) *tool.Call {
		c := call("ann", path)
		c.Grant.Bounds = b
		return c
	}
	two := tool.Bound{Policy: "crm", What: "calls", Max: 2, Window: time.Minute, Per: "principal"}
	three := tool.Bound{Policy: "dev", What: "calls", Max: 3, Window: time.Minute, Per: "tool"}
	take := func(l *limit.Limiter, c *tool.Call) string {
		if _, err := l.Take(t.Context(), c, false); err != nil {
			return err.Error()
		}
		return ""
	}
	for range 2 {
		if got := take(l, bounded("shop.get", two, three)); got != "" {
			t.Fatalf(`got = %v, want ""`, got)
		}
	}
	l = limiter(t, c, s)
	if got := take(l, bounded("shop.get", two, three)); !strings.Contains(got,
		"2 calls in 60 s for each principal (policy crm)") {
		t.Errorf("after a restart: %q", got)
	}
	if got := take(l, bounded("shop.get", three)); got != "" { // the refused call used nothing of it
		t.Errorf("the other policy's: %q", got)
	}
	if got := take(l, bounded("shop.get", three)); !strings.Contains(got,
		"3 calls in 60 s for each tool (policy dev)") {
		t.Errorf("the other policy's, used up: %q", got)
	}
	other := two
	other.Policy = "crm2"
	for _, free := range []*tool.Call{call("ann", "shop.get"), bounded("shop.get", other), bounded("shop.put", three)} {
		if got := take(l, free); got != "" {
			t.Errorf("%s within %+v: %q", free.Path, free.Grant.Bounds, got)
		}
	}
	one := bounded("biplane.execute", tool.Bound{Policy: "p", What: "concurrent", Max: 1, Per: "principal"},
		tool.Bound{Policy: "p", What: "tokens", Max: 10, Window: time.Hour, Per: "all"})
	done, err := l.Take(t.Context(), one, true)
	if err != nil || !l.HasLimit(one, limit.Tokens) || l.HasLimit(one, limit.CPU) {
		t.Fatalf("%v, tokens %t, cpu %t", err, l.HasLimit(one, limit.Tokens), l.HasLimit(one, limit.CPU))
	}
	if _, err := l.Take(t.Context(), one, true); err == nil || !strings.Contains(err.Error(), "1 executions at once") {
		t.Errorf("two at once: %v", err)
	}
	done(limit.Spent{Tokens: 20})
	if _, err := l.Take(t.Context(), one, true); err == nil ||
		!strings.Contains(err.Error(), "10 tokens in 1 h (policy p)") {
		t.Errorf("after 20 tokens: %v", err)
	}
}

// TestBoundsThatCantBeRead checks that nothing with a limit is allowed if previous usage is
// unknown.
func TestBoundsThatCantBeRead(t *testing.T) {
	l := limiter(t, start(), broken{})
	c := call("ann", "shop.get")
	if _, err := l.Take(t.Context(), c, false); err != nil {
		t.Fatalf("Take: %v", err)
	}
	c.Grant.Bounds = []tool.Bound{{Policy: "p", What: "calls", Max: 1, Window: time.Minute, Per: "all"}}
	if _, err := l.Take(t.Context(), c, false); err == nil || !tool.AsError(err).Unsent {
		t.Errorf("got %v", err)
	}
}

type broken struct{ *memory }

func (broken) Load(context.Context, time.Time) (map[string]time.Time, time.Time, error) {
	return nil, time.Time{}, errors.New("disk broken")
}

// TestNothingSent checks that a call of which nothing was sent is refunded, and no more than that.
func TestNothingSent(t *testing.T) {
	c, s := start(), &memory{}
	l := limiter(t, c, s, limit.Rule{What: limit.Calls, Max: 2, Window: time.Hour},
		limit.Rule{What: limit.Egress, Max: 14, Window: time.Hour})
	made := func(err error) error {
		_, got := l.Guard(t.Context(), call("ann", "shop.get"), func() (*tool.Result, error) {
			return tool.Text(false, ""), err
		})
		return got
	}
	for range 5 {
		if err := made(tool.NotSent(tool.Errorf(tool.Invalid, "not so"))); err == nil ||
			tool.AsError(err).Kind != tool.Invalid {
			t.Fatalf("err = %v, want err != nil && tool.AsError(err).Kind == tool.Invalid", err)
		}
	}
	for range 2 {
		if err := made(nil); err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	if err := made(nil); err == nil || tool.AsError(err).Kind != tool.Limit {
		t.Errorf("a third: %v", err)
	}
	l = limiter(t, c, s, limit.Rule{What: limit.Calls, Max: 2, Window: time.Hour})
	if err := made(nil); err == nil || tool.AsError(err).Kind != tool.Limit {
		t.Errorf("a third, after a restart: %v", err)
	}
}

// TestResume checks that an execution that continues after a restart counts as under way, and that
// its usage counts.
func TestResume(t *testing.T) {
	l := limiter(t, start(), nil, limit.Rule{What: limit.Concurrent, Max: 1},
		limit.Rule{What: limit.CPU, Max: 5, Window: time.Hour},
		limit.Rule{What: limit.Executions, Max: 3, Window: time.Hour})
	one := call("ann", "biplane.execute")
	// as many as there were, regardless of the limit
	first, second := l.Resume(t.Context(), one), l.Resume(t.Context(), one)
	first(limit.Spent{})
	first(limit.Spent{})
	if _, err := l.Take(t.Context(), one, true); err == nil || !strings.Contains(err.Error(), "at once") {
		t.Errorf("beside one that goes on: %v", err)
	}
	second(limit.Spent{CPU: 6 * time.Second})
	if _, err := l.Take(t.Context(), one, true); err == nil || !strings.Contains(err.Error(), "seconds of CPU time") {
		t.Errorf("after its CPU time: %v", err)
	}
}
