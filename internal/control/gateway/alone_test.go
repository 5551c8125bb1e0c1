package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// These tests pass a call through one stage alone. The rest of its way is a nextStage.

// A nextStage is a handler that counts its calls, and answers with result or err.
type nextStage struct {
	calls  int
	last   request
	do     func(ctx context.Context, c *tool.Call) // what the tool does; may be nil
	result *tool.Result
	err    error
}

func (n *nextStage) handle(ctx context.Context, r *request) (*tool.Result, error) {
	n.calls++
	n.last = *r
	if n.do != nil {
		n.do(ctx, &r.call)
	}
	return n.result, n.err
}

func fine() *nextStage { return &nextStage{result: tool.Text(false, "fine")} }

// An eventLog is an Observer that collects events.
type eventLog struct {
	tool.NoObserver
	events []string
}

func (o *eventLog) WantsProgress() bool { return true }
func (o *eventLog) WantsLogs() bool     { return true }
func (o *eventLog) OnProgress(_ context.Context, p tool.Progress) {
	o.events = append(o.events, "progress "+p.Message)
}
func (o *eventLog) OnLog(_ context.Context, l tool.Log) {
	o.events = append(o.events, "log "+string(l.Raw))
}
func (o *eventLog) OnWork(context.Context, time.Duration) { o.events = append(o.events, "work") }
func (o *eventLog) OnRemark(text string)                  { o.events = append(o.events, "remark "+text) }

var program = &tool.Program{Execution: "ex_1"}

// newLimits returns limits of CPU time that the first millisecond uses up.
func newLimits(t *testing.T) *limit.Limiter {
	t.Helper()
	l, err := limit.New(t.Context(),
		limit.Config{Rules: []limit.Rule{{What: limit.CPU, Max: 1e-9, Window: time.Hour}}})
	if err != nil {
		t.Fatalf("limit.New: %v", err)
	}
	return l
}

func TestChargeAlone(t *testing.T) {
	for _, c := range []struct {
		about   string
		by      *tool.Program
		work    time.Duration
		charged bool
	}{
		{"work for a call from outside", nil, time.Second, true},
		{"brief work", nil, briefWork - 1, false},
		{"work for a program", program, time.Second, false},
	} {
		g, r := newGateway(t)
		g.cfg.Limits = newLimits(t)
		var seen eventLog
		r.call.By, r.call.Observer = c.by, &seen
		next := fine()
		next.do = func(ctx context.Context, call *tool.Call) { call.Observe().OnWork(ctx, c.work) }
		if res, err := charge(g, next.handle)(t.Context(), r); err != nil || res != next.result {
			t.Errorf("c.about = %s, res = %v, err = %v, want err == nil && res == next.result", c.about, res, err)
		}
		if !slices.Equal(seen.events, []string{"work"}) {
			t.Errorf("%s: the caller's observer saw %q, want work", c.about, seen.events)
		}
		if err := g.cfg.Limits.Afford(t.Context(), &tool.Call{Tool: r.call.Tool}); (err != nil) != c.charged {
			t.Errorf("%s: charged: %v, want %t", c.about, err, c.charged)
		}
	}
}

