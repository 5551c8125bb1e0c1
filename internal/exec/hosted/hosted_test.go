//go:build linux

package hosted_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/hosted"
	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newDriver returns a driver of real sandboxes, or skips the test.
func newDriver(t *testing.T) *process.Driver {
	t.Helper()
	d, err := process.New(process.Config{})
	if err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	return d
}

// A peer is a running server as its client sees it.
type peer struct {
	*hosted.Server
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	errs chan string // its whole standard error, at its end
}

// startPeer starts a server whose program is a shell script.
func startPeer(t *testing.T, cfg hosted.Config, script string) *peer {
	t.Helper()
	cfg.Name, cfg.Command, cfg.Log = "test", []string{"sh", "-c", script}, slog.New(slog.DiscardHandler)
	s, err := hosted.NewHost(cfg).StartServer(t.Context())
	if err != nil {
		t.Fatalf("StartServer: %v", err)
	}
	in, out, errs := s.OpenStreams()
	p := &peer{Server: s, t: t, in: in, out: bufio.NewReader(out), errs: make(chan string, 1)}
	go func() {
		all, _ := io.ReadAll(errs)
		p.errs <- string(all)
	}()
	t.Cleanup(func() {
		p.stop(0)
		_ = out.Close()
	})
	return p
}

// stop closes the server's standard input, and stops it.
func (p *peer) stop(grace time.Duration) {
	_ = p.in.Close()
	p.StopServer(grace)
}

// ask sends a line, and returns the line that the server answers.
func (p *peer) ask(line string) string {
	p.t.Helper()
	release, err := p.UseServer(p.t.Context())
	if err != nil {
		p.t.Fatalf("UseServer: %v", err)
	}
	defer release()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("write %q: %v", line, err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the answer to %q: %v", line, err)
	}
	return strings.TrimSuffix(answer, "\n")
}

func isFrozen(p *peer) bool { return p.CurrentState() == owned.Frozen }

const echo = `while read -r line; do echo "got $line"; done`

// TestStandby checks that an idle server is frozen, that one in use is not, and that the next use
// wakes it.
func TestStandby(t *testing.T) {
	p := startPeer(t, hosted.Config{Driver: newDriver(t), Limits: hosted.Limits{Standby: -1}}, echo)
	if got := p.ask("one"); got != "got one" {
		t.Errorf("the answer is %q", got)
	}
	release, err := p.UseServer(t.Context())
	if err != nil {
		t.Fatalf("UseServer: %v", err)
	}
	if p.FreezeIdle(); isFrozen(p) {
		t.Error("a server in use was frozen")
	}
	release()
	release() // the second call does nothing
	if p.FreezeIdle(); !isFrozen(p) {
		t.Error("an idle server was not frozen")
	}
	if got := p.ask("two"); got != "got two" || isFrozen(p) {
		t.Errorf("after standby, the answer is %q, frozen: %v", got, isFrozen(p))
	}
	p.FreezeIdle()
	p.stop(time.Minute) // it must be awake to see the end of its input
	if got, _ := p.DescribeEnd(); got != "exited with status 0" {
		t.Errorf("the frozen server %s", got)
	}
	if _, err := p.UseServer(t.Context()); err == nil {
		t.Error("a server that has ended can be used")
	}
}

// TestStandbyTimer checks that the time without use freezes a server.
func TestStandbyTimer(t *testing.T) {
	p := startPeer(t, hosted.Config{Driver: newDriver(t), Limits: hosted.Limits{Standby: time.Millisecond}},
		`while :; do echo tick; sleep 0.01; done`)
	release, err := p.UseServer(t.Context())
	if err != nil {
		t.Fatalf("UseServer: %v", err)
	}
	release()
	go func() { _, _ = io.Copy(io.Discard, p.out) }() // a frozen server writes nothing
	for !isFrozen(p) {
		time.Sleep(time.Millisecond)
	}
}

