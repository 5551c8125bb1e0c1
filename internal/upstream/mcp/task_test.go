//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// A taskCaller is the observer of a call whose client answers questions.
type taskCaller struct {
	tool.NoObserver
	began  chan struct{} // receives a value for each task
	reason *string       // the last progress message
	mute   bool          // the client can't be asked
}

func (c *taskCaller) OnTask()             { c.began <- struct{}{} }
func (c *taskCaller) WantsProgress() bool { return true }

func (c *taskCaller) OnProgress(_ context.Context, p tool.Progress) { *c.reason = p.Message }

func (c *taskCaller) ListCapabilities() json.RawMessage {
	if c.mute {
		return nil
	}
	return json.RawMessage(`{"elicitation":{"form":{}}}`)
}

func (c *taskCaller) OnQuestions(_ context.Context, asked map[string]tool.Question) (
	map[string]json.RawMessage, error) {
	answers := map[string]json.RawMessage{}
	for key := range asked {
		answers[key] = json.RawMessage(`{"action":"accept","content":{"confirm":"yes"}}`)
	}
	return answers, nil
}

// taskUpstream returns an upstream with tasks that is ready.
func taskUpstream(t *testing.T, revision string) (*peertest.TaskServer, upstream.Upstream) {
	t.Helper()
	srv := peertest.NewTaskServer(t, revision)
	ready := make(chan struct{}, 1)
	u, err := mcp.New(mcp.Config{Name: "jobs", URL: srv.URL, Type: "http", Questions: true,
		MaxTime: 2 * time.Second, Timeout: 2 * time.Second, OnChange: func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		t.Fatalf("mcp.New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for u.Snapshot().Health.State != tool.Ready {
		select {
		case <-ready:
		case <-t.Context().Done():
			t.Fatalf("not ready: %+v", u.Snapshot().Health)
		}
	}
	return srv, u
}

// callTask calls a tool.
func callTask(ctx context.Context, t *testing.T, u upstream.Upstream, o tool.Observer,
	name, args string) (string, error) {
	t.Helper()
	for _, x := range u.Snapshot().Tools {
		if x.Name == name {
			res, err := u.Call(ctx, &tool.Call{Tool: x, Arguments: json.RawMessage(args), Observer: o})
			if err != nil {
				return "", err
			}
			return string(res.Raw), nil
		}
	}
	t.Fatalf("no tool %s", name)
	return "", nil
}

// TestTasks checks that the tasks of servers of both revisions are awaited.
func TestTasks(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			_, u := taskUpstream(t, revision)
			for _, c := range []struct {
				tool, want string
				isTask     bool
			}{
				{"greet", "Hello, ann!", false},
				{"job", `"text":"done"`, true},
				{"failing_job", `"isError":true`, true},
				{"protocol_error_job", "jobs.protocol_error_job failed: the job broke", true},
				{"confirm_delete", `confirm`, true},
				{"multi_input", `q2={`, true},
				{"changes_id", "answered tasks/get with another task", true},
				{"odd_status", `unknown status "levitating"`, true},
			} {
				reason := ""
				o := &taskCaller{began: make(chan struct{}, 9), reason: &reason}
				got, err := callTask(t.Context(), t, u, o, c.tool, `{"name":"ann","seconds":0.1}`)
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, c.want) || len(o.began) > 0 != c.isTask {
					t.Errorf("%s: got %s, %d tasks, want %s, a task: %t", c.tool, got, len(o.began), c.want, c.isTask)
				}
				if strings.Contains(reason, "\x1b") || c.tool == "job" && !strings.Contains(reason, "one") {
					t.Errorf("%s: progress message %q, want one without escape sequences", c.tool, reason)
				}
			}
		})
	}
}

// TestEndlessTasks checks that a task that never ends is canceled: when its time is over, when the
// caller leaves, and when it asks without end or asks who can't answer.
func TestEndlessTasks(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			srv, u := taskUpstream(t, revision)
			canceled := 0
			check := func(what string, err error, want tool.Kind, text string) {
				t.Helper()
				if e := tool.AsError(err); err == nil || e.Kind != want || !strings.Contains(e.Msg, text) {
					t.Errorf("%s: err = %v, want %s %q", what, err, want, text)
				}
				canceled++
				until := time.Now().Add(time.Minute)
				for ; srv.CountRequests("tasks/cancel") < canceled; time.Sleep(time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("%s: the task was not canceled", what)
					}
				}
			}
			reason := ""
			o := &taskCaller{began: make(chan struct{}, 9), reason: &reason}
			_, err := callTask(t.Context(), t, u, o, "never_ends", `{}`)
			check("too long", err, tool.Timeout, "its task did not end within 2s")
			if n := srv.CountRequests("tasks/get"); n > 25 {
				t.Errorf("%d polls in 2 s, want at most 25, though the server asks for one per millisecond", n)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-o.began; <-o.began; cancel() }() // the first value is from the call above
			_, err = callTask(ctx, t, u, o, "never_ends", `{}`)
			check("caller leaves", err, tool.Canceled, "")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v, want it canceled", err)
			}
			if revision < "2026-07-28" {
				return // such a server asks during the request for the result
			}
			_, err = callTask(t.Context(), t, u, o, "asks_forever", `{}`)
			check("asks forever", err, tool.Unavailable, "asked more than 10 times")
			_, err = callTask(t.Context(), t, u, &taskCaller{began: o.began, reason: &reason, mute: true},
				"confirm_delete", `{}`)
			check("no one to ask", err, tool.Conflict, "asks for input (elicitation/create: Really?)")
		})
	}
}
