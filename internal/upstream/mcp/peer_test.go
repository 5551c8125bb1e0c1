//go:build unix

package mcp_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// start runs an upstream until the end of the test.
func start(t testing.TB, cfg mcp.Config) *upstreamtest.Running {
	t.Helper()
	return upstreamtest.Start(t, maker(cfg))
}

// maker returns a function that makes upstreams with cfg.
func maker(cfg mcp.Config) func(testing.TB, func()) upstream.Upstream {
	return func(t testing.TB, onChange func()) upstream.Upstream {
		t.Helper()
		cfg.OnChange = onChange
		if cfg.Environ == nil {
			cfg.Environ = os.Environ()
		}
		if cfg.Name == "" {
			cfg.Name = "peer"
		}
		u, err := mcp.New(cfg)
		if err != nil {
			t.Fatalf("mcp.New: %v", err)
		}
		return u
	}
}

// killChild ends the server that an upstream started.
func killChild(t testing.TB, _ upstream.Upstream) {
	t.Helper()
	n := 0
	for pid, name := range upstreamtest.ChildProcesses(t) {
		if strings.HasSuffix(name, "Z") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("syscall.Kill: %v", err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("killed %d children, want 1", n)
	}
}

func everythingCases(p upstreamtest.Peer) upstreamtest.Peer {
	p.Echo = func(i int) upstreamtest.Case {
		return upstreamtest.Case{Tool: "echo", Args: fmt.Sprintf(`{"message":"<%d>"}`, i),
			Text: fmt.Sprintf("Echo: <%d>", i)}
	}
	p.Fails = &upstreamtest.Case{Tool: "get-sum", Args: `{"a":"x"}`}
	p.Slow = &upstreamtest.Case{Tool: "trigger-long-running-operation", Args: `{"duration":600,"steps":3}`}
	return p
}

func TestEverythingOverStdio(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	cmd := peertest.Server(t, "everything", "stdio")
	upstreamtest.Run(t, everythingCases(upstreamtest.Peer{
		New:  maker(mcp.Hasten(mcp.Config{Command: cmd[0], Args: cmd[1:]})),
		Kill: killChild,
	}))
}

// A webPeer is a server on the network. It runs as a process that can be killed and restarted on
// the same port.
type webPeer struct {
	cmd  []string
	port string
	proc *exec.Cmd
}

func startWeb(t testing.TB, cmd []string) *webPeer {
	t.Helper()
	w := &webPeer{cmd: cmd, port: peertest.Port(t)}
	w.start(t)
	t.Cleanup(w.end)
	return w
}

func (w *webPeer) start(t testing.TB) {
	t.Helper()
	w.proc = exec.Command(w.cmd[0], w.cmd[1:]...)
	w.proc.Env = append(os.Environ(), "PORT="+w.port)
	if err := w.proc.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+w.port)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("err = %v, want !time.Now().After(deadline)", err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (w *webPeer) end() {
	_ = w.proc.Process.Kill()
	_ = w.proc.Wait()
}

// restart kills the server and starts it again.
func (w *webPeer) restart(t testing.TB, _ upstream.Upstream) {
	w.end()
	w.start(t)
}

func (w *webPeer) url(path string) string { return "http://127.0.0.1:" + w.port + path }

func TestEverythingOverHTTP(t *testing.T) {
	w := startWeb(t, peertest.Server(t, "everything", "streamableHttp"))
	upstreamtest.Run(t, everythingCases(upstreamtest.Peer{
		New:  maker(mcp.Config{URL: w.url("/mcp")}),
		Kill: w.restart,
	}))
}

func TestEverythingOverSSE(t *testing.T) {
	w := startWeb(t, peertest.Server(t, "everything", "sse"))
	upstreamtest.Run(t, everythingCases(upstreamtest.Peer{
		New:  maker(mcp.Config{URL: w.url("/sse")}), // detects the transport
		Kill: w.restart,
	}))
}

func TestFilesystem(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Appendf(nil, "file %d of 100", i),
			0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	cmd := peertest.Server(t, "filesystem", dir)
	upstreamtest.Run(t, upstreamtest.Peer{
		New: maker(mcp.Config{Command: cmd[0], Args: cmd[1:]}),
		Echo: func(i int) upstreamtest.Case {
			args := fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, fmt.Sprint(i)))
			return upstreamtest.Case{Tool: "read_text_file", Args: args,
				Text: fmt.Sprintf("file %d of 100", i)}
		},
		Fails: &upstreamtest.Case{Tool: "read_text_file", Args: `{"path":"/etc/passwd"}`},
		Kill:  killChild,
	})
}

func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	cmd := peertest.Server(t, "memory")
	upstreamtest.Run(t, upstreamtest.Peer{
		New: func(t testing.TB, onChange func()) upstream.Upstream {
			file := filepath.Join(t.TempDir(), "memory.jsonl")
			return maker(mcp.Config{Command: cmd[0], Args: cmd[1:], Env: map[string]string{"MEMORY_FILE_PATH": file}})(
				t, onChange)
		},
		Echo: func(i int) upstreamtest.Case {
			args := fmt.Sprintf(`{"entities":[{"name":"e%d","entityType":"t","observations":["o"]}]}`, i)
			return upstreamtest.Case{Tool: "create_entities", Args: args, Text: fmt.Sprintf("e%d", i)}
		},
		Fails: &upstreamtest.Case{Tool: "add_observations",
			Args: `{"observations":[{"entityName":"nobody","contents":["x"]}]}`},
		Kill: killChild,
	})
}

// TestMain runs the tests, or acts as one of the servers that they start.
func TestMain(m *testing.M) {
	switch mode := os.Getenv(peerMode); mode {
	case "":
		os.Exit(m.Run())
	case "sdk":
		if err := sdkServer(nil).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "conformance":
		if err := runConformanceClient(os.Args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		if raw, ok := strings.CutPrefix(mode, "raw:"); ok {
			runRawPeer(raw)
			return
		}
		fmt.Fprintln(os.Stderr, "no such peer:", mode)
		os.Exit(2)
	}
}
