package wasm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A script is a guest stream with fixed input. It records the guest's output.
type script struct {
	io.Reader
	bytes.Buffer
}

// Read reads the input.
func (s *script) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// runLines runs a guest. The host sends lines and then hangs up.
func runLines(t testing.TB, d *Driver, lines ...string) error {
	t.Helper()
	s, err := d.Create(t.Context(), sandbox.Spec{Memory: 32 << 20, CPU: time.Second})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer func() { _ = s.Close() }()
	_, err = s.Run(t.Context(),
		&sandbox.Cmd{Guest: &script{Reader: strings.NewReader(strings.Join(lines, "\n") + "\n")}})
	return err
}

// TestOutside checks what the guest sees of the host: the clock, the answers, the names of scripts.
func TestOutside(t *testing.T) {
	prelude := `(() => { const host = __host; delete globalThis.__host; const say = (x) => host("write", x + "\n");
		return { deliver(l) { host("clock", 1234567890123); host("clock", 5); say([l, host("now"), Date.now(), new Date().getTimezoneOffset(), typeof __host].join());
		try { host("eval", "\n  throw new Error('x')", "there.js"); } catch (e) { say(e.stack.split("\n")[0].trim()); } say(host("eval", "this === globalThis && 6 * 7", "n"));
		say(host("ask", "wäs?")); const t = host("now"); let n = 0; while (host("now") === t) n++; say(n < 4096); }, idle() {} }; })()`
	d, err := New(Config{Prelude: prelude})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer func() { _ = d.Close() }()
	s, err := d.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = s.Close() }()
	c := &script{Reader: strings.NewReader("hé\n")}
	_, err = s.Run(t.Context(), &sandbox.Cmd{Guest: c, Ask: func(_ context.Context, q []byte) []byte {
		return []byte(string(q) + " das")
	}})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	got := strings.Split(strings.TrimSpace(c.String()), "\n")
	want := []string{"hé,1767225600000,1767225600000,0,undefined", "at <eval> (there.js:2", "42", "wäs? das", "true"}
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Errorf("got %q, want %q", got, want)
			break
		}
	}
}

// TestAgain checks that state persists between runs in one sandbox until an error occurs.
func TestAgain(t *testing.T) {
	d, err := New(Config{Prelude: `(() => { const host = __host; delete globalThis.__host; let n = 0;
		n = 100; return { deliver(l) { if (l === "loop") for (;;); host("write", ++n + "\n"); }, idle() {} }; })()`})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer func() { _ = d.Close() }()
	s, err := d.Create(t.Context(), sandbox.Spec{CPU: time.Minute})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = s.Close() }()
	run := func(lines string) (string, error) {
		c := &script{Reader: strings.NewReader(lines)}
		_, err := s.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: lines != "loop\n"})
		return c.String(), err
	}
	for _, want := range []string{"101\n102\n", "103\n104\n"} {
		if got, err := run("a\nb\n"); got != want || err != nil {
			t.Errorf("got = %q, err = %v, want got == want && err == nil", got, err)
		}
	}
	if _, err := run("loop\n"); err != nil { // the host hung up while it looped
		t.Errorf("err = %v, want nil", err)
	}
	if _, err := run("a\n"); !errors.Is(err, errOver) {
		t.Errorf("a guest that was stopped ran again: %v", err)
	}
}

// TestPrelude checks that an invalid prelude is refused with a reason.
func TestPrelude(t *testing.T) {
	if _, err := newRegion(); err != nil {
		t.Skip(err)
	}
	for code, want := range map[string]string{
		"syntax error": "SyntaxError", "throw new Error('why')": "why", "({})": "left __host",
		"delete globalThis.__host; ({})":                      "no method deliver",
		"delete globalThis.__host; ({deliver() {}, idle: 5})": "no method idle",
	} {
		d, err := New(Config{Prelude: code})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		if _, err := d.Create(t.Context(), sandbox.Spec{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// A signalHost is a guest's host that never asks the guest to stop. It closes begun when the guest
// has begun.
type signalHost struct {
	silentHost
	begun chan struct{}
}

// write signals that the guest has begun.
func (s signalHost) write([]byte) { close(s.begun) }

// TestRevoke revokes the memory during loops and builtins, without an interrupt first.
func TestRevoke(t *testing.T) {
	d, err := New(Config{Prelude: `(() => { const host = __host; delete globalThis.__host; globalThis.begin = () => { host("write", "x"); };
		return { deliver() {}, idle() {} }; })()`})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer func() { _ = d.Close() }()
	k, err := d.kind("js")
	if err != nil {
		t.Fatalf("kind: %v", err)
	}
	for _, code := range []string{
		"begin(); for (;;);",
		"var s = '1'.repeat(1e6); begin(); for (;;) s.indexOf('2');",
		"begin(); for (;;) (7n ** 300000n).toString();",
		"var a = new Uint8Array(1e7); begin(); for (;;) a.fill(1);",
		"var b = new Uint8Array(1e7); begin(); for (;;) b.copyWithin(1, 0);",
		"var c = '['.repeat(3000) + ']'.repeat(3000); begin(); for (;;) JSON.parse(c);",
	} {
		s, err := d.newSandbox(k, sandbox.Spec{Memory: 64 << 20})
		if err != nil {
			t.Skip(err)
		}
		g, host := s.guest, signalHost{begun: make(chan struct{})}
		g.host = host
		done := make(chan error, 1)
		go func() { done <- g.enter(func() error { _, err := g.engine.(*jsEngine).eval(code, "x"); return err }) }()
		<-host.begun
		if err := g.revoke(); err != nil {
			t.Fatalf("revoke: %v", err)
		}
		if err := <-done; !errors.Is(err, errRevoked) {
			t.Errorf("code = %s, err = %v, want errors.Is(err, errRevoked)", code, err)
		}
		if err := g.enter(func() error { return nil }); !errors.Is(err, errDead) {
			t.Errorf("entered again: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestLongDigits(t *testing.T) {
	for n := range 40 {
		for at := range 40 {
			for _, before := range []string{"", "1", "x1"} {
				s := strings.Repeat(" ", at) + before + " " + strings.Repeat("7", n) + ":1"
				if got := longDigits(s); got != (n >= manyDigits) {
					t.Errorf("s = %q, got = %v, want (n >= manyDigits)", s, got)
				}
			}
		}
	}
}
