package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/mcpserver"
	"github.com/biplane-dev/biplane/internal/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// everythingServer builds the server that the Go SDK has for the conformance suite.
func everythingServer(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "everything-server")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		t.Fatalf("build the everything-server: %v\n%s", err, out)
	}
	return bin
}

// behind gives a Server in mode direct, names unprefixed, in front of an upstream that runs until the test ends.
func behind(t testing.TB, cfg mcp.Config) *mcpserver.Server {
	t.Helper()
	var s *mcpserver.Server
	ready := make(chan struct{})
	cfg.OnChange = func() {
		<-ready
		s.ToolsChanged()
	}
	up, err := mcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) *tool.Tool {
		for _, x := range up.Snapshot().Tools {
			if x.Path() == name || x.Name == name || x.Upstream+"_"+x.Name == name {
				return x
			}
		}
		return nil
	}
	s = mcpserver.New(mcpserver.Config{
		Mode: mcpserver.Direct, Unprefixed: true, Version: "1.2.3",
		Tools: func(context.Context, tool.Principal) (out []mcpserver.Listed) {
			for _, x := range up.Snapshot().Tools {
				out = append(out, mcpserver.Listed{Name: x.Upstream + "_" + x.Name, Tool: x})
			}
			return out
		},
		Lookup: func(_ context.Context, _ tool.Principal, name string) *tool.Tool { return find(name) },
		Door: tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			next := *c
			if next.Tool = find(c.Path); next.Tool == nil {
				return nil, tool.Errorf(tool.NotFound, "no tool %q", c.Path)
			}
			return up.Call(ctx, &next)
		}),
	})
	close(ready)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { up.Run(ctx); close(done) }()
	t.Cleanup(func() { s.Close(); cancel(); <-done })
	for deadline := time.Now().Add(20 * time.Second); up.Snapshot().Health.State != tool.Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the upstream is %+v", up.Snapshot())
		}
	}
	return s
}

// suite runs the MCP conformance suite against url and gives what it prints; err says that it failed.
func suite(t *testing.T, url, expected string, args ...string) (string, error) {
	t.Helper()
	node, index := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
	dir := t.TempDir()
	if keep := os.Getenv("BIPLANE_CONFORMANCE_RESULTS"); keep != "" {
		dir = filepath.Join(keep, t.Name())
	}
	args = append([]string{index, "server", "--url", url, "--expected-failures", expected, "--output-dir", dir}, args...)
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte("SUMMARY")) {
		err = errors.New("the suite ran nothing")
	}
	return string(out), err
}

// TestConformance runs the MCP conformance suite's scenarios for servers, in both eras. What may fail is in
// testdata/conformance, with the reason; the suite fails for what is not there and fails, and for what is there and passes.
// BIPLANE_CONFORMANCE_RESULTS names a folder to keep the suite's own results in.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	peertest.Node(t)
	s := behind(t, mcp.Config{Name: "everything", Command: everythingServer(t)})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			expected, err := filepath.Abs(filepath.Join("testdata", "conformance", revision+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			reasons(t, expected)
			if out, err := suite(t, srv.URL+"/mcp", expected, "--suite", "all", "--spec-version", revision); err != nil {
				t.Fatalf("%v\n%s", err, tail(out, 120))
			}
		})
	}
	// The check can fail, in both ways.
	for name, c := range map[string]struct{ scenario, expected, complaint string }{
		"unexpected failure": {"prompts-list", "server: []\n", "Unexpected failures"},
		"stale expectation":  {"ping", "server:\n  - ping\n", "Stale baseline"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "expected.yaml")
			if err := os.WriteFile(file, []byte(c.expected), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := suite(t, srv.URL+"/mcp", file, "--scenario", c.scenario, "--spec-version", "2025-11-25")
			if err == nil || !strings.Contains(out, c.complaint) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// reasons checks that each expected failure says why it is one.
func reasons(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		_, why, _ := strings.Cut(line, " # ")
		if strings.HasPrefix(strings.TrimSpace(line), "- ") && len(strings.TrimSpace(why)) < 10 {
			t.Errorf("%s: no reason: %s", filepath.Base(file), line)
		}
	}
}

// tail gives the last n lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
