//go:build linux

package child_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// each runs f with the named driver in this process, then in a child process.
func each(b *testing.B, name string, f func(b *testing.B, d sandbox.Driver)) {
	b.Run("here", func(b *testing.B) {
		d, err := inner(name)()
		if err != nil {
			b.Fatalf("err = %v, want nil", err)
		}
		if c, ok := d.(io.Closer); ok {
			b.Cleanup(func() { _ = c.Close() })
		}
		f(b, d)
	})
	b.Run("child", func(b *testing.B) { f(b, newDriver(b, name, child.Config{})) })
}

// A pipe is an in-memory guest stream with buffered channels in both directions.
type pipe struct {
	in  chan []byte // input of the guest
	out chan string // lines written by the guest
	cur []byte
	buf []byte
}

func newPipe() *pipe { return &pipe{in: make(chan []byte, 256), out: make(chan string, 4096)} }

func (p *pipe) Read(b []byte) (int, error) {
	if len(p.cur) == 0 {
		var ok bool
		if p.cur, ok = <-p.in; !ok {
			return 0, io.EOF
		}
	}
	n := copy(b, p.cur)
	p.cur = p.cur[n:]
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	for {
		line, rest, ok := strings.Cut(string(p.buf), "\n")
		if !ok {
			return len(b), nil
		}
		p.buf = []byte(rest)
		p.out <- line
	}
}

// BenchmarkFresh creates a sandbox, runs a program until its first value and closes the sandbox.
func BenchmarkFresh(b *testing.B) {
	for _, name := range []string{"fake", "wasm"} {
		b.Run(name, func(b *testing.B) {
			each(b, name, func(b *testing.B, d sandbox.Driver) {
				one := func() {
					box, err := d.Create(context.Background(), sandbox.Spec{})
					if err != nil {
						b.Fatalf("Create: %v", err)
					}
					p := newPipe()
					p.in <- []byte(`{"at":1,"run":{"code":"(() => 2)","name":"p.js"}}` + "\n")
					done := make(chan struct{})
					go func() {
						if l := <-p.out; !strings.Contains(l, "done") {
							b.Errorf(`l = %v, want strings.Contains(l, "done")`, l)
						}
						close(p.in)
						close(done)
					}()
					if _, err := box.Run(context.Background(), &sandbox.Cmd{Guest: p}); err != nil {
						b.Fatalf("Run: %v", err)
					}
					<-done
					if err := box.Close(); err != nil {
						b.Fatalf("Close: %v", err)
					}
				}
				one()
				for b.Loop() {
					one()
				}
			})
		})
	}
}

// BenchmarkCall measures a tool call by the guest that is answered immediately.
func BenchmarkCall(b *testing.B) {
	each(b, "wasm", func(b *testing.B, d sandbox.Driver) {
		o := sandboxtest.Exec(b.Context(), b, d, sandbox.Spec{}, `() => 1`, sandboxtest.Host{})
		if !o.Done {
			b.Fatalf("o = %v, want o.Done", o)
		}
		box, err := d.Create(b.Context(), sandbox.Spec{CPU: 1 << 40})
		if err != nil {
			b.Fatalf("Create: %v", err)
		}
		defer box.Close()
		p := newPipe()
		p.in <- []byte(`{"at":1,"run":{"code":"(async () => { for (;;) await callTool(\"t.e\", {}) })","name":"p.js",` +
			`"namespaces":{"t":["e"]}}}` + "\n")
		ended := make(chan error, 1)
		go func() {
			_, err := box.Run(context.Background(), &sandbox.Cmd{Guest: p})
			ended <- err
		}()
		for b.Loop() {
			l := <-p.out
			_, id, _ := strings.Cut(l, `"id":`)
			id, _, _ = strings.Cut(id, `,`)
			p.in <- []byte(`{"answer":{"id":` + id + `,"value":1}}` + "\n")
		}
		close(p.in)
		<-ended
	})
}

// BenchmarkRestore restores a snapshot, runs a program until its first value and closes the
// sandbox.
func BenchmarkRestore(b *testing.B) {
	each(b, "wasm", func(b *testing.B, d sandbox.Driver) {
		run := func(box sandbox.Sandbox, code string) {
			p := newPipe()
			p.in <- []byte(`{"at":1,"run":{"code":"` + code + `","name":"p.js","session":true}}` + "\n")
			go func() {
				if l := <-p.out; !strings.Contains(l, "done") {
					b.Errorf(`l = %v, want strings.Contains(l, "done")`, l)
				}
				close(p.in)
			}()
			if _, err := box.Run(context.Background(), &sandbox.Cmd{Guest: p, Keep: true}); err != nil {
				b.Fatalf("Run: %v", err)
			}
		}
		first, err := d.Create(b.Context(), sandbox.Spec{})
		if err != nil {
			b.Fatalf("Create: %v", err)
		}
		defer first.Close()
		run(first, `(() => { globalThis.a = Array.from({ length: 3000 }, (_, i) => String(i * 7919)); return `+
			`a.length })`)
		packed, err := first.(sandbox.Snapshotter).Snapshot(b.Context())
		if err != nil {
			b.Fatalf("Snapshot: %v", err)
		}
		b.SetBytes(int64(len(packed)))
		for b.Loop() {
			box, err := d.(sandbox.Restorer).Restore(context.Background(), sandbox.Spec{}, packed)
			if err != nil {
				b.Fatalf("Restore: %v", err)
			}
			run(box, `(() => a.length)`)
			if err := box.Close(); err != nil {
				b.Fatalf("Close: %v", err)
			}
		}
	})
}
