package mcp_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/biplane-dev/biplane/internal/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// start runs an upstream until the end of the test.
func start(t testing.TB, cfg mcp.Config) *upstreamtest.Running {
	t.Helper()
	return upstreamtest.Start(t, maker(cfg))
}

// maker makes upstreams of a configuration.
func maker(cfg mcp.Config) func(testing.TB, func()) upstream.Upstream {
	return func(t testing.TB, onChange func()) upstream.Upstream {
		t.Helper()
		cfg.OnChange = onChange
		if cfg.Name == "" {
			cfg.Name = "peer"
		}
		u, err := mcp.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
}

// killChild ends the server that an upstream started.
func killChild(t testing.TB, _ upstream.Upstream) {
	t.Helper()
	n := 0
	for pid, name := range upstreamtest.Children(t) {
		if strings.HasSuffix(name, "Z") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("killed %d children, want 1", n)
	}
}

// textIs checks that an answer is one text.
func textIs(want string) func(*tool.Result) error {
	return func(r *tool.Result) error {
		if r.IsError || len(r.Content) != 1 || !strings.Contains(string(r.Content[0]), want) {
			return fmt.Errorf("want the text %q", want)
		}
		return nil
	}
}

func everythingCases(p upstreamtest.Peer) upstreamtest.Peer {
	p.Echo = func(i int) upstreamtest.Case {
		return upstreamtest.Case{Tool: "echo", Args: fmt.Sprintf(`{"message":"<%d>"}`, i), Check: textIs(fmt.Sprintf("Echo: <%d>", i))}
	}
	p.Fails = &upstreamtest.Case{Tool: "get-sum", Args: `{"a":"x"}`}
	p.Slow = &upstreamtest.Case{Tool: "trigger-long-running-operation", Args: `{"duration":600,"steps":3}`}
	return p
}

func TestEverythingOverStdio(t *testing.T) {
	cmd := peertest.Server(t, "everything", "stdio")
	upstreamtest.Run(t, everythingCases(upstreamtest.Peer{
		New:  maker(mcp.Config{Command: cmd[0], Args: cmd[1:]}),
		Kill: killChild,
	}))
}

func TestMain(m *testing.M) {
	os.Exit(m.Run())
}
