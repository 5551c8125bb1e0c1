package mcpserver_test

//lint:file-ignore SA1019 the suite's tools still ask for samples

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// provesImpossible checks the reasons in testdata/conformance why scenarios fail with upstreams of
// another revision: a client that speaks the upstream's revision, without Biplane, doesn't get what
// the scenarios want either.
func provesImpossible(t *testing.T, server string) {
	var asked []string
	answer := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			raw, err := json.Marshal(r.Params)
			asked = append(asked, string(raw))
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann", "username": "ann"}}, err
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "user", Content: &mcp.TextContent{Text: "a sample"}}, nil
		},
	}
	connect := func(revision string) *mcp.ClientSession {
		t.Helper()
		c := mcp.NewClient(&mcp.Implementation{Name: "direct", Version: "1"}, answer)
		s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(server)},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	modern, early := connect("2026-07-28"), connect("2025-11-25")
	call := func(s *mcp.ClientSession, p *mcp.CallToolParams) (string, bool) {
		t.Helper()
		res, err := s.CallTool(t.Context(), p)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		raw, err := json.Marshal(res)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		return string(raw), res.IsError
	}
	for tool, args := range map[string]string{"test_sampling": `{"prompt":"x"}`, "test_elicitation": `{"message":"x"}`,
		"test_elicitation_sep1034_defaults": `{}`, "test_elicitation_sep1330_enums": `{}`} {
		got, failed := call(modern, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if !failed || !strings.Contains(got, "cannot be sent while serving a request on protocol version 2026-07-28") {
			t.Errorf("%s in 2026-07-28: got %s, want the SDK's refusal", tool, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("in 2026-07-28 the server asked %q, want nothing", asked)
	}
	if got, _ := call(early, &mcp.CallToolParams{Name: "test_input_required_result_elicitation"}); len(asked) != 1 ||
		strings.Contains(asked[0], "user_name") {
		t.Errorf("in 2025-11-25: asked %q, got %s, want one question without its key", asked, got)
	}
}

// isNotRequired checks that the suite doesn't run the scenarios that fail between two revisions
// against a server of the upstream's revision.
func isNotRequired(t *testing.T) {
	for _, c := range []struct{ client, upstream string }{{"2025-11-25", "2026-07-28"}, {"2026-07-28", "2025-11-25"}} {
		raw, err := os.ReadFile(filepath.Join("testdata", "conformance", c.client+"-"+c.upstream+".yaml"))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		n := 0
		for line := range strings.Lines(string(raw)) {
			entry, why, _ := strings.Cut(line, " # ")
			scenario, ok := strings.CutPrefix(strings.TrimSpace(entry), "- ")
			if !ok || strings.HasPrefix(why, "pending in the suite itself") {
				continue
			}
			n++
			// It is skipped before the server is contacted.
			out, err := suite(t, "http://127.0.0.1:1/mcp", os.DevNull, "--scenario", scenario, "--spec-version",
				c.upstream)
			want := "SKIPPED: scenario '" + scenario + "' is not applicable at spec version " + c.upstream
			if !strings.Contains(out, want) {
				t.Errorf("%s with %s: got %s, %v, want it to be skipped", scenario, c.upstream, out, err)
			}
		}
		if n == 0 {
			t.Errorf("%s before %s: no scenario fails, want some", c.client, c.upstream)
		}
	}
}
