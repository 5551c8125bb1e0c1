package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// one is a store with a single approval request.
type one struct {
	mu sync.Mutex
	approval.Request
}

func (o *one) List(_ context.Context, q approval.Query) ([]approval.Request, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.State != approval.Pending || q.Execution != o.Execution {
		return nil, nil
	}
	return []approval.Request{o.Request}, nil
}

func (o *one) Get(context.Context, string) (*approval.Request, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.Request
	return &r, nil
}

// anyone are People who may all decide.
type anyone struct{}

func (anyone) IdentifyDecider(p tool.Principal) (approval.Decider, bool) {
	return approval.Decider{Principal: p}, true
}

func (anyone) LocateRequest(id string) string { return "biplane approvals show " + id }

func (anyone) RecordRefusal(context.Context, form.Call, error) {}

func (o *one) May(approval.Decider, *approval.Request) error { return nil }

func (o *one) Decide(_ context.Context, _ approval.Decider, _ string, approve bool, _ string) (*approval.Request,
	error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.State = approval.Approved
	r := o.Request
	return &r, nil
}

// TestAnswersInTime checks that a client without progress is answered before it times out: the form
// is closed, or waiting for the program after a decision ends.
func TestAnswersInTime(t *testing.T) {
	for name, c := range map[string]struct {
		answer bool
		want   string
	}{"nobody answers": {false, "it waits"},
		"the program takes long after it": {true, "The program goes on. Call resume with"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { answeredInTime(t, c.answer, c.want) })
		})
	}
}

func answeredInTime(t *testing.T, answer bool, want string) {
	requests := &one{Request: approval.Request{ID: "apr_1", Execution: "ex_1", Call: "ex_1.1", Tool: "up.echo",
		Arguments: []byte(`{}`), State: approval.Pending, Expires: time.Now().Add(time.Hour)}}
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	d := newDoor()
	d.handle("biplane.execute", func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: "it waits"}},
			map[string]any{"biplane.dev/execution": map[string]any{"id": "ex_1", "state": "waiting"}}, false)
	})
	d.handle("biplane.resume", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if string(c.Arguments) != `{"execution":"ex_1"}` || !c.InPlace {
			return nil, fmt.Errorf("resumed by %s", c.Arguments)
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	cfg := config(d, mcpserver.Code)
	requests.Principal = cfg.Local.ID
	cfg.Desk = form.New(form.Config{Requests: requests, Key: key, People: anyone{}})
	s := mcpserver.New(cfg)
	defer s.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(t.Context(), inR, outW) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "a", Version: "1"},
		&mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult,
			error) {
			if !answer {
				<-ctx.Done()
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}, nil
		}})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	res, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "execute", Arguments: map[string]any{"code": "1"}})
	if err != nil || !strings.HasPrefix(res.Content[0].(*mcp.TextContent).Text, want) {
		t.Errorf("res = %+v, err = %v, want err == nil && "+
			"strings.HasPrefix(res.Content[0].(*mcp.TextContent).Text, want)", res, err)
	}
	session.Close()
	<-served
}
