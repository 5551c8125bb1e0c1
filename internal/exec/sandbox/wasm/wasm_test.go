package wasm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// newDriver returns a driver with the prelude of the tests.
func newDriver(t testing.TB, cfg wasm.Config) *wasm.Driver {
	t.Helper()
	src, err := os.ReadFile("testdata/prelude.js")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	cfg.Prelude = string(src)
	d, err := wasm.New(cfg)
	if err != nil {
		t.Fatalf("wasm.New: %v", err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A peer is the host's end of a running guest.
type peer struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	done chan error
	box  sandbox.Sandbox
}

// start runs a guest in a fresh sandbox.
func start(t testing.TB, ctx context.Context, d *wasm.Driver, spec sandbox.Spec) *peer {
	t.Helper()
	box, err := d.Create(ctx, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p := &peer{t: t, done: make(chan error, 1), box: box}
	p.run(ctx)
	t.Cleanup(func() { p.close() })
	return p
}

func (p *peer) run(ctx context.Context) {
	ours, theirs := net.Pipe()
	p.conn, p.in = ours, bufio.NewReader(ours)
	go func() {
		_, err := p.box.Run(ctx, &sandbox.Cmd{Guest: theirs})
		p.done <- err
	}()
}

func (p *peer) close() {
	_ = p.conn.Close()
	if err := p.box.Close(); err != nil {
		p.t.Errorf("Close: %v", err)
	}
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Fatalf("send %q: %v", line, err)
	}
}

// A message is a line written by the prelude of the tests.
type message struct {
	Value     any
	Error     string
	Stack     string
	Wake      bool
	Unhandled string
	Ask       int
}

func (p *peer) receive() (m message) {
	p.t.Helper()
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		p.t.Fatalf("receive: %v (run: %v)", err, p.ended())
	}
	if err := json.Unmarshal(line, &m); err != nil {
		p.t.Fatalf("json.Unmarshal: %v", err)
	}
	return m
}

// eval sends a script of one line and returns its value.
func (p *peer) eval(script string) any {
	p.t.Helper()
	p.send(script)
	m := p.receive()
	if m.Error != "" {
		p.t.Fatalf("eval %q: %s", script, m.Error)
	}
	return m.Value
}

func (p *peer) ended() error {
	select {
	case err := <-p.done:
		return err
	case <-time.After(30 * time.Second):
		return errors.New("it goes on")
	}
}

func TestRun(t *testing.T) {
	d := newDriver(t, wasm.Config{})
	p := start(t, t.Context(), d, sandbox.Spec{})
	if v := p.eval("6 * 7"); v != 42.0 {
		t.Errorf("v = %v, want 42.0", v)
	}
	if v := p.eval("'é€😀' + '\\ud800'.length"); v != "é€😀1" {
		t.Errorf("text: %q", v)
	}
	p.send("ask(1)")
	if m := p.receive(); m.Ask != 1 {
		t.Fatalf("m = %+v, want m.Ask == 1", m)
	}
	p.send("answer 1 hello")
	if m := p.receive(); m.Value != "hello" {
		t.Errorf(`m = %+v, want m.Value == "hello"`, m)
	}
	_ = p.conn.Close()
	if err := p.ended(); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestLimits(t *testing.T) {
	d := newDriver(t, wasm.Config{})
	for _, c := range []struct{ name, script, limit string }{
		{"loop", "for(;;);", "cpu"},
		{"catching loop", "for(;;) try { for(;;); } catch {}", "cpu"},
		{"async loop", "(async () => { for (;;) await 1 })()", "cpu"},
		{"builtin", "JSON.parse('['.repeat(4000)+']'.repeat(4000)); for(;;) (7n**300000n).toString()", "cpu"},
		{"output", "for(;;) write('x'.repeat(1000))", "output"},
		{"memory", "throw new Error('out of memory')", "memory"},
		{"stack", "throw (function f(){ return 1+f() })()", "stack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sandbox.Spec{Memory: 32 << 20, CPU: 20 * time.Second, Output: 1 << 20}
			if c.limit == "cpu" {
				spec.CPU = 200 * time.Millisecond
			}
			p := start(t, t.Context(), d, spec)
			go func() {
				for {
					if _, err := p.in.ReadBytes('\n'); err != nil {
						return
					}
				}
			}()
			s := c.script
			if strings.HasPrefix(s, "throw ") {
				s = "throw " + strings.TrimPrefix(s, "throw ")
			}
			p.send(s)
			var limit *sandbox.LimitError
			if err := p.ended(); !errors.As(err, &limit) || limit.Limit != c.limit {
				t.Errorf("err = %v, want errors.As(err, &limit) && limit.Limit == c.limit", err)
			}
		})
	}
}
