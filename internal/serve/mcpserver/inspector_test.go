package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// stdioEnv makes the test binary run as a server on its standard input and output.
const stdioEnv = "BIPLANE_TEST_SERVE_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(stdioEnv) != "" {
		os.Exit(serveStdio())
	}
	os.Exit(m.Run())
}

func serveStdio() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d := newDoor()
	d.handle("biplane.search", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "searched "+string(c.Arguments)), nil
	})
	d.handle("biplane.execute", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	err := mcpserver.New(config(d, mcpserver.Code)).ServeStdio(ctx, os.Stdin, os.Stdout)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// behind returns a Server in mode Direct, with unprefixed names, in front of an upstream that runs
// until the test ends.
func behind(t testing.TB, cfg mcp.Config) *mcpserver.Server {
	t.Helper()
	var s *mcpserver.Server
	ready := make(chan struct{})
	cfg.OnChange = func() {
		<-ready
		s.NotifyTools()
	}
	cfg.Environ = os.Environ()
	up, err := mcp.New(cfg)
	if err != nil {
		t.Fatalf("mcp.New: %v", err)
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
		Endpoint: mcpserver.Endpoint{Mode: mcpserver.Direct, Unprefixed: true}, Version: "1.2.3",
		Catalog: upstreams{list: func() (out []mcpserver.Listed) {
			for _, x := range up.Snapshot().Tools {
				out = append(out, mcpserver.Listed{Name: x.Upstream + "_" + x.Name, Tool: x})
			}
			return out
		}},
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
	for deadline := time.Now().Add(2 * time.Minute); up.Snapshot().Health.State != tool.Ready; time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the upstream is %+v", up.Snapshot())
		}
	}
	return s
}

// inspect runs the inspector's command line and returns its output.
func inspect(t *testing.T, args ...string) string {
	t.Helper()
	node, cli := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	cmd := exec.CommandContext(t.Context(), node, append([]string{cli, "--cli"}, args...)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "MCP_CATALOG_PATH="+home+"/catalog.json")
	cmd.Dir = home
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("inspector %v: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

func TestInspectorOverHTTP(t *testing.T) {
	command := peertest.Server(t, "everything")
	s := behind(t, mcp.Config{Name: "everything", Command: command[0], Args: append(command[1:], "stdio")})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	list := inspect(t, srv.URL+"/mcp", "--transport", "http", "--method", "tools/list")
	if !strings.Contains(list, `"name": "echo"`) {
		t.Errorf("tools/list: %s", list)
	}
	call := inspect(t, srv.URL+"/mcp", "--transport", "http", "--method", "tools/call", "--tool-name", "echo",
		"--tool-arg", "message=hello")
	if !strings.Contains(call, "hello") || strings.Contains(call, `"isError": true`) {
		t.Errorf("tools/call: %s", call)
	}
}

// TestInspectorShowsOffers checks that the inspector shows the resources and prompts of a server
// behind Biplane.
func TestInspectorShowsOffers(t *testing.T) {
	command := peertest.Server(t, "everything")
	url, _ := startBefore(t, settings.Server{Command: command[0], Args: append(command[1:], "stdio")}, nil)
	const document = "demo://resource/static/document/features.md"
	for _, c := range []struct{ args, want string }{
		{"resources/list", `"uri": "` + document},
		{"resources/templates/list", `"uriTemplate": "demo://resource/dynamic/text/{resourceId}"`},
		{"resources/read --uri " + document, "Everything Server"},
		{"prompts/list", `"name": "args-prompt"`},
		{"prompts/get --prompt-name args-prompt --prompt-args city=Paris", "Paris"},
	} {
		args := append([]string{url, "--transport", "http", "--method"}, strings.Fields(c.args)...)
		if got := inspect(t, args...); !strings.Contains(got, c.want) {
			t.Errorf("inspector --method %s: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestInspectorOverStdio(t *testing.T) {
	list := inspect(t, os.Args[0], "-e", stdioEnv+"=1", "--method", "tools/list")
	for _, name := range []string{"search", "execute", "resume"} {
		if !strings.Contains(list, `"name": "`+name+`"`) {
			t.Errorf("%s is not in %s", name, list)
		}
	}
	call := inspect(t, os.Args[0], "-e", stdioEnv+"=1", "--method", "tools/call", "--tool-name", "search", "--tool-arg",
		"query=issues")
	if !strings.Contains(call, "searched") || !strings.Contains(call, "issues") {
		t.Errorf("tools/call: %s", call)
	}
}

// TestInterrupt runs the server as a process. Its output contains only protocol messages, and
// Ctrl-C ends it cleanly, although a call is under way and the input is still open.
func TestInterrupt(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stdioEnv+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	io.WriteString(in, hello+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute","arguments":{"code":""}}}
{"jsonrpc":"2.0","id":2,"method":"ping"}
`)
	lines := bufio.NewScanner(out)
	for range 2 { // for initialize and ping
		if !lines.Scan() || !json.Valid(lines.Bytes()) {
			t.Fatalf("output %q, %v", lines.Text(), lines.Err())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			t.Errorf("output %q", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("ended with %v; %s", err, stderr.String())
	}
}
