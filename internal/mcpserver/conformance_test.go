package mcpserver_test

import (
	"bytes"
	"context"
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

// TestConformance runs the MCP conformance suite's scenarios for servers, in both eras. What may fail is in
// testdata/conformance, with the reason; the suite fails for what is not there and fails, and for what is there and passes.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	node, suite := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
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
			cmd := exec.Command(node, suite, "server", "--url", srv.URL+"/mcp", "--suite", "all", "--spec-version", revision,
				"--expected-failures", expected, "--output-dir", filepath.Join(t.TempDir(), "results"))
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if dir := os.Getenv("BIPLANE_CONFORMANCE_OUT"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, revision+".txt"), out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil || !bytes.Contains(out, []byte("SUMMARY")) {
				t.Fatalf("%v\n%s", err, tail(string(out), 120))
			}
		})
	}
}

// tail gives the last n lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
