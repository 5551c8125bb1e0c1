//go:build unix

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// A restless server announces other tools after each list, or ends.
type restless struct {
	ends bool
	// rests has it announce nothing, and end when its input does, only to free memory.
	rests bool

	mu    sync.Mutex
	lists int
	last  *restlessServer
}

// LaunchServer implements mcp.Launcher.
func (r *restless) LaunchServer(context.Context) (mcp.Launched, error) {
	s := &restlessServer{restless: r, end: make(chan struct{})}
	s.in, s.stdin = io.Pipe()
	s.stdout, s.out = io.Pipe()
	s.stderr, s.log = io.Pipe()
	r.mu.Lock()
	r.last = s
	r.mu.Unlock()
	go s.serve()
	return s, nil
}

// A restlessServer is a running server.
type restlessServer struct {
	*restless
	in, stdout, stderr *io.PipeReader
	stdin, out, log    *io.PipeWriter
	end                chan struct{}
}

// serve answers requests until the input ends.
func (s *restlessServer) serve() {
	defer close(s.end)
	defer s.log.Close()
	defer s.out.Close()
	for lines := bufio.NewScanner(s.in); lines.Scan(); {
		var m rawMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return
		}
		answer := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"restless","version":"1"},` +
				`"capabilities":{"tools":{"listChanged":true}}}`
		case "tools/list":
			s.mu.Lock()
			s.lists++
			answer = fmt.Sprintf(`"result":{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}]}`, s.lists)
			s.mu.Unlock()
		case "tools/call":
			answer = `"result":{"content":[{"type":"text","text":"called"}]}`
		}
		if m.ID == nil {
			continue
		}
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
		if m.Method != "tools/list" || s.rests {
			continue
		}
		if s.ends {
			return
		}
		fmt.Fprintln(s.out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
}

func (s *restlessServer) OpenStreams() (stdin io.WriteCloser, stdout, stderr io.ReadCloser) {
	return s.stdin, s.stdout, s.stderr
}

func (s *restlessServer) UseServer(context.Context) (func(), error) { return func() {}, nil }

func (s *restlessServer) EndSignal() <-chan struct{} { return s.end }

func (s *restlessServer) DescribeEnd() (string, bool) { return "exited", s.rests }

func (s *restlessServer) StopServer(time.Duration) { s.in.Close() }

// TestListsArePaced checks that lists occupy a bounded share of a processor, whether a server
// announces changes all the time or ends after each list. A list, and the use of one, cost a minute
// here.
func TestListsArePaced(t *testing.T) {
	for name, ends := range map[string]bool{"announces": false, "ends": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &restless{ends: ends}
				cfg := mcp.Config{Name: "restless", Command: "restless", Launcher: s}
				u, err := mcp.New(mcp.Costly(cfg, time.Minute))
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- u.Run(ctx) }()
				time.Sleep(24 * time.Hour)
				stop()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				// Each costs at least two minutes: one for the list, and one for its use.
				if most := 24*60/(2*mcp.BusyFactor) + 2; s.lists > most || s.lists < 5 {
					t.Errorf("got %d lists in a day, want 5 to %d", s.lists, most)
				}
			})
		})
	}
}

// TestRestingServer checks that a server which was ended to free memory starts again with the next
// call, which it answers, and not before.
func TestRestingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &restless{rests: true}
		u, err := mcp.New(mcp.Config{Name: "restless", Command: "restless", Launcher: s})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- u.Run(ctx) }()
		for round := range 3 {
			res, err := u.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Upstream: "restless", Name: "t1"}})
			if err != nil || res.IsError {
				t.Fatalf("call %d: %+v, %v", round, res, err)
			}
			s.mu.Lock()
			s.last.in.Close() // memory is scarce
			s.mu.Unlock()
			time.Sleep(24 * time.Hour)
			s.mu.Lock()
			starts := s.lists
			s.mu.Unlock()
			if starts != round+1 {
				t.Errorf("a day after call %d, the server was started %d times, want %d", round, starts, round+1)
			}
			if h := u.Snapshot().Health; h.State != tool.Ready || h.Stale {
				t.Errorf("the server at rest is %+v, want it ready", h)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
