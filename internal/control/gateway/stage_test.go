package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ARCHITECTURE.md lists the stages in the order in which calls pass them.
func TestStagesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	_, section, ok := strings.Cut(string(text), "\n## The stages of a call\n")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no section about the stages of a call")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, real []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	for _, s := range stages {
		real = append(real, s.name)
		if (s.wrap == nil) == (s.check == nil) {
			t.Errorf("stage %s needs either wrap or check", s.name)
		}
		if b, err := os.ReadFile(s.name + ".go"); err != nil ||
			!strings.Contains(string(b), "handler") && s.wrap != nil {
			t.Errorf("stage %s has no file of its name: %v", s.name, err)
		}
	}
	if !slices.Equal(documented, real) {
		t.Errorf("documented: %v\nstages: %v", documented, real)
	}
}

// newGateway returns a Gateway with one tool, shop.put.
func newGateway(t *testing.T) (*Gateway, *request) {
	t.Helper()
	f, _ := policy.Starter("open")
	p, err := policy.New(policy.Config{Files: []policy.File{f}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	cat := catalog.New(catalog.Config{})
	put := &tool.Tool{Name: "put", InputSchema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
	cat.Set(catalog.Source{Name: "shop", Tools: []*tool.Tool{put},
		Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
			return tool.Text(false, "fine"), nil
		})})
	g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate), Log: slog.New(slog.DiscardHandler),
		Audit: audittest.NewLog()})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	entry, err := cat.View().Resolve("shop.put")
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	return g, &request{entry: entry, decision: policy.Decision{Effect: policy.Allow},
		call: tool.Call{ID: "call_1", Path: "shop.put", Tool: entry.Tool, Arguments: []byte(`{}`)}}
}

// Each stage, alone, either passes a call on or ends it with an error of its own.
func TestStages(t *testing.T) {
	for _, c := range []struct {
		stage, about string
		change       func(g *Gateway, r *request)
		wants        tool.Kind // empty: the call is passed on
		unsent       bool
	}{
		{"attempt", "a call to be made", func(*Gateway, *request) {}, "", false},
		{"attempt", "a call not to be made", func(_ *Gateway, r *request) {
			r.call.By = &tool.Program{Attempt: true}
		}, tool.NotFound, true},
		{"plan", "a broken plan", func(g *Gateway, r *request) {
			r.call.By = &tool.Program{Plan: tool.CallerFunc(nil)}
			r.call.Arguments = []byte(`[]`)
		}, tool.Invalid, true},
		{"resolve", "a known tool", func(_ *Gateway, r *request) { r.call.Tool, r.entry = nil, nil }, "", false},
		{"resolve", "an unknown tool", func(_ *Gateway, r *request) { r.call.Path = "shop.pot" }, tool.NotFound, true},
		{"validate", "arguments that fit", func(_ *Gateway, r *request) {
			r.call.Arguments = []byte(`{"n":1}`)
		}, "", false},
		{"validate", "arguments that don't fit", func(_ *Gateway, r *request) {
			r.call.Arguments = []byte(`{"n":"x"}`)
		}, tool.Invalid, true},
		{"authorize", "an allowed call", func(*Gateway, *request) {}, "", false},
		{"find", "an upstream", func(*Gateway, *request) {}, "", false},
		{"find", "a removed upstream", func(g *Gateway, _ *request) {
			g.cfg.Catalog.Remove("shop")
		}, tool.Unavailable, true},
		{"record", "an allowed call", func(*Gateway, *request) {}, "", false},
		{"record", "no result", func(_ *Gateway, r *request) { r.call.Path = "nothing" }, tool.Internal, false},
		{"approve", "an allowed call", func(*Gateway, *request) {}, "", false},
		{"approve", "a denied call", func(_ *Gateway, r *request) {
			r.decision.Effect = policy.Deny
		}, tool.Denied, true},
		{"confirm", "a stored intent", func(_ *Gateway, r *request) {
			r.confirm = func() error { return nil }
		}, "", false},
		{"confirm", "an intent that can't be stored", func(_ *Gateway, r *request) {
			r.confirm = func() error { return errors.New("full") }
		}, tool.Internal, true},
		{"limit", "bounds that nothing enforces", func(_ *Gateway, r *request) {
			r.call.Grant.Bounds = []tool.Bound{{}}
		}, tool.Internal, true},
		{"recover", "a panic", func(_ *Gateway, r *request) { r.call.Path = "panic" }, tool.Internal, false},
		{"label", "no labels", func(*Gateway, *request) {}, "", false},
	} {
		t.Run(c.stage+"/"+c.about, func(t *testing.T) {
			g, r := newGateway(t)
			c.change(g, r)
			i := slices.IndexFunc(stages, func(s stage) bool { return s.name == c.stage })
			passed := false
			last := func(_ context.Context, r *request) (*tool.Result, error) {
				passed = true
				switch r.call.Path {
				case "panic":
					panic("broken")
				case "nothing":
					return nil, nil
				}
				return tool.Text(false, "fine"), nil
			}
			run := g.checkAll(stages[i:i+1], last)
			if w := stages[i].wrap; w != nil {
				run = w(g, last)
			}
			res, err := run(t.Context(), r)
			if c.wants == "" {
				if err != nil || res == nil || !passed {
					t.Errorf("got %v, %v, passed on: %v; want it passed on", res, err, passed)
				}
				return
			}
			if e := tool.AsError(err); e == nil || e.Kind != c.wants || e.Unsent != c.unsent || passed == c.unsent {
				t.Errorf("got %v, %+v, passed on: %v; want kind %s, not sent: %v", res, e, passed, c.wants, c.unsent)
			}
		})
	}
}
