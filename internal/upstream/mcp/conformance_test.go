//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// TestConformance runs the client scenarios of the MCP conformance suite that concern an upstream.
// Those on authorization (auth/*) are run by package oauth. Those on answering a server's questions
// (sep-2322-client-request-state, elicitation-*) need capabilities that it doesn't declare.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	node, suite := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	for _, c := range []struct{ scenario, revision string }{
		{"initialize", "2025-11-25"},
		{"tools_call", "2025-11-25"},
		{"tools_call", "2026-07-28"},
		{"sse-retry", "2025-11-25"},
		{"request-metadata", "2026-07-28"},
		{"http-standard-headers", "2026-07-28"},
		{"http-custom-headers", "2026-07-28"},
		{"http-invalid-tool-headers", "2026-07-28"},
		{"json-schema-ref-no-deref", "2026-07-28"},
		{"json-schema-2020-12-preservation", "2026-07-28"},
	} {
		t.Run(c.scenario+" "+c.revision, func(t *testing.T) {
			attempts := 1
			if c.scenario == "sse-retry" { // the suite measures how late a reconnection is
				attempts = 5
			}
			var out []byte
			for range attempts {
				cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", exe,
					"--scenario", c.scenario, "--spec-version", c.revision, "--verbose")
				cmd.Dir = t.TempDir()
				cmd.Env = append(os.Environ(), peerMode+"=conformance", "GORACE="+quickExit)
				if out, err = cmd.CombinedOutput(); err == nil {
					return
				}
			}
			t.Errorf("the suite failed: %v\n%s", err, out)
		})
	}
}

// runConformanceClient is the client that the suite starts: an upstream that does what the scenario
// requires.
func runConformanceClient(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	changed := make(chan struct{}, 1)
	u, err := mcp.New(mcp.Config{Name: "suite", URL: args[len(args)-1], Type: "http", OnChange: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- u.Run(running) }()
	defer func() { stop(); <-done }()
	var s upstream.Snapshot
	for s = u.Snapshot(); s.Health.State != tool.Ready; s = u.Snapshot() {
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %+v", s.Health)
		}
	}
	for _, c := range conformanceCalls(s) {
		res, err := u.Call(ctx, &tool.Call{Tool: &tool.Tool{Upstream: "suite", Name: c.Name}, Arguments: c.Arguments})
		if err != nil {
			return err
		}
		fmt.Println(c.Name, string(res.Raw))
	}
	return nil
}

type conformanceCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// conformanceCalls returns the calls that the scenario requires.
func conformanceCalls(s upstream.Snapshot) (calls []conformanceCall) {
	var given struct {
		Calls []conformanceCall `json:"toolCalls"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given)
	for _, c := range given.Calls {
		for _, t := range s.Tools {
			if t.Name == c.Name {
				calls = append(calls, c)
			}
		}
	}
	for _, t := range s.Tools {
		args := ""
		switch scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); {
		case t.Name == "add_numbers":
			args = `{"a":5,"b":3}`
		case t.Name == "json_schema_echo":
			for _, focal := range s.Tools {
				if focal.Name == "json_schema_2020_12_tool" {
					args = `{"schema":` + string(focal.InputSchema) + `}`
				}
			}
		case scenario == "sse-retry", len(given.Calls) == 0 && strings.HasPrefix(scenario, "http-"):
			args = `{}`
		}
		if args != "" {
			calls = append(calls, conformanceCall{t.Name, json.RawMessage(args)})
		}
	}
	return calls
}
