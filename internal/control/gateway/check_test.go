package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Large arguments are checked a few at a time, with turns for each principal. Small ones don't wait
// for them.
func TestLargeArgumentsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := policy.Starter("open")
		p, err := policy.New(policy.Config{Files: []policy.File{f}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		cat := catalog.New(catalog.Config{})
		cat.Set(catalog.Source{
			Name: "shop",
			Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
				return tool.Text(false, "fine"), nil
			}),
			Tools: []*tool.Tool{{Name: "put", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		})
		const maxChecks = 4
		checks := queue.New(maxChecks, 100)
		g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate),
			Audit: audittest.NewLog(), Turns: checks})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		large := `{"text":"` + strings.Repeat("x", queue.LargeWork) + `"}`
		call := func(ctx context.Context, who, args string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := g.Call(ctx,
					&tool.Call{Path: "shop.put", Principal: tool.Principal{ID: who}, Arguments: json.RawMessage(args)})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		for range maxChecks { // checks in progress
			if err := checks.Enter(t.Context(), "eve"); err != nil {
				t.Fatalf("Enter: %v", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		left, waits := call(ctx, "eve", large), call(t.Context(), "ann", large)
		if err := <-call(t.Context(), "bob", `{}`); err != nil {
			t.Errorf("a small call: %v", err)
		}
		select {
		case err := <-waits:
			t.Errorf("a large call did not wait: %v", err)
		default:
		}
		cancel()
		if err := <-left; !tool.AsError(err).Unsent {
			t.Errorf("a call whose client left while it waited: %v", err)
		}
		checks.Leave("eve")
		if err := <-waits; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
		for range maxChecks - 1 {
			checks.Leave("eve")
		}
		if under, waiting := checks.Load(); under != 0 || waiting != 0 {
			t.Errorf("%d checks are left, %d wait", under, waiting)
		}
	})
}

// A ledger is a limit.Store in memory.
type ledger struct {
	mu   sync.Mutex
	kept map[string]time.Time
}

func (l *ledger) Load(context.Context, time.Time) (map[string]time.Time, time.Time, error) {
	return nil, time.Time{}, nil
}

func (l *ledger) Save(_ context.Context, times map[string]time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, t := range times {
		l.kept[k] = t
	}
	return nil
}

func (l *ledger) charged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}

// TestHostWorkIsCharged checks that the host's work for a call from outside is charged to the
// principal. When its CPU time is used up, its large calls and searches wait. The host's work for a
// program is reported to the program.
func TestHostWorkIsCharged(t *testing.T) {
	f, _ := policy.Starter("open")
	p, err := policy.New(policy.Config{Files: []policy.File{f}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	calls := 0
	cat := catalog.New(catalog.Config{})
	answer := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		calls++
		return tool.Text(false, "fine"), nil
	})
	cat.Set(catalog.Source{Name: "shop", Caller: answer,
		Tools: []*tool.Tool{{Name: "put",
			InputSchema: json.RawMessage(
				`{"type":"object","properties":{"items":{"type":"array","items":{"type":"integer"}}}}`)}}})
	cat.Set(catalog.Source{Name: tool.Own, Caller: answer, Tools: []*tool.Tool{catalog.SearchDefinition()}})
	kept := &ledger{kept: map[string]time.Time{}}
	limits, err := limit.New(t.Context(),
		limit.Config{Store: kept, Rules: []limit.Rule{{What: limit.CPU, Max: 1e-9, Window: time.Hour}}})
	if err != nil {
		t.Fatalf("limit.New: %v", err)
	}
	g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate),
		Audit: audittest.NewLog(), Limits: limits})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	large := json.RawMessage(`{"items":[` + strings.Repeat("1,", 200_000) + `1]}`)
	call := func(who, path string, args json.RawMessage, c tool.Call) error {
		c.Path, c.Principal, c.Arguments = path, tool.Principal{ID: who}, args
		_, err := g.Call(t.Context(), &c)
		return err
	}
	var told time.Duration
	if err := call("ann", "shop.put", large, tool.Call{By: &tool.Program{Execution: "ex_1"},
		Observer: workWatch{total: &told}}); err != nil || told == 0 || kept.charged() != 0 {
		t.Errorf("of a program: %v, %v told, %d charged", err, told, kept.charged())
	}
	if err := call("ann", "shop.put", large, tool.Call{}); err != nil || kept.charged() != 1 {
		t.Errorf("the first large call: %v, %d charged", err, kept.charged())
	}
	before := calls
	for _, path := range []string{"shop.put", tool.Own + ".search"} {
		args := large
		if path != "shop.put" {
			args = json.RawMessage(`{"query":"x"}`)
		}
		if e := tool.AsError(call("ann", path, args, tool.Call{})); e == nil || e.Kind != tool.Limit || !e.Unsent ||
			e.RetryAfter <= 0 || !strings.Contains(e.Msg, "seconds of CPU time") {
			t.Errorf("%s with the CPU time used up: %v", path, e)
		}
		if err := call("bob for "+path, path, json.RawMessage(`{}`), tool.Call{}); err != nil {
			t.Errorf("%s of another principal: %v", path, err)
		}
	}
	if err := call("ann", "shop.put", json.RawMessage(`{}`), tool.Call{}); err != nil || calls != before+3 {
		t.Errorf("a small call: %v", err)
	}
}

// A workWatch is an Observer of work.
type workWatch struct {
	tool.NoObserver
	total *time.Duration
}

func (w workWatch) OnWork(_ context.Context, d time.Duration) { *w.total += d }
