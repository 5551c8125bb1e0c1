package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestSuccessor attaches to an owner that has ended by the time of the first request.
func TestSuccessor(t *testing.T) {
	cfg := daemon.Config{DataDir: t.TempDir(), Version: "test"}
	first, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	second, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	x, err := second.Client.Run(t.Context(), api.RunRequest{Code: "1+1"})
	if err != nil || string(x.Value) != "2" {
		t.Fatalf("Run = %+v, %v, want the value 2", x, err)
	}
}

// TestChangedConfiguration attaches to an owner that read the configuration file before it changed.
func TestChangedConfiguration(t *testing.T) {
	dir := t.TempDir()
	attach := func(text string) *daemon.Attachment {
		settings, err := parse("biplane.yaml", text)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		a, err := daemon.Attach(t.Context(), daemon.Config{Settings: settings, DataDir: dir, Version: "test"})
		if err != nil {
			t.Fatalf("Attach: %v", err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	attach("policy: open\n")
	if a := attach("policy: open\n"); a.Notice != "" {
		t.Errorf("Notice = %q, want none for an unchanged file", a.Notice)
	}
	a := attach("policy: open\nmode: code\n")
	if !strings.Contains(a.Notice, "biplane.yaml has changed since process") {
		t.Errorf("Notice = %q, want that the file has changed", a.Notice)
	}
}

// TestSuccessors runs programs from processes that come and go: each runs exactly once.
func TestSuccessors(t *testing.T) {
	cfg := daemon.Config{DataDir: t.TempDir(), Version: "test"}
	const clients, rounds = 4, 6
	run := func(code string) error {
		at, err := daemon.Attach(t.Context(), cfg)
		if err != nil {
			return fmt.Errorf("Attach: %w", err)
		}
		x, err := at.Client.Run(t.Context(), api.RunRequest{Code: code})
		at.Settle(t.Context(), func(int) {})
		if cerr := at.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("Run: %w", err)
		}
		if string(x.Value) != code {
			return fmt.Errorf("value = %s, want %s", x.Value, code)
		}
		return nil
	}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for r := range rounds {
				if err := run(fmt.Sprint(100*c + r)); err != nil {
					t.Errorf("client %d, round %d: %v", c, r, err)
				}
			}
		})
	}
	all.Wait()
	checkExecutions(t, cfg, clients*rounds)
}

// checkExecutions checks how many executions a data folder has.
func checkExecutions(t *testing.T, cfg daemon.Config, want int) {
	t.Helper()
	at, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer at.Close()
	page, err := at.Client.Executions(t.Context(), api.ExecutionFilter{Limit: 100})
	if err != nil || len(page.Executions) != want {
		t.Fatalf("Executions = %+v, %v, want %d", page, err, want)
	}
}

// An agentPipe is an agent's side of ServeMCP.
type agentPipe struct {
	in   *io.PipeWriter
	out  *bufio.Reader
	over chan error // the error that ServeMCP returned
	next int
}

// startAgent starts ServeMCP for an agent, and shakes hands with it.
func startAgent(ctx context.Context, cfg daemon.Config) (*agentPipe, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a := &agentPipe{in: inW, out: bufio.NewReader(outR), over: make(chan error, 1)}
	go func() {
		err := daemon.ServeMCP(ctx, cfg, inR, outW)
		outW.CloseWithError(errors.Join(errors.New("ServeMCP has returned"), err))
		a.over <- err
	}()
	_, err := a.request("initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}`)
	if err == nil {
		_, err = io.WriteString(a.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	return a, err
}

// request returns the answer to a request.
func (a *agentPipe) request(method, params string) (string, error) {
	a.next++
	if _, err := fmt.Fprintf(a.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", a.next, method,
		params); err != nil {
		return "", err
	}
	for {
		text, err := a.out.ReadString('\n')
		var m struct{ ID int }
		if err != nil || json.Unmarshal([]byte(text), &m) == nil && m.ID == a.next {
			return text, err
		}
	}
}

// TestSuccessorsOfAgents runs programs for agents that come and go. Each time that the owner of the
// data folder ends, another agent's process replaces it. Each program runs exactly once.
func TestSuccessorsOfAgents(t *testing.T) {
	settings, err := parse("biplane.yaml", "policy: open\n")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	cfg := daemon.Config{Settings: settings, DataDir: t.TempDir(), Version: "test"}
	const agents, rounds = 5, 4
	run := func(value string) error {
		a, err := startAgent(t.Context(), cfg)
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		answer, err := a.request("tools/call", `{"name":"execute","arguments":{"code":"`+value+`"}}`)
		a.in.Close()
		return errors.Join(err, checkValue(answer, value), <-a.over)
	}
	var all sync.WaitGroup
	for c := range agents {
		all.Go(func() {
			for r := range rounds {
				if err := run(fmt.Sprint(1000 + 100*c + r)); err != nil {
					t.Errorf("agent %d, round %d: %v", c, r, err)
				}
			}
		})
	}
	all.Wait()
	checkExecutions(t, cfg, agents*rounds)
}

// checkValue checks the answer to a program whose value is value.
func checkValue(answer, value string) error {
	if strings.Contains(answer, `"isError":true`) || strings.Contains(answer, `"error"`) ||
		!strings.Contains(answer, value) {
		return fmt.Errorf("answer = %s, want the value %s", answer, value)
	}
	return nil
}