// TestEnds checks what is said of a server that ended, and that its files outlive it.
func TestEnds(t *testing.T) {
	d := newDriver(t)
	folder := filepath.Join(t.TempDir(), "files")
	for _, c := range []struct {
		script, want string
		limits       hosted.Limits
	}{
		{"echo kept > file; exit 7", "exited with status 7", hosted.Limits{}},
		{"cat file; kill -9 $$", "was ended by SIGKILL", hosted.Limits{}},
		{`python3 -c 'x = b"1" * (1 << 30)'; exec sleep 1000`, "", hosted.Limits{Memory: 64 << 20}},
	} {
		p := startPeer(t, hosted.Config{Driver: d, Folder: folder, Limits: c.limits}, c.script)
		go func() { _, _ = io.Copy(io.Discard, p.out) }()
		if c.want == "" {
			p.stop(0)
			continue
		}
		if got, _ := p.DescribeEnd(); got != c.want {
			t.Errorf("%s: it %s, want %s; standard error %q", c.script, got, c.want, <-p.errs)
		}
	}
	if b, err := os.ReadFile(filepath.Join(folder, "file")); string(b) != "kept\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	small := hosted.Config{Name: "test", Driver: d, Folder: folder, Command: []string{"true"},
		Limits: hosted.Limits{Disk: 1}, Log: slog.New(slog.DiscardHandler)}
	if _, err := hosted.NewHost(small).StartServer(t.Context()); err == nil || tool.AsError(err).Kind != tool.Limit {
		t.Errorf("with files that exceed the limit, it starts again: %v", err)
	}
	p := startPeer(t, hosted.Config{Driver: d}, "no-such-program")
	if got, _ := p.DescribeEnd(); got != "exited with status 127" {
		t.Errorf("without a program, it %s", got)
	}
}

// TestIsolation checks what a server finds: the files that it was given, and nothing else.
func TestIsolation(t *testing.T) {
	given, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{given, other} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	t.Setenv("HOSTED_TEST", "of the host")
	p := startPeer(t, hosted.Config{Driver: newDriver(t), Mounts: []string{given}, Env: []string{"OWN=value"}},
		`while read -r line; do eval "$line" 2>&1 | tr '\n' ' '; echo; done`)
	for _, c := range []struct{ line, want string }{
		{"cat " + given + "/file", "text"},
		{"echo x > " + given + "/file && echo written", "Read-only"},
		{"cat " + other + "/file", "No such file"},
		{`echo "$OWN$HOSTED_TEST$PWD"`, "value/workspace"},
		{"ls -A /workspace | wc -l", "0"},
		{"getent hosts localhost.example; echo $?", "2"},
	} {
		if got := p.ask(c.line); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

// A gate permits what the configuration does.
type gate struct {
	t     *testing.T
	reach []string
	known map[string]string // addresses by name

	mu    sync.Mutex
	calls []string
}

func (g *gate) ReachesHost(c *tool.Call, host string) bool { return slices.Contains(g.reach, host) }

func (g *gate) PermitsConnection(c *tool.Call) bool {
	var a struct{ URL string }
	u := &url.URL{}
	if json.Unmarshal(c.Arguments, &a) == nil {
		u, _ = url.Parse(a.URL)
	}
	return u != nil && slices.Contains(g.reach, u.Hostname())
}

func (g *gate) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	var a struct{ URL string }
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return nil, err
	}
	ok := g.PermitsConnection(c)
	g.mu.Lock()
	g.calls = append(g.calls, fmt.Sprintf("%s %s %v %s", c.Principal.ID, a.URL, ok, c.By.Sandbox))
	g.mu.Unlock()
	u, err := url.Parse(a.URL)
	if err != nil || !ok {
		return nil, tool.NotSent(tool.Errorf(tool.Denied, "%s is not granted: %w", a.URL, err))
	}
	return egress.ExchangeFrom(ctx).MakeExchange(ctx, nil, u)
}

