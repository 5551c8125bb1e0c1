package mcpserver_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// everythingServer builds the Go SDK's server for the conformance suite.
func everythingServer(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "everything-server")
	out, err := exec.Command("go", "build", "-o", bin,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		t.Fatalf("build the everything-server: %v\n%s", err, out)
	}
	return bin
}

// whole runs a complete Biplane in mode Direct, with unprefixed names, in front of an upstream. It
// speaks a revision with the upstream. whole returns the URL for agents.
func whole(t *testing.T, command, revision string) (url string) {
	t.Helper()
	url, _ = start(t, settings.Server{Type: "stdio", Command: command, Revision: revision}, nil)
	return url
}

// wholeOverHTTP is whole for an upstream over HTTP.
func wholeOverHTTP(t *testing.T, command, revision string) (url string) {
	t.Helper()
	at := "127.0.0.1:" + peertest.Port(t)
	cmd := exec.Command(command, "-http", at, "-stateless=false")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the everything-server: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	eventually(t, "the everything-server listens", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	url, _ = start(t, settings.Server{Type: "http", URL: "http://" + at, Revision: revision}, nil)
	return url
}

// start runs a Biplane in front of the suite's server, with sign-in, if auth requires it.
func start(t *testing.T, up settings.Server, auth *settings.Auth) (url string, d *daemon.Daemon) {
	t.Helper()
	url, d = startBefore(t, up, auth)
	added(t, d.Client())
	return url, d
}

// startBefore runs a Biplane in front of any upstream.
func startBefore(t *testing.T, up settings.Server, auth *settings.Auth) (url string, _ *daemon.Daemon) {
	t.Helper()
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := settings.Default()
	c.Mode, c.Policy, c.Auth = "direct", "open", auth
	up.Name, up.Dir = "everything", folder
	c.Servers = []settings.Server{up}
	d, err := daemon.New(t.Context(),
		daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0", Unprefixed: true})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	runDaemon(t, d)
	return "http://" + d.Addr() + "/mcp", d
}

// added makes the upstream add the tool that the suite adds repeatedly, and waits until Biplane
// knows the tool. Otherwise it would depend on timing whether the suite is notified the first time,
// on a subscription that it opens a moment later.
func added(t *testing.T, c *api.Client) {
	t.Helper()
	const code = `await everything.test_trigger_tool_change({})`
	if x, err := c.Run(t.Context(), api.RunRequest{Code: code}); err != nil || x.State != api.StateDone {
		t.Fatalf("x = %v, err = %v, want err == nil && x.State == api.StateDone", x, err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		tools, err := c.Tools(t.Context())
		if err != nil {
			t.Fatalf("Tools: %v", err)
		}
		if slices.ContainsFunc(tools, func(x api.Tool) bool { return x.Name == "__transient_tool_for_list_changed" }) {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the upstream's tool is not there")
		}
	}
}

// signedIn returns the URL of a proxy that adds an API key to each request to a Biplane that
// requires one. The suite's authorization scenarios are for clients and authorization servers, but
// its requirements for servers must hold with sign-in, too.
func signedIn(t *testing.T, command string) string {
	t.Helper()
	target, d := start(t, settings.Server{Type: "stdio", Command: command, Revision: "2026-07-28"},
		&settings.Auth{Keys: true})
	k, err := d.Client().Keys().Create(t.Context(), api.KeyRequest{Name: "suite"})
	if err != nil {
		t.Fatalf("CreateKey: %v", err)
	}
	to, err := url.Parse(target)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	to.Path = ""
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+k.Key)
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL + "/mcp"
}

// suite runs the MCP conformance suite against url and returns its output; err reports that it
// failed.
func suite(t *testing.T, url, expected string, args ...string) (string, error) {
	t.Helper()
	node, index := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/conformance/dist/index.js")
	dir := t.TempDir()
	if keep := os.Getenv("BIPLANE_CONFORMANCE_RESULTS"); keep != "" {
		dir = filepath.Join(keep, t.Name())
	}
	args = append([]string{index, "server", "--url", url, "--expected-failures", expected, "--output-dir", dir},
		args...)
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte("SUMMARY")) {
		err = errors.New("the suite ran nothing")
	}
	return string(out), err
}

// TestConformance runs the MCP conformance suite's server scenarios against a complete Biplane,
// with both eras on either side. Expected failures are in testdata/conformance, with reasons. The
// suite fails on an unlisted failure and on a listed scenario that passes.
// An upstream of 2025-11-25 is over HTTP when the client is of 2026-07-28: over stdio a server
// can't say which call it asks about, so that Biplane doesn't ask for roots.
// BIPLANE_CONFORMANCE_RESULTS is a folder in which to keep the suite's own results.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	peertest.Node(t)
	server := everythingServer(t)
	url := whole(t, server, "2026-07-28")
	for _, c := range []struct {
		client, upstream string
		start            func(t *testing.T, command, revision string) (url string)
	}{
		{"2025-11-25", "2025-11-25", whole},
		{"2025-11-25", "2026-07-28", whole},
		{"2026-07-28", "2025-11-25", wholeOverHTTP},
		{"2026-07-28", "2026-07-28", whole},
	} {
		t.Run(c.client+" before "+c.upstream, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", "conformance", c.client+"-"+c.upstream+".yaml")
			expected, err := filepath.Abs(file)
			if err != nil {
				t.Fatalf("filepath.Abs: %v", err)
			}
			reasons(t, expected)
			passes(t, func() string { return c.start(t, server, c.upstream) }, expected, c.client)
		})
	}
	t.Run("signed in", func(t *testing.T) {
		t.Parallel()
		expected, err := filepath.Abs(filepath.Join("testdata", "conformance", "2026-07-28-2026-07-28.yaml"))
		if err != nil {
			t.Fatalf("filepath.Abs: %v", err)
		}
		passes(t, func() string { return signedIn(t, server) }, expected, "2026-07-28")
	})
	t.Run("without Biplane", func(t *testing.T) {
		t.Parallel()
		provesImpossible(t, server)
	})
	t.Run("not required", func(t *testing.T) {
		t.Parallel()
		isNotRequired(t)
	})
	// The check must be able to fail, in both ways.
	for name, c := range map[string]struct{ scenario, expected, complaint string }{
		"unexpected failure": {"server-sse-polling", "server: []\n", "Unexpected failures"},
		"stale expectation":  {"ping", "server:\n  - ping\n", "Stale baseline"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "expected.yaml")
			if err := os.WriteFile(file, []byte(c.expected), 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
			out, err := suite(t, url, file, "--scenario", c.scenario, "--spec-version", "2025-11-25")
			if err == nil || !strings.Contains(out, c.complaint) {
				t.Errorf("err = %v, out = %s, want err != nil && strings.Contains(out, c.complaint)", err, out)
			}
		})
	}
}

