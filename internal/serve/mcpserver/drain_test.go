package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// draining runs Drain while a call of up.echo is under way with each kind of client, and returns
// their answers. handle is the tool's behavior after the call has started; during runs as soon as
// new calls are refused.
func draining(t *testing.T, ctx context.Context, handle tool.CallerFunc,
	during func(*httpPeer, *stdioPeer)) map[string]string {
	t.Helper()
	d := newDoor()
	started := make(chan struct{}, 3)
	d.handle("up.echo", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		started <- struct{}{}
		return handle(ctx, c)
	})
	s := mcpserver.New(config(d, mcpserver.Code))
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	legacy, modern := dial(t, srv.URL, "2025-11-25"), dial(t, srv.URL, "2026-07-28")
	other := dial(t, srv.URL, "2026-07-28")
	stdio := startStdio(t, s, "2025-11-25")
	listen := other.post(t, request(9, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`,
		other.version), nil)
	defer listen.Body.Close()

	type answer struct{ name, text string }
	answers := make(chan answer, 3)
	for name, p := range map[string]*httpPeer{"legacy": legacy, "modern": modern} {
		go func() {
			text, _ := p.call(t, "tools/call", `{"name":"up_echo"}`)
			answers <- answer{name, text}
		}()
	}
	stdio.write(t, request(77, "tools/call", `{"name":"up_echo"}`, stdio.version))
	for range 3 {
		<-started
	}
	drained := make(chan struct{})
	go func() { s.Drain(ctx, func() {}); close(drained) }()
	eventually(t, "requests are refused", func() bool {
		res := other.post(t, request(1, "tools/list", "", other.version), nil)
		body := drain(t, res)
		return res.StatusCode == 503 && strings.Contains(body, `"id":1`) &&
			strings.Contains(body, "biplane is stopping")
	})
	during(other, stdio)
	got := map[string]string{"stdio": stdio.read(t)}
	for range 2 {
		a := <-answers
		got[a.name] = a.text
	}
	<-drained
	s.Close()
	if err := <-stdio.done; err != nil {
		t.Errorf("stdio: %v", err)
	}
	return got
}

// TestDrain checks that calls that end in time are answered normally, while no new ones are
// accepted.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	got := draining(t, t.Context(), func(context.Context, *tool.Call) (*tool.Result, error) {
		<-release
		return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: "in time"}}, nil, false)
	}, func(other *httpPeer, stdio *stdioPeer) {
		res := other.post(t, request(5, "tools/call", `{"name":"up_echo"}`, other.version), nil)
		if body := drain(t, res); res.StatusCode != 503 || !strings.Contains(body, `"id":5`) {
			t.Errorf("a new call: %s %s", res.Status, body)
		}
		stdio.write(t, request(78, "tools/call", `{"name":"up_echo"}`, stdio.version))
		if text := stdio.read(t); !strings.Contains(text, `"id":78`) || !strings.Contains(text, `"error"`) ||
			!strings.Contains(text, "biplane is stopping") {
			t.Errorf("a new call over stdio: %s", text)
		}
		close(release)
	})
	for name, text := range got {
		if !strings.Contains(text, "in time") {
			t.Errorf(`%s, text = %s, want strings.Contains(text, "in time")`, name, text)
		}
	}
}

// TestDrainIsBounded checks that calls that don't end are canceled, and that the answers say why.
func TestDrainIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := draining(t, ctx, func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, func(*httpPeer, *stdioPeer) { cancel() })
	for name, text := range got {
		if !strings.Contains(text, `"isError":true`) ||
			!strings.Contains(text, "biplane is stopping: the call was canceled") {
			t.Errorf("%s, text = %s", name, text)
		}
	}
}

// TestDrainOfRelayedConnection stops the server while a relay has a call under way. That call is
// answered if it ends in time. Later calls are left to the next process, and the last message tells
// the relay which they are.
func TestDrainOfRelayedConnection(t *testing.T) {
	for name, c := range map[string]struct {
		ends bool // the call ends in time
		want string
	}{
		"ended":     {true, `{"read":6,"left":[5]}`},
		"not ended": {false, `{"read":3,"left":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoor()
			started, release := make(chan struct{}), make(chan struct{})
			d.handle("up.echo", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				close(started)
				select {
				case <-release:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return tool.Text(false, "in time"), nil
			})
			s := mcpserver.New(config(d, mcpserver.Code))
			srv := httptest.NewServer(s.Handler())
			defer srv.Close()
			other := dial(t, srv.URL, "2026-07-28")
			p := continueStdio(t, s, "2025-11-25", mcpserver.Conversation{Relayed: true})
			p.write(t, request(77, "tools/call", `{"name":"up_echo"}`, p.version))
			<-started
			drained := make(chan struct{})
			if c.ends {
				go func() { s.Drain(t.Context(), func() {}); close(drained) }()
				eventually(t, "the server stops", func() bool {
					res := other.post(t, request(1, "tools/list", "", other.version), nil)
					drain(t, res)
					return res.StatusCode == 503
				})
				ping := func(id int) {
					p.write(t, request(id, "ping", "", p.version))
					if text := p.read(t); !strings.Contains(text, fmt.Sprintf(`"id":%d`, id)) ||
						!strings.Contains(text, `"result"`) {
						t.Errorf("a request that calls no tool: %s", text)
					}
				}
				ping(79)
				p.write(t, request(78, "tools/call", `{"name":"up_echo"}`, p.version))
				ping(80) // the call was read before
				close(release)
				if text := p.read(t); !strings.Contains(text, `"id":77`) || !strings.Contains(text, "in time") {
					t.Errorf("the call under way: %s", text)
				}
				<-drained
			}
			go s.Close()
			text := p.read(t)
			if !c.ends && strings.Contains(text, `"id":77`) { // the canceled call may still be answered
				if !strings.Contains(text, "unknown whether it took effect") {
					t.Errorf("the canceled call: %s", text)
				}
				text = p.read(t)
			}
			if got := string(fieldOf(t, text, "params")); got != c.want ||
				string(fieldOf(t, text, "method")) != `"`+api.StdioEnd+`"` {
				t.Errorf("the last message = %s, want %s with %s", text, api.StdioEnd, c.want)
			}
			if err := <-p.done; err != nil && c.ends {
				t.Errorf("Continue: %v", err)
			}
		})
	}
}

