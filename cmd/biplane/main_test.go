package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// quickExit is the GORACE of the tests' processes. By default, the race detector waits a second at
// every exit.
const quickExit = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", quickExit)
	}
	testscript.Main(m, map[string]func(){
		"biplane": func() { stepping(); main() },
		"stub":    func() { stub(); syscall.Exit(0) }, // its environment has no GORACE
		"issues":  func() { issues(); syscall.Exit(0) },
		"holder":  func() { holder(); os.Exit(0) },
		"guarded": guarded,
		"browse":  browse,
		"pasting": pasting,
	})
}

// TestScript runs the stories, which document the command line. Besides the usual commands and
// biplane itself they have:
//
//	status CODE COMMAND...    run a command that must exit with CODE
//	http METHOD URL [FILE]    make a request, and print the answer; URL may be FILE.sock:/path
//	await URL                 wait until URL answers with 200
//	let NAME PATTERN          set NAME to the first group of PATTERN in the last command's output
//	gone PATTERN              wait until no command line matches PATTERN; ! gone: until one does
//	tamper record DATABASE RECORD, tamper leaf PROOF    modify protected data
//
// and stub, an MCP server with the tools echo, sleep (ms) and die, which kills it with SIGKILL;
// guarded, one over HTTP that requires sign-in; and browse and pasting, which play its users.
// $NODE, $EVERYTHING, $FILESYSTEM and $MEMORY are Node.js and the reference servers; the condition
// [peers] holds if they are installed, [process] if process sandboxes can run
// here. $PORT is a free port.
func TestScript(t *testing.T) {
	peers := findPeers(t) // a Setup can't skip the test
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: false,
		RequireUniqueNames:  true,
		Setup:               func(e *testscript.Env) error { return setup(t, e, peers) },
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "peers":
				return true, nil // findPeers has skipped or failed the test otherwise
			case "process":
				return canRunProcesses(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "http": request, "await": await, "let": let, "gone": gone, "tamper": tamper,
		},
	})
}

// canRunProcesses reports whether process sandboxes can run here.
func canRunProcesses() bool {
	d, err := process.New(process.Config{})
	if err != nil {
		return false
	}
	defer d.Close()
	_, err = d.Probe(context.Background())
	return err == nil
}

// findPeers returns the environment variables that name Node.js and the reference servers.
func findPeers(t *testing.T) map[string]string {
	peers := map[string]string{"NODE": peertest.Node(t)}
	for _, name := range []string{"everything", "filesystem", "memory"} {
		peers[strings.ToUpper(name)] = peertest.Module(t, "@modelcontextprotocol/server-"+name+"/dist/index.js")
	}
	return peers
}

func setup(t *testing.T, e *testscript.Env, peers map[string]string) error {
	e.Setenv("PORT", peertest.Port(t))
	e.Setenv("PORT2", peertest.Port(t))
	e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, "data"))
	e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "userconfig"))
	e.Setenv("HOME", e.WorkDir)
	for name, value := range peers {
		e.Setenv(name, value)
	}
	return nil
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Check(err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func request(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: http METHOD URL [FILE] [Header: value]...")
	}
	client, url := http.DefaultClient, args[1]
	if socket, path, ok := strings.Cut(url, ".sock:"); ok {
		socket = ts.MkAbs(socket + ".sock")
		url = "http://localhost" + path
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			}}}
	}
	var body io.Reader
	headers := args[2:]
	if len(headers) > 0 && !strings.Contains(headers[0], ": ") {
		body, headers = strings.NewReader(ts.ReadFile(headers[0])), headers[1:]
	}
	req, err := http.NewRequest(args[0], url, body)
	ts.Check(err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if req.Header.Set(k, v); k == "Host" {
			req.Host = v
		}
	}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintf(ts.Stdout(), "%d\n", resp.StatusCode)
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
	if neg != (resp.StatusCode >= 400) {
		ts.Fatalf("args[0] = %s, url = %s, resp.Status = %s, want neg == (resp.StatusCode >= 400)",
			args[0], url, resp.Status)
	}
}

// until polls, for at most two minutes.
func until(ts *testscript.TestScript, what string, done func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s: not within two minutes", what)
		}
	}
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		resp, err := http.Get(args[0])
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func let(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: let NAME PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	m := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("nothing matches %s with a group", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func gone(ts *testscript.TestScript, neg bool, args []string) {
	until(ts, "process "+args[0], func() bool {
		procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
		ts.Check(err)
		for _, p := range procs {
			if line, err := os.ReadFile(p); err == nil && bytes.Contains(line, []byte(args[0])) {
				return neg
			}
		}
		return !neg
	})
}

// stub is an MCP server over stdio. If its argument is a duration, each call of echo lasts that
// long, so that concurrent calls overlap. Any other argument identifies the process for a test.
func stub() {
	takes := time.Duration(0)
	if len(os.Args) > 1 {
		takes, _ = time.ParseDuration(os.Args[1])
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "stub", Version: "1"}, nil)
	type args struct {
		Message string `json:"message,omitempty" jsonschema:"text to give back"`
		MS      int    `json:"ms,omitempty" jsonschema:"milliseconds to wait"`
	}
	wait := func(ctx context.Context, d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	text := func(t string) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns the message",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			wait(ctx, takes)
			return text(a.Message)
		})
	mcp.AddTool(s, &mcp.Tool{Name: "sleep", Description: "Waits"},
		func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			wait(ctx, time.Duration(a.MS)*time.Millisecond)
			return text("slept")
		})
	mcp.AddTool(s, &mcp.Tool{Name: "die", Description: "Kills the server"},
		func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