func (g *gate) LookupHost(_ context.Context, name string) ([]netip.Addr, error) {
	a, err := netip.ParseAddr(g.known[name])
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return []netip.Addr{a}, nil
}

func (*gate) OwnAddresses() ([]net.Addr, error) { return nil, nil }

// TestNetwork checks that a server reaches the host that it was granted, by name, and no other.
func TestNetwork(t *testing.T) {
	var seen []string
	var mu sync.Mutex
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Host)
		fmt.Fprint(w, "hello")
	}))
	defer web.Close()
	port := netip.MustParseAddrPort(web.Listener.Addr().String()).Port()
	g := &gate{t: t, reach: []string{"api.test"}, known: map[string]string{"api.test": "127.0.0.1",
		"other.test": "127.0.0.1"}}
	client := egress.New(egress.Config{Network: g, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	defer client.Close()
	p := startPeer(t, hosted.Config{Driver: newDriver(t), Gate: &hosted.Gate{Hosts: g, Door: g, Client: client,
		Reach: g.reach, Grantor: "test", Network: network.NewNetwork(network.Config{Ports: []int{int(port)}})}},
		`while read -r line; do eval "$line" 2>&1 | tr '\n' ' '; echo; done`)
	for _, c := range []struct{ line, want string }{
		{fmt.Sprintf("curl -sS --noproxy '*' http://api.test:%d/", port), "hello"},
		{fmt.Sprintf("curl -sS http://api.test:%d/", port), "hello"},
		{fmt.Sprintf("curl -sS --noproxy '*' http://other.test:%d/", port), "Could not resolve host"},
		{fmt.Sprintf("curl -sS http://other.test:%d/", port), "is not granted"},
		{fmt.Sprintf("curl -sS --noproxy '*' http://127.0.0.1:%d/", port), "is not granted"},
	} {
		if got := p.ask(c.line); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	p.FreezeIdle()
	if got := p.ask(fmt.Sprintf("curl -sS http://api.test:%d/", port)); !strings.Contains(got, "hello") {
		t.Errorf("after standby: %q", got)
	}
	p.stop(time.Minute)
	if notes := <-p.errs; !strings.Contains(notes, "biplane: network: ") || !strings.Contains(notes, "not granted") {
		t.Errorf("its standard error is %q, want a note on what was refused", notes)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 || slices.ContainsFunc(seen, func(h string) bool { return !strings.HasPrefix(h, "api.test") }) {
		t.Errorf("the host saw %q", seen)
	}
	if !slices.ContainsFunc(g.calls, func(c string) bool {
		return strings.HasPrefix(c, "server:test ") && strings.HasSuffix(c, " true server:test")
	}) {
		t.Errorf("the calls were %q, want those of server:test", g.calls)
	}
}

// TestTemporaryFolder checks that the files of a server without a folder end with it, and that
// files are removed which a killed process left.
func TestTemporaryFolder(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "servers", "temporary")
	list := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(parent, "*", "kept"))
		if err != nil {
			t.Fatalf("Glob: %v", err)
		}
		return all
	}
	p := startPeer(t, hosted.Config{Driver: newDriver(t), Parent: parent}, "echo > kept; read x; echo $x; read y")
	if got := p.ask("hello"); got != "hello" || len(list()) != 1 {
		t.Errorf("the server answers %q, and its files are %q", got, list())
	}
	p.stop(time.Second)
	if all := list(); len(all) != 0 {
		t.Errorf("after the end of the server: %q", all)
	}
	left := filepath.Join(parent, "biplane-server-1")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatalf("MkdirAll: %v", err)
	}
	if err := os.WriteFile(filepath.Join(left, "kept"), nil, 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	for range 2 {
		if err := hosted.RemoveLeft(parent); err != nil || len(list()) != 0 {
			t.Errorf("RemoveLeft: %v, and left %q", err, list())
		}
	}
}
