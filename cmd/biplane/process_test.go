package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A biplaneProcess is a real biplane process, started from the test binary.
type biplaneProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *buffer
}

// A buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// folder creates a working folder with a configuration of one upstream, the stub.
func folder(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "stub")); err != nil {
		t.Fatalf("os.Symlink: %v", err)
	}
	config := fmt.Sprintf("policy: open\nstart_wait: 1m\nmcpServers:\n  stub: { command: %s, args: [%s] }\n",
		filepath.Join(dir, "stub"), dir)
	if err := os.WriteFile(filepath.Join(dir, "biplane.yaml"), []byte(config), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return dir
}

// start starts a biplane in dir. If it still runs at the end of the test, it is killed.
func start(t *testing.T, dir string, args ...string) *biplaneProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	p := &biplaneProcess{t: t, cmd: &exec.Cmd{Path: self, Args: append([]string{"biplane"}, args...), Dir: dir},
		stderr: &buffer{}}
	p.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "HOME="+dir, "BIPLANE_CONFIG=")
	p.cmd.Stderr = p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("biplane %s:\n%s", strings.Join(args, " "), p.stderr)
		}
	})
	return p
}

func (p *biplaneProcess) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("io.WriteString: %v", err)
	}
}

// answer reads lines until the answer to the request with an id arrives.
func (p *biplaneProcess) answer(id int) string {
	p.t.Helper()
	got := make(chan string, 1)
	go func() {
		for {
			line, err := p.out.ReadString('\n')
			var m struct {
				ID     *int   `json:"id"`
				Method string `json:"method"`
			}
			if err != nil || json.Unmarshal([]byte(line), &m) == nil && m.Method == "" && m.ID != nil && *m.ID == id {
				got <- line
				return
			}
		}
	}()
	select {
	case line := <-got:
		return line
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("no answer to %d", id)
		return ""
	}
}

func (p *biplaneProcess) want(id int, part string) {
	p.t.Helper()
	if line := p.answer(id); !strings.Contains(line, part) {
		p.t.Fatalf("answer %d is %s, want %s in it", id, line, part)
	}
}

func (p *biplaneProcess) hello() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`)
	p.want(1, `"protocolVersion":"2025-11-25"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *biplaneProcess) execute(id int, code string) {
	p.t.Helper()
	args, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		p.t.Fatalf("json.Marshal: %v", err)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute","arguments":%s}}`, id,
		args))
}

// waitFor polls, for at most two minutes.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// stubs counts the running stub servers of the folder dir.
func stubs(dir string) int {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && bytes.HasPrefix(line, []byte(filepath.Join(dir, "stub")+"\x00")) {
			n++
		}
	}
	return n
}

// TestTakeover kills the process that owns the data folder while an agent speaks through another
// one. The agent must lose only the call under way.
func TestTakeover(t *testing.T) {
	dir := folder(t)
	owner := start(t, dir, "mcp")
	owner.hello()
	relay := start(t, dir, "mcp")
	relay.hello()
	relay.execute(2, "return await callTool('stub.echo', { message: 'through the owner' })")
	relay.want(2, `"text":"\"through the owner\""`)
	waitFor(t, "the second process says that there is one", func() bool {
		return strings.Contains(relay.stderr.String(), "biplane is already running")
	})

	relay.execute(3, "return await callTool('stub.sleep', { ms: 600000 })")
	relay.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	relay.want(4, "result") // earlier messages have arrived
	if err := owner.cmd.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	relay.want(3, "it is unknown whether it took effect")
	relay.execute(5, "return await callTool('stub.echo', { message: 'on its own' })")
	relay.want(5, `"text":"\"on its own\""`)

	third := start(t, dir, "mcp")
	third.hello()
	third.execute(2, "return await callTool('stub.echo', { message: 'through the new owner' })")
	third.want(2, `"text":"\"through the new owner\""`)

	for _, p := range []*biplaneProcess{third, relay} {
		p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("at the end of its input: %v\n%s", err, p.stderr)
		}
	}
	waitFor(t, "the upstreams are gone", func() bool { return stubs(dir) == 0 })
}

// TestInterrupt interrupts a program in the middle of a call, by the keyboard and by the end of the
// terminal. Everything that was started must be gone.
func TestInterrupt(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("it is ignored here, as under nohup, and so it is by biplane")
			}
			interrupt(t, sig)
		})
	}
}

func interrupt(t *testing.T, sig os.Signal) {
	dir := folder(t)
	p := start(t, dir, "run", "-c", "console.log('begun'); await callTool('stub.sleep', { ms: 600000 })",
		"--log-level", "info")
	waitFor(t, "the upstream runs", func() bool { return stubs(dir) == 1 })
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		if err == nil || p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.stderr.String(), "canceled") ||
			strings.Contains(p.stderr.String(), "when this process began") {
			t.Errorf("%v, exit code %d\n%s", err, p.cmd.ProcessState.ExitCode(), p.stderr)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
	waitFor(t, "the upstream is gone", func() bool { return stubs(dir) == 0 })
	if _, err := os.Stat(filepath.Join(dir, "biplane", "biplane.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestKilled kills a process that owns upstreams. They must end too, since their input does.
func TestKilled(t *testing.T) {
	dir := folder(t)
	p := start(t, dir, "mcp")
	p.hello()
	waitFor(t, "the upstream runs", func() bool { return stubs(dir) == 1 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	waitFor(t, "the upstream is gone", func() bool { return stubs(dir) == 0 })
}
