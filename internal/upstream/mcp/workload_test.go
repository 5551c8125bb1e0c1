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

	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// A restless server announces other tools after each list, or ends.
type restless struct {
	ends bool

	mu    sync.Mutex
	lists int
}

// LaunchServer implements mcp.Launcher.
func (r *restless) LaunchServer(context.Context) (mcp.Launched, error) {
	s := &restlessServer{restless: r, end: make(chan struct{})}
	s.in, s.stdin = io.Pipe()
	s.stdout, s.out = io.Pipe()
	s.stderr, s.log = io.Pipe()
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
		}
		if m.ID == nil {
			continue
		}
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
		if m.Method != "tools/list" {
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

func (s *restlessServer) DescribeEnd() (string, bool) { return "exited", false }

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
				if most := 24*60/(2*mcp.BusyShare) + 2; s.lists > most || s.lists < 5 {
					t.Errorf("got %d lists in a day, want 5 to %d", s.lists, most)
				}
			})
		})
	}
}
