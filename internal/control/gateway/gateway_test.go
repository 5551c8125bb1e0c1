package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A world is a gateway with one upstream, "shop". calls holds the calls that reached the upstream.
type world struct {
	door   *gateway.Gateway
	record audit.Store
	calls  []*tool.Call
}

var only = true

// open returns an engine that allows every call.
func open() *policy.Engine {
	f, _ := policy.Starter("open")
	e, err := policy.New(policy.Config{Files: []policy.File{f}})
	if err != nil {
		panic(err)
	}
	return e
}

func newWorld(t *testing.T, p *policy.Engine, store audit.Store, answer tool.CallerFunc) *world {
	t.Helper()
	w := &world{record: store}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{
		Name: "shop",
		Caller: tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			w.calls = append(w.calls, c)
			return answer(ctx, c)
		}),
		Tools: []*tool.Tool{{
			Name: "get-order",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],` +
				`"additionalProperties":false}`),
		}, {
			Name: "look", InputSchema: json.RawMessage(
				`{"type":"object","properties":{"full":{"type":"boolean","default":false}},"required":["full"]}`),
			Annotations: tool.Annotations{ReadOnly: &only},
		}},
		Health: tool.Health{State: tool.Ready},
	})
	door, err := gateway.New(gateway.Config{
		Catalog: cat, Policy: p, Approval: new(approval.Gate), Audit: audit.New(audit.Config{Store: store}),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	w.door = door
	return w
}

func ok(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, "fine"), nil }

func (w *world) last(t *testing.T) audit.Record {
	t.Helper()
	all, err := audit.New(audit.Config{Store: w.record}).Records(t.Context(), audit.Query{})
	if err != nil || len(all) == 0 {
		t.Fatalf("records: %d, %v", len(all), err)
	}
	return all[0]
}

func TestCallIsRecordedAndMade(t *testing.T) {
	w := newWorld(t, open(), audittest.NewMemory(), ok)
	args := json.RawMessage(`{"id": 9007199254740993}`)
	asked := &tool.Call{Path: "shop.get_order", By: &tool.Program{Execution: "ex_1"},
		Arguments: args, Principal: tool.Principal{ID: "local:ann"}}
	r, err := w.door.Call(t.Context(), asked)
	if err != nil || string(r.Content[0]) != `{"type":"text","text":"fine"}` {
		t.Fatalf("got %+v, %v", r, err)
	}
	if asked.Tool != nil || asked.ID != "" {
		t.Error("the caller's own Call was changed")
	}
	c := w.calls[0]
	if c.Tool.Path() != "shop.get-order" || string(c.Arguments) != string(args) || c.ID == "" {
		t.Errorf("the upstream got %+v", c)
	}
	rec := w.last(t)
	if rec.Subject.Tool != "shop.get-order" || rec.Subject.Execution != "ex_1" || rec.Principal != "local:ann" ||
		rec.Decision.Effect != "allow" || rec.Subject.Call != c.ID || rec.End.Outcome != audit.OK {
		t.Errorf("record %+v", rec)
	}
}

// A required argument with a default is filled in: the upstream and the audit log get the same
// arguments.
func TestRequiredDefaults(t *testing.T) {
	w := newWorld(t, open(), audittest.NewMemory(), ok)
	asked := &tool.Call{Path: "shop.look", Arguments: json.RawMessage(`{"url":"u"}`),
		Principal: tool.Principal{ID: "local:ann"}}
	if _, err := w.door.Call(t.Context(), asked); err != nil {
		t.Fatalf("Call: %v", err)
	}
	const filled = `{"url":"u","full":false}`
	if got := string(w.calls[0].Arguments); got != filled || string(asked.Arguments) != `{"url":"u"}` {
		t.Errorf("the upstream got %s, and the caller's arguments are %s", got, asked.Arguments)
	}
	implied := w.last(t).Arguments.Size
	if _, err := w.door.Call(t.Context(), &tool.Call{Path: "shop.look", Arguments: json.RawMessage(filled),
		Principal: tool.Principal{ID: "local:ann"}}); err != nil {
		t.Fatalf("Call: %v", err)
	}
	if given := w.last(t).Arguments.Size; given != implied || given != int64(len(filled)) {
		t.Errorf("the record has %d bytes of arguments with a default that is filled in, %d with one that is given",
			implied, given)
	}
}

// TestRefusedCalls checks that calls which are invalid, denied or not recordable never reach the
// upstream.
func TestRefusedCalls(t *testing.T) {
	closed := audittest.NewMemory()
	if err := closed.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, c := range []struct {
		name   string
		policy *policy.Engine
		store  audit.Store
		path   string
		args   string
		kind   tool.Kind
		says   string
	}{
		{"unknown tool", open(), audittest.NewMemory(), "shop.get_ordr", `{"id":1}`, tool.NotFound, "get_order"},
		{"wrong argument", open(), audittest.NewMemory(), "shop.get-order", `{"id":"x"}`, tool.Invalid, "id"},
		{"no argument", open(), audittest.NewMemory(), "shop.get-order", ``, tool.Invalid, "id"},
		{"no rule", new(policy.Engine), audittest.NewMemory(), "shop.get-order", `{"id":1}`, tool.Denied, "no policy"},
		{"no record", open(), closed, "shop.get-order", `{"id":1}`, tool.Internal, "can't be recorded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.policy, c.store, ok)
			_, err := w.door.Call(t.Context(), &tool.Call{Path: c.path, Arguments: json.RawMessage(c.args)})
			if e := tool.AsError(err); e == nil || e.Kind != c.kind || !strings.Contains(e.Msg, c.says) || !e.Unsent {
				t.Errorf("error %+v, want kind %s that says %q, unsent", err, c.kind, c.says)
			}
			if len(w.calls) != 0 {
				t.Error("the upstream was called")
			}
		})
	}
}

// The record of a read-only call is written while it is made. If that fails, no agent receives its
// result.
func TestAnswersThatCanNotBeRecorded(t *testing.T) {
	for _, c := range []struct {
		path, parent string
		given        bool
	}{{"shop.look", "", false}, {"shop.look", "ex_1", true}, {"shop.get-order", "", true}} {
		store := audittest.NewMemory()
		w := newWorld(t, open(), store, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.Text(false, "fine"), store.Close()
		})
		r, err := w.door.Call(t.Context(), &tool.Call{Path: c.path,
			By: &tool.Program{Execution: c.parent}, Arguments: json.RawMessage(`{"id":1}`)})
		if c.given != (err == nil) || c.given != (r != nil) ||
			err != nil && !strings.Contains(err.Error(), "can't be recorded") {
			t.Errorf("c = %+v, r = %+v, err = %v", c, r, err)
		}
	}
}

func TestDenialIsRecorded(t *testing.T) {
	w := newWorld(t, new(policy.Engine), audittest.NewMemory(), ok)
	if _, err := w.door.Call(t.Context(),
		&tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`)}); err == nil {
		t.Fatal("allowed")
	}
	if rec := w.last(t); rec.Decision.Effect != "deny" || rec.End.ErrorKind != tool.Denied {
		t.Errorf("record %+v", rec)
	}
}

func TestFailuresOfTheUpstreamAreRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		answer tool.CallerFunc
		kind   tool.Kind
	}{
		"error": {func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, errors.New("lost")
		}, tool.Internal},
		"panic":   {func(context.Context, *tool.Call) (*tool.Result, error) { panic("oh") }, tool.Internal},
		"nothing": {func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }, tool.Internal},
		"timeout": {func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, context.DeadlineExceeded
		}, tool.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(), audittest.NewMemory(), c.answer)
			_, err := w.door.Call(t.Context(),
				&tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`)})
			if e := tool.AsError(err); e == nil || e.Kind != c.kind {
				t.Errorf("error %v, want kind %s", err, c.kind)
			}
			if rec := w.last(t); rec.End.Outcome != audit.Failed || rec.End.ErrorKind != c.kind {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

func TestCanceledCallsEndIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, open(), audittest.NewMemory(), func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		cancel()
		return nil, ctx.Err()
	})
	_, err := w.door.Call(ctx, &tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`)})
	if e := tool.AsError(err); e == nil || e.Kind != tool.Canceled {
		t.Errorf("error %v, want canceled", err)
	}
	if rec := w.last(t); rec.End.ErrorKind != tool.Canceled {
		t.Errorf("record %+v", rec)
	}
}

func TestDoorWithAPartMissingIsRefused(t *testing.T) {
	if g, err := gateway.New(gateway.Config{}); err == nil {
		t.Errorf("got %v", g)
	}
}

func TestToolsAreThoseThatPolicyAllows(t *testing.T) {
	if got := newWorld(t, open(), audittest.NewMemory(), ok).door.Tools(tool.Principal{}); len(got) != 2 {
		t.Errorf("open policy: %d tools, want 2", len(got))
	}
	if got := newWorld(t, new(policy.Engine), audittest.NewMemory(), ok).door.Tools(tool.Principal{}); len(got) != 0 {
		t.Errorf("no policy: %d tools, want none", len(got))
	}
}
