package mcp_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// A logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count returns the number of lines that contain all the words.
func (l *logBuffer) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.b.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestFailingIsLoggedOnce checks that the reason why a server can't be reached is logged as a
// warning once, and doesn't vary. Closing the upstream is not such a reason.
func TestFailingIsLoggedOnce(t *testing.T) {
	var log logBuffer
	cfg := self(t, "raw:broken")
	cfg.Log = log.logger()
	r := start(t, mcp.Hasten(cfg))
	for deadline := time.Now().Add(2 * time.Minute); log.count("not connected") < 3; <-time.After(
		5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("log.String() = %s, want !time.Now().After(deadline)", log.String())
		}
	}
	r.Close(t)
	const reason = `exited with status 3; the last line on its standard error: \"Error: no configuration\"`
	all, warned := log.count("not connected"), log.count("level=WARN", "not connected")
	if warned != 1 || log.count("not connected", reason) != all {
		t.Errorf("%d warnings of %d:\n%s", warned, all, log.b.String())
	}
}

// TestEndedWhileConnecting checks that a server that never spoke MCP doesn't get an hour to exit,
// and that closing the upstream logs no warning.
func TestEndedWhileConnecting(t *testing.T) {
	var log logBuffer
	cfg := self(t, "raw:sleep")
	cfg.Log = log.logger()
	before := len(upstreamtest.ChildProcesses(t))
	r := start(t, mcp.Patient(cfg))
	for deadline := time.Now().Add(2 * time.Minute); len(upstreamtest.ChildProcesses(t)) == before; <-time.After(
		5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not started")
		}
	}
	r.Close(t)
	if log.count("not connected") != 0 || log.count("canceled") != 0 {
		t.Errorf("log.b.String() = %s, want log.count(\"not connected\") == 0 && "+
			"log.count(\"canceled\") == 0", log.b.String())
	}
}

// TestBabble checks that a program that writes without end and never speaks MCP is abandoned.
func TestBabble(t *testing.T) {
	for mode, first := range map[string]string{"babble": `"usage: peer [-x] file"`, "drone": `"......`} {
		t.Run(mode, func(t *testing.T) {
			r := raw(t, mode)
			s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
			if want := "it writes text other than MCP on its standard output: " +
				first; !strings.HasPrefix(s.Health.Reason, want) {
				t.Errorf("reason %q, want %q", s.Health.Reason, want)
			}
		})
	}
}