// TestDrainOfRelayedTask stops the server while a task of a relayed connection is under way: its
// client can still cancel it, and read the result of one that ends in time. No other process has
// them.
func TestDrainOfRelayedTask(t *testing.T) {
	for _, method := range []string{"tasks/result", "tasks/get", "tasks/cancel"} {
		t.Run(method, func(t *testing.T) {
			d, hold := taskDoor()
			release := sync.OnceFunc(func() { close(hold) })
			defer release()
			s := mcpserver.New(config(d, mcpserver.Direct))
			srv := httptest.NewServer(s.Handler())
			defer srv.Close()
			other := dial(t, srv.URL, "2026-07-28")
			p := continueStdio(t, s, "2025-11-25", mcpserver.Conversation{Relayed: true})
			id := newTask(t, p, taskCall)
			ctx, cancel := context.WithCancel(t.Context())
			drained := make(chan struct{})
			go func() { s.Drain(ctx, func() {}); close(drained) }()
			eventually(t, "the server stops", func() bool {
				res := other.post(t, request(1, "tools/list", "", other.version), nil)
				drain(t, res)
				return res.StatusCode == 503
			})
			p.write(t, request(80, method, `{"taskId":"`+id+`"}`, p.version))
			if method == "tasks/result" {
				release()
			}
			for text := ""; !strings.Contains(text, `"id":80`); {
				text = p.read(t)
			}
			go io.Copy(io.Discard, p.out)
			cancel()
			<-drained
			s.Close()
		})
	}
}
