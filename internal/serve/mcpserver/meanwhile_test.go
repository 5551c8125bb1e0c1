package mcpserver_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

type answerForm func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)

// atClient connects a client whose user answers forms about requests.
func atClient(t *testing.T, d *door, requests approval.Requests, answer answerForm) *mcp.ClientSession {
	t.Helper()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	cfg := config(d, mcpserver.Code)
	cfg.Desk = form.New(form.Config{Requests: requests, Key: key, People: anyone{}})
	s := mcpserver.New(cfg)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := s.ServeStdio(t.Context(), inR, outW)
		outW.Close() // like the end of the process, this closes forms that are still open at the client
		served <- err
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "a", Version: "1"},
		&mcp.ClientOptions{ElicitationHandler: answer})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { session.Close(); <-served; s.Close() })
	return session
}

// waitingRequest returns a pending request of an execution, or of the client's own call if
// execution is empty.
func waitingRequest(execution string) *one {
	return &one{Request: approval.Request{ID: "apr_1", Execution: execution, Call: "1", Tool: "up.echo",
		Arguments: []byte(`{}`), Principal: "local:test",
		State: approval.Pending, Expires: time.Now().Add(time.Hour)}}
}

func executionIs(state, text string) (*tool.Result, error) {
	return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: text}},
		map[string]any{"biplane.dev/execution": map[string]any{"id": "ex_1", "state": state}}, false)
}

func accepted(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}, nil
}

// TestDecidedElsewhereMeanwhile checks that an answer given before someone else decided is not
// reused, whether they decide while the form is open or before it could be shown.
func TestDecidedElsewhereMeanwhile(t *testing.T) {
	for name, early := range map[string]bool{"while the form is open": false, "before it is shown": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := waitingRequest("ex_1")
			elsewhere := func() { requests.Decide(context.Background(), approval.Decider{}, "apr_1", true, "") }
			d := newDoor()
			d.handle("biplane.execute", func(context.Context, *tool.Call) (*tool.Result, error) {
				if early {
					elsewhere()
				}
				return executionIs("waiting", "it waits")
			})
			d.handle("biplane.resume", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				return executionIs("done", "it is done")
			})
			closed := make(chan struct{})
			session := atClient(t, d, requests,
				func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					elsewhere()
					<-ctx.Done()
					close(closed)
					return nil, context.Cause(ctx)
				})
			res, err := session.CallTool(t.Context(),
				&mcp.CallToolParams{Name: "execute", Arguments: map[string]any{"code": "1"}})
			if err != nil || res.Content[0].(*mcp.TextContent).Text != "it is done" {
				t.Errorf("res = %+v, err = %v, want err == nil && "+
					"res.Content[0].(*mcp.TextContent).Text == \"it is done\"", res, err)
			}
			if early {
				return // no form was shown
			}
			// The SDK sends the cancellation of a form in a separate goroutine, so it may arrive
			// after the answer.
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("the form is still open at the client, though another person has decided")
			}
		})
	}
}

// TestAskedOnceItWaits checks that a client that resumes a running program is asked as soon as the
// program waits.
func TestAskedOnceItWaits(t *testing.T) {
	t.Parallel()
	requests := waitingRequest("ex_1")
	requests.State = approval.Made
	d := newDoor()
	d.handle("biplane.resume", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		requests.mu.Lock()
		defer requests.mu.Unlock()
		switch {
		case !c.InPlace:
			return executionIs("waiting", "no question is pending")
		case requests.State == approval.Made:
			requests.State = approval.Pending
			return executionIs("waiting", "it waits")
		}
		return executionIs("done", "it is done")
	})
	session := atClient(t, d, requests, accepted)
	res, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "resume", Arguments: map[string]any{"execution": "ex_1"}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "it is done" {
		t.Errorf("res = %+v, err = %v, want err == nil && res.Content[0].(*mcp.TextContent).Text == "+
			"\"it is done\"", res, err)
	}
}

// A late is a request that someone else decides while the answer of the person at the client is
// being processed.
type late struct {
	*one
	answered chan struct{} // closed when there is an answer
	decided  chan struct{} // closed by the first Get after that
	released chan struct{} // closed when the call is no longer held
}

func (l *late) Get(ctx context.Context, id string) (*approval.Request, error) {
	select {
	case <-l.answered:
		l.mu.Lock()
		if l.State == approval.Pending {
			l.State = approval.Approved
			close(l.decided)
		}
		l.mu.Unlock()
		<-l.released
	default:
	}
	return l.one.Get(ctx, id)
}

// TestLeftTooLate checks that a call continues if a person leaves its form just after someone else
// has approved it.
func TestLeftTooLate(t *testing.T) {
	t.Parallel()
	requests := &late{waitingRequest(""), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	d := newDoor()
	d.handle("up.echo", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		c.Observe().OnHold(&tool.Hold{Request: "apr_1"})
		select {
		case <-requests.decided:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.Observe().OnHold(nil)
		close(requests.released)
		select {
		case <-ctx.Done():
			return nil, tool.Errorf(tool.Canceled, "canceled under way: %w", context.Cause(ctx))
		case <-time.After(300 * time.Millisecond):
			return tool.Text(false, "made"), nil
		}
	})
	session := atClient(t, d, requests, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(requests.answered)
		return &mcp.ElicitResult{Action: "decline"}, nil
	})
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "up_echo", Arguments: map[string]any{}})
	if err != nil || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "made") {
		t.Errorf("res = %+v, err = %v, want err == nil && "+
			"strings.Contains(res.Content[0].(*mcp.TextContent).Text, \"made\")", res, err)
	}
}
