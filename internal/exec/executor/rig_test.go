package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// driver is the real driver, created once. Each executor in the tests creates its own sandboxes.
var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

// A rig is an executor with the real engine and real preparation, behind the test's own door.
type rig struct {
	t  testing.TB
	x  *executor.Executor
	in atomic.Int64 // calls inside the door
	// calls that came through the door
	mu    sync.Mutex
	calls []*tool.Call
}

type answers map[string]func(ctx context.Context, c *tool.Call) (*tool.Result, error)

// tools returns the tools that programs in the tests may call.
func (a answers) tools() []*tool.Tool {
	var out []*tool.Tool
	for name := range a {
		schema := `{"type":"object"}`
		switch name {
		case "open":
			schema = `{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"integer"},` +
				`"mode":{"type":"string","default":"all"}},"required":["path","mode"]}`
		case "strict":
			schema = `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`
		}
		out = append(out, &tool.Tool{Upstream: "box", Name: name, InputSchema: json.RawMessage(schema)})
	}
	return out
}

func standard() answers {
	return answers{
		"echo": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.Text(false, string(orEmpty(c.Arguments))), nil
		},
		"text": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.Text(false, "plain text"), nil
		},
		"fail": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if strings.Contains(string(c.Arguments), "status") {
				return tool.ParseResult([]byte(`{"isError":true,"content":[{"type":"text","text":"slow down"}],` +
					`"structuredContent":` + string(c.Arguments) + `}`))
			}
			return tool.Text(true, "no such record"), nil
		},
		"down": func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "box is down"))
		},
		"strict": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.Text(false, "right"), nil
		},
		"lost": func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, &tool.Error{Kind: tool.Unavailable,
				Msg: `upstream "box": the connection broke; whether box.lost took effect is unknown`,
				Err: io.ErrUnexpectedEOF}
		},
		"raw": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			var a struct{ Result json.RawMessage }
			if err := json.Unmarshal(c.Arguments, &a); err != nil {
				return nil, err
			}
			return tool.ParseResult(a.Result)
		},
		"wait": func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			var a struct{ MS int }
			if err := json.Unmarshal(orEmpty(c.Arguments), &a); err != nil {
				return nil, err
			}
			select {
			case <-time.After(time.Duration(a.MS) * time.Millisecond):
				return tool.Text(false, "waited"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		"never": func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"big": func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			var a struct{ N int }
			if err := json.Unmarshal(c.Arguments, &a); err != nil {
				return nil, err
			}
			return tool.Text(false, strings.Repeat("word ", a.N)), nil
		},
	}
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// enclosed makes the engine report no missing protections, as if it ran in a separate process. That
// is tested in another package.
type enclosed struct{ *wasm.Driver }

func (e enclosed) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	caps, err := e.Driver.Probe(ctx)
	caps.Missing = nil
	return caps, err
}

func newRig(t testing.TB, a answers, tweak func(*executor.Config)) *rig {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	r := &rig{t: t}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{Name: "box", Tools: a.tools(), Health: tool.Health{State: tool.Ready}})
	door := tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		r.in.Add(1)
		defer r.in.Add(-1)
		r.mu.Lock()
		r.calls = append(r.calls, c)
		r.mu.Unlock()
		e, err := cat.View().Resolve(c.Path)
		if err != nil {
			return nil, tool.NotSent(err)
		}
		if err := e.Validate(e.Fill(orEmpty(c.Arguments))); err != nil {
			return nil, tool.NotSent(err)
		}
		return a[e.Tool.Name](ctx, c)
	})
	programs := named{program.New(program.Config{Catalog: catalog.NewResolver(cat, nil)})}
	cfg := executor.Config{Drivers: sandbox.OnlyDriver(enclosed{d}),
		Door: door, Programs: programs, Tools: doubts{catalog: cat}}
	cfg.Limits.Timeout = 10 * time.Minute // other limits are reached first, even on a slow machine
	cfg.AnswerWithin = 10 * time.Minute
	if tweak != nil {
		tweak(&cfg)
	}
	if r.x, err = executor.New(cfg); err != nil {
		t.Fatalf("executor.New: %v", err)
	}
	t.Cleanup(func() {
		if err := r.x.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := r.in.Load(); n != 0 {
			t.Errorf("%d calls are still inside the door", n)
		}
	})
	return r
}

// named makes box available to every program, mentioned or not.
type named struct{ *program.Preparer }

func (n named) Prepare(q program.Request) (*program.Program, error) {
	p, err := n.Preparer.Prepare(q)
	if err == nil && p.Namespaces["box"] == nil {
		q := *p
		q.Namespaces = map[string][]string{"box": {"echo"}}
		return &q, nil
	}
	return p, err
}

var ann = tool.Principal{ID: "local:ann", Client: "test/1"}

// execute calls the tool execute with arguments.
func (r *rig) execute(ctx context.Context, args map[string]any) (*tool.Result, error) {
	r.t.Helper()
	raw, err := tool.Marshal(args)
	if err != nil {
		r.t.Fatalf("tool.Marshal: %v", err)
	}
	return r.x.Execute().Call(ctx, &tool.Call{Path: "biplane.execute", Arguments: raw, Principal: ann})
}

// run runs a program and returns the text blocks of its answer.
func (r *rig) run(code string) (texts []string, failed bool) {
	r.t.Helper()
	res, err := r.execute(r.t.Context(), map[string]any{"code": code})
	if err != nil {
		r.t.Fatalf("execute: %v", err)
	}
	return textsOf(r.t, res), res.IsError
}

// value runs a program that must succeed, and returns its value.
func (r *rig) value(code string) string {
	r.t.Helper()
	texts, failed := r.run(code)
	if failed {
		r.t.Fatalf("program failed:\n%s\n%s", code, strings.Join(texts, "\n"))
	}
	return texts[0]
}

// failure runs a program that must fail, and returns the error text.
func (r *rig) failure(code string) string {
	r.t.Helper()
	texts, failed := r.run(code)
	if !failed {
		r.t.Fatalf("program did not fail:\n%s\n%s", code, strings.Join(texts, "\n"))
	}
	return texts[0]
}

func textsOf(t testing.TB, res *tool.Result) []string {
	t.Helper()
	var out []string
	for _, raw := range res.Content {
		var b struct{ Type, Text string }
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		if b.Type == "text" {
			out = append(out, b.Text)
		} else {
			out = append(out, string(raw))
		}
	}
	if len(out) == 0 {
		t.Fatal("an answer without content")
	}
	return out
}

// idOf returns the execution's id and state from an answer.
func idOf(t testing.TB, res *tool.Result) (id, state string) {
	t.Helper()
	var v struct {
		Meta map[string]struct{ ID, State string } `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	e := v.Meta["biplane.dev/execution"]
	if e.ID == "" {
		t.Fatalf("no execution in %s", res.Raw)
	}
	return e.ID, e.State
}

// eventually waits until ok returns true, and fails the test if it doesn't.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until: %s", what)
		}
	}
}

func holds(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func lacks(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%q should not be in:\n%s", p, text)
		}
	}
}

func repeat(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, f(i))
	}
	return b.String()
}

// doubts are Tools that doubt arguments which a tool of the catalog doesn't declare.
type doubts struct {
	executor.NoTools
	catalog *catalog.Catalog
}

func (d doubts) DescribeDoubt(path string, args json.RawMessage) string {
	e, err := d.catalog.View().Resolve(path)
	if err != nil {
		return ""
	}
	return e.Doubt(args)
}
