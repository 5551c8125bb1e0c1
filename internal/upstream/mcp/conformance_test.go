//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// scenarios are the client scenarios of the MCP conformance suite that concern an upstream as it is now, with the revisions
// that they are run in. Those on answering a server's questions (sep-2322-client-request-state, elicitation-*) ask for what
// it declares not to have.
var scenarios = map[string][]string{
	"initialize":                       {"2025-11-25"},
	"tools_call":                       {"2025-11-25", "2026-07-28"},
	"sse-retry":                        {"2025-11-25"},
	"request-metadata":                 {"2026-07-28"},
	"http-standard-headers":            {"2026-07-28"},
	"http-custom-headers":              {"2026-07-28"},
	"http-invalid-tool-headers":        {"2026-07-28"},
	"json-schema-ref-no-deref":         {"2026-07-28"},
	"json-schema-2020-12-preservation": {"2026-07-28"},

	"auth/metadata-default":               {"2025-11-25", "2026-07-28"},
	"auth/metadata-var1":                  {"2025-11-25", "2026-07-28"},
	"auth/metadata-var2":                  {"2025-11-25", "2026-07-28"},
	"auth/metadata-var3":                  {"2025-11-25", "2026-07-28"},
	"auth/basic-cimd":                     {"2025-11-25", "2026-07-28"},
	"auth/scope-from-www-authenticate":    {"2025-11-25", "2026-07-28"},
	"auth/scope-from-scopes-supported":    {"2025-11-25", "2026-07-28"},
	"auth/scope-omitted-when-undefined":   {"2025-11-25", "2026-07-28"},
	"auth/scope-step-up":                  {"2025-11-25", "2026-07-28"},
	"auth/scope-retry-limit":              {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-basic":      {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-post":       {"2025-11-25", "2026-07-28"},
	"auth/token-endpoint-auth-none":       {"2025-11-25", "2026-07-28"},
	"auth/pre-registration":               {"2025-11-25", "2026-07-28"},
	"auth/resource-mismatch":              {"2026-07-28"},
	"auth/offline-access-scope":           {"2026-07-28"},
	"auth/offline-access-not-supported":   {"2026-07-28"},
	"auth/authorization-server-migration": {"2026-07-28"},
	"auth/iss-supported":                  {"2026-07-28"},
	"auth/iss-not-advertised":             {"2026-07-28"},
	"auth/iss-supported-missing":          {"2026-07-28"},
	"auth/iss-wrong-issuer":               {"2026-07-28"},
	"auth/iss-unexpected":                 {"2026-07-28"},
	"auth/iss-normalized":                 {"2026-07-28"},
	"auth/metadata-issuer-mismatch":       {"2026-07-28"},

	"auth/2025-03-26-oauth-metadata-backcompat": {"2025-03-26"},
	"auth/2025-03-26-oauth-endpoint-fallback":   {"2025-03-26"},

	"auth/client-credentials-basic":         {"2026-07-28"},
	"auth/client-credentials-jwt":           {"2026-07-28"},
	"auth/enterprise-managed-authorization": {"2026-07-28"},
	"auth/dpop":                             {"2026-07-28"},
	"auth/dpop-nonce":                       {"2026-07-28"},
	"auth/wif-jwt-bearer":                   {"2026-07-28"},
}

// TestConformance runs the scenarios. Those in testdata/conformance.yaml must fail, each with its reason there.
func TestConformance(t *testing.T) {
	node, suite := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	failing, err := filepath.Abs("testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for scenario, revisions := range scenarios {
		for _, revision := range revisions {
			t.Run(scenario+" "+revision, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", exe, "--scenario", scenario,
					"--spec-version", revision, "--force", "--verbose", "--expected-failures", failing)
				cmd.Dir = t.TempDir()
				cmd.Env = append(os.Environ(), peerMode+"=conformance", "GORACE="+quickExit)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "Test Results:") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// runConformanceClient is the client that the suite starts: an upstream that does what the scenario asks, and signs in where
// it must.
func runConformanceClient(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	changed := make(chan struct{}, 1)
	url := args[len(args)-1]
	cfg := mcp.Config{Name: "suite", URL: url, Type: "http", OnChange: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}}
	p, closeStore, err := newPerson(ctx, "biplane", url)
	if err != nil {
		return err
	}
	defer closeStore()
	cfg.Auth = p.client
	u, err := mcp.New(cfg)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- u.Run(running) }()
	defer func() { stop(); <-done }()
	ready := func() error {
		for s := u.Snapshot(); s.Health.State != tool.Ready; s = u.Snapshot() {
			if s.Health.State == tool.NeedsSignIn {
				if err := p.signIn(ctx); err != nil {
					return err
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return fmt.Errorf("not ready: %+v", s.Health)
			}
		}
		return nil
	}
	if err := ready(); err != nil {
		return err
	}
	for _, c := range conformanceCalls(u.Snapshot()) {
		res, err := u.Call(ctx, &tool.Call{Tool: &tool.Tool{Upstream: "suite", Name: c.Name}, Arguments: c.Arguments})
		for err != nil && strings.Contains(err.Error(), "biplane connect") {
			if err := p.signIn(ctx); err != nil {
				return err
			}
			if err := ready(); err != nil {
				return err
			}
			res, err = u.Call(ctx, &tool.Call{Tool: &tool.Tool{Upstream: "suite", Name: c.Name}, Arguments: c.Arguments})
		}
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

// conformanceCalls are the calls that the scenario asks for.
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
		case scenario == "sse-retry", strings.HasPrefix(scenario, "auth/"), len(given.Calls) == 0 && strings.HasPrefix(scenario, "http-"):
			args = `{}`
		}
		if args != "" {
			calls = append(calls, conformanceCall{t.Name, json.RawMessage(args)})
		}
	}
	return calls
}