// reasons checks that each expected failure has a reason.
func reasons(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		_, why, _ := strings.Cut(line, " # ")
		if strings.HasPrefix(strings.TrimSpace(line), "- ") && len(strings.TrimSpace(why)) < 10 {
			t.Errorf("%s: no reason: %s", filepath.Base(file), line)
		}
	}
}

// passes runs the whole suite, and once more against another Biplane if it fails: the suite waits
// for notifications for 1.5 s at most, which a busy machine can miss.
func passes(t *testing.T, start func() (url string), expected, revision string) {
	t.Helper()
	for attempt := range 2 {
		out, err := suite(t, start(), expected, "--suite", "all", "--spec-version", revision)
		if err == nil {
			return
		}
		_, summary, _ := strings.Cut(out, "=== SUMMARY ===")
		if attempt == 0 {
			t.Logf("the suite failed and runs once more: %v\n%s", err, summary)
			continue
		}
		t.Fatalf("suite() err = %v\n%s", err, summary)
	}
}

// passesScenario runs one scenario of an extension. Each of its checks must pass without a warning.
func passesScenario(t *testing.T, url, scenario string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "expected.yaml")
	if err := os.WriteFile(none, []byte("server: []\n"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	out, _ := suite(t, url, none, "--scenario", scenario, "--verbose")
	if !strings.Contains(out, ", 0 failed, 0 warnings") || strings.Contains(out, "Passed: 0/") ||
		strings.Contains(out, `"SKIPPED"`) {
		t.Errorf("%s: got %s, want each check to pass", scenario, out)
	}
}

// runDaemon runs a daemon until the test ends.
func runDaemon(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
}