func TestAffordAlone(t *testing.T) {
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", queue.LargeWork) + `"}`)
	for _, c := range []struct {
		about  string
		change func(*tool.Call)
		passes bool
	}{
		{"a small call", func(*tool.Call) {}, true},
		{"a large call", func(c *tool.Call) { c.Arguments = large }, false},
		{"a large call of another principal", func(c *tool.Call) {
			c.Arguments, c.Principal.ID = large, "bob"
		}, true},
		{"a large call of a program", func(c *tool.Call) { c.Arguments, c.By = large, program }, true},
		{"a small search", func(c *tool.Call) {
			c.Tool = catalog.SearchDefinition()
			c.Tool.Upstream = tool.Own
		}, false},
	} {
		g, r := newGateway(t)
		g.cfg.Limits = newLimits(t)
		g.cfg.Limits.Spend(t.Context(), tool.Principal{ID: "ann"}, time.Second)
		r.call.Principal.ID = "ann"
		c.change(&r.call)
		next := fine()
		_, err := afford(g, next.handle)(t.Context(), r)
		if e := tool.AsError(err); c.passes && (err != nil || next.calls != 1) ||
			!c.passes && (e == nil || e.Kind != tool.Limit || !e.Unsent || next.calls != 0) {
			t.Errorf("%s: %v, passed on %d times; want it passed on: %t", c.about, err, next.calls, c.passes)
		}
	}
}

// newPrivacy returns a Guard with vaults on disk.
func newPrivacy(t *testing.T) *privacy.Guard {
	t.Helper()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return privacy.New(privacy.Config{Store: s.Privacy(key), Log: slog.New(slog.DiscardHandler)})
}

func TestHideAlone(t *testing.T) {
	const mail = "ada@example.com"
	own := catalog.SearchDefinition()
	own.Upstream, own.Name = tool.Own, "resume"
	search := catalog.SearchDefinition()
	search.Upstream = tool.Own
	for _, c := range []struct {
		about  string
		tool   *tool.Tool // nil: an upstream's tool
		by     *tool.Program
		hidden string // what is hidden, of: result, error, progress
	}{
		{"a call from outside", nil, nil, "result error progress"},
		{"a call of a program", nil, program, ""},
		{"one of our tools", own, nil, "result error"},
		{"search", search, nil, "error"},
	} {
		g, r := newGateway(t)
		g.cfg.Privacy = newPrivacy(t)
		if c.tool != nil {
			r.call.Tool = c.tool
		}
		var seen eventLog
		r.call.By, r.call.Observer = c.by, &seen
		next := &nextStage{result: tool.Text(false, "for "+mail)}
		next.do = func(ctx context.Context, call *tool.Call) {
			call.Observe().OnProgress(ctx, tool.Progress{Message: mail})
		}
		texts := map[string]string{}
		res, err := hide(g, next.handle)(t.Context(), r)
		if err != nil {
			t.Fatalf("c.about = %s, err = %v, want nil", c.about, err)
		}
		texts["result"], texts["progress"] = string(res.Raw), strings.Join(seen.events, " ")
		next.result, next.err = nil, tool.Errorf(tool.Invalid, "no such person: "+mail)
		_, err = hide(g, next.handle)(t.Context(), r)
		if err == nil {
			t.Fatalf("%s: the error is gone", c.about)
		}
		texts["error"] = err.Error()
		for name, text := range texts {
			want := strings.Contains(c.hidden, name)
			if hidden := !strings.Contains(text, mail); hidden != want || hidden && !strings.Contains(text, "EMAIL") {
				t.Errorf("%s: the %s is %q; want the address hidden: %t", c.about, name, text, want)
			}
		}
	}
}

// TestHideKeepsOutcomes checks that results without privacy, and errors of programs' calls, are
// passed back as they are.
func TestHideKeepsOutcomes(t *testing.T) {
	g, r := newGateway(t)
	r.call.By = program
	next := fine()
	calls := hide(g, next.handle)
	if res, err := calls(t.Context(), r); err != nil || res != next.result {
		t.Errorf("without privacy: %v, %v, want the result as it is", res, err)
	}
	g.cfg.Privacy = newPrivacy(t)
	next = &nextStage{err: errors.New("down")}
	if res, err := hide(g, next.handle)(t.Context(), r); res != nil || !errors.Is(err, next.err) {
		t.Errorf("a failed call of a program: %v, %v, want its error", res, err)
	}
}

// A revoked bars every principal for the reason that it is, unless that is empty.
type revoked string

func (r revoked) ExplainDenial(tool.Principal, *tool.Tool) string { return string(r) }

func TestRevealAlone(t *testing.T) {
	for _, c := range []struct {
		about, barred, want string
		own                 bool
	}{
		{"a token that policy reveals", "", "ada@example.com", false},
		{"a token of a barred principal", "it was revoked", "[EMAIL_1]", false},
		{"a token for one of our tools", "", "[EMAIL_1]", true},
	} {
		g, r := newGateway(t)
		g.cfg.Privacy = newPrivacy(t)
		g.cfg.Credentials = revoked(c.barred)
		if c.own {
			r.call.Tool = catalog.SearchDefinition()
			r.call.Tool.Upstream = tool.Own
		}
		text := "ada@example.com"
		s := g.cfg.Privacy.Sheet(t.Context(), scope(&r.call))
		s.Text(&text)
		s.Hide(t.Context())
		var seen eventLog
		r.call.Observer, r.call.Arguments = &seen, json.RawMessage(`{"to":"`+text+`"}`)
		if err := reveal(t.Context(), g, r); err != nil {
			t.Errorf("c.about = %s, err = %v, want nil", c.about, err)
		}
		if got := string(r.call.Arguments); got != `{"to":"`+c.want+`"}` {
			t.Errorf("%s: the tool receives %s, want %s", c.about, got, c.want)
		}
		if kept := c.barred != ""; kept != (len(seen.events) == 1 && strings.Contains(seen.events[0], c.barred)) ||
			!c.own && r.remark == "" {
			t.Errorf("%s: the caller is told %q, the record %q", c.about, seen.events, r.remark)
		}
	}
}

// A fakePlanner is a tool.Planner that answers with instead or err.
type fakePlanner struct {
	calls   int
	instead *tool.Instead
	err     error
}

func (p *fakePlanner) TakeOver(*tool.Call, string) (*tool.Instead, error) {
	p.calls++
	return p.instead, p.err
}

func TestTakeoverAlone(t *testing.T) {
	yes := true
	simulated := tool.Text(false, "simulated")
	for _, c := range []struct {
		about     string
		planner   *fakePlanner
		change    func(*request)
		asked     bool
		passes    bool
		effect    policy.Effect // of the call that is passed on
		recorded  string        // effect in the record of a call that isn't; empty: none
		kind      tool.Kind     // of the error
		arguments string
	}{
		{"a planned write", &fakePlanner{instead: &tool.Instead{Result: simulated, Reason: "planned"}},
			func(*request) {}, true, false, "", Planned, "", ""},
		{"an approved write", &fakePlanner{instead: &tool.Instead{Arguments: []byte(`{"n":2}`), Reason: "approved"}},
			func(r *request) { r.decision.Effect = policy.Ask }, true, true, policy.Allow, "", "", `{"n":2}`},
		{"a write that is not in the plan", &fakePlanner{err: tool.Errorf(tool.Denied, "not planned")},
			func(*request) {}, true, false, "", string(policy.Deny), tool.Denied, ""},
		{"a denied write", &fakePlanner{}, func(r *request) { r.decision.Effect = policy.Deny }, false, true,
			policy.Deny, "", "", `{}`},
		{"a call that reads", &fakePlanner{}, func(r *request) {
			reads := *r.call.Tool
			reads.Annotations.ReadOnly = &yes
			r.call.Tool = &reads
		}, false, true, policy.Allow, "", "", `{}`},
	} {
		g, r := newGateway(t)
		r.call.By = &tool.Program{Execution: "ex_1", Planner: c.planner}
		c.change(r)
		next := fine()
		res, err := takeOver(g, next.handle)(t.Context(), r)
		if asked := c.planner.calls == 1; asked != c.asked || (next.calls == 1) != c.passes {
			t.Errorf("%s: asked the planner: %t, want %t; passed on: %d times, want it: %t", c.about, asked, c.asked,
				next.calls, c.passes)
			continue
		}
		if c.passes && (next.last.decision.Effect != c.effect || string(next.last.call.Arguments) != c.arguments) {
			t.Errorf("%s: passed on %s with %s, want %s with %s", c.about, next.last.call.Arguments,
				next.last.decision.Effect, c.arguments, c.effect)
		}
		if e := tool.AsError(err); c.kind != "" && (e == nil || e.Kind != c.kind || !e.Unsent) ||
			c.kind == "" && (err != nil || res == nil) {
			t.Errorf("%s: %v, %v, want an error of kind %q that says it was not sent", c.about, res, err, c.kind)
		}
		all, err := g.cfg.Audit.Records(t.Context(), audit.Query{Kind: audit.KindCall})
		if err != nil || (len(all) == 1) != (c.recorded != "") ||
			len(all) == 1 && all[0].Decision.Effect != c.recorded {
			t.Errorf("%s: recorded %+v, %v, want effect %q", c.about, all, err, c.recorded)
		}
	}
}

func TestRedactAlone(t *testing.T) {
	const data = `{"content":[],"structuredContent":{"ssn":"123-45","name":"ada"}}`
	own := catalog.SearchDefinition()
	own.Upstream = tool.Own
	for _, c := range []struct {
		about  string
		change func(*request)
		err    error
		shows  bool // the field is shown
		quiet  bool // progress is dropped
	}{
		{"a result", func(*request) {}, nil, false, true},
		{"an error of the tool", func(*request) {}, tool.Errorf(tool.Invalid, "no 123-45"), false, true},
		{"an error before the call", func(*request) {}, tool.NotSent(tool.Errorf(tool.Invalid, "no 123-45")), true,
			true},
		{"no paths", func(r *request) { r.decision.Redact = nil }, nil, true, false},
		{"one of our tools", func(r *request) { r.call.Tool = own }, nil, true, false},
	} {
		g, r := newGateway(t)
		r.decision.Redact = []string{"**.ssn"}
		var seen eventLog
		r.call.Observer = &seen
		c.change(r)
		next := &nextStage{err: c.err}
		if c.err == nil {
			var err error
			if next.result, err = tool.ParseResult(json.RawMessage(data)); err != nil {
				t.Fatalf("tool.ParseResult: %v", err)
			}
		}
		next.do = func(ctx context.Context, call *tool.Call) {
			call.Observe().OnProgress(ctx, tool.Progress{Message: "reads"})
			call.Observe().OnLog(ctx, tool.Log{Raw: json.RawMessage(`"reads"`)})
		}
		res, err := redact(g, next.handle)(t.Context(), r)
		var text string
		switch {
		case (err != nil) != (c.err != nil):
			t.Fatalf("%s: error %v, want %v", c.about, err, c.err)
		case err != nil:
			if text = tool.AsError(err).Msg; tool.AsError(err).Kind != tool.Invalid {
				t.Errorf("%s: %v, want its kind kept", c.about, err)
			}
		default:
			if text = string(res.Raw); !strings.Contains(text, "ada") {
				t.Errorf("%s: %s lacks the other field", c.about, text)
			}
		}
		if strings.Contains(text, "123-45") != c.shows {
			t.Errorf("%s: %s, want the field shown: %t", c.about, text, c.shows)
		}
		messages := slices.DeleteFunc(seen.events, func(e string) bool { return e == "work" })
		if quiet := len(messages) == 0; quiet != c.quiet {
			t.Errorf("%s: the caller saw %q, want nothing: %t", c.about, messages, c.quiet)
		}
	}
}
