package wasm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// thirtyLines is a program such as agents write.
const thirtyLines = `(async () => {
	const customers = Array.from({ length: 200 }, (_, i) => ({
		id: i,
		name: "customer " + i,
		region: ["north", "south", "east", "west"][i % 4],
		orders: Array.from({ length: i % 7 }, (_, k) => ({ total: (i * 31 + k * 17) % 500, paid: (i + k) % 3 !== 0 })),
	}));
	const open = customers
		.map((c) => ({ ...c, due: c.orders.filter((o) => !o.paid).reduce((s, o) => s + o.total, 0) }))
		.filter((c) => c.due > 300);
	const byRegion = new Map();
	for (const c of open) {
		const r = byRegion.get(c.region) ?? { count: 0, due: 0, names: [] };
		r.count++;
		r.due += c.due;
		if (/\d*[02468]$/.test(c.name)) r.names.push(c.name.toUpperCase());
		byRegion.set(c.region, r);
	}
	class Report {
		#lines = [];
		add(region, { count, due, names }) {
			this.#lines.push(region + ": " + count + " owe " + due.toFixed(2) + " (" + names.slice(0, 3).join(", ") + ")");
			return this;
		}
		toString() { return this.#lines.sort().join("\n"); }
	}
	const report = new Report();
	for (const [region, r] of byRegion) report.add(region, r);
	await null;
	return { report: String(report), total: open.reduce((s, c) => s + c.due, 0), json: JSON.parse(JSON.stringify(open)).length };
})`

func benchDriver(b *testing.B) *Driver {
	b.Helper()
	d, err := New(Config{})
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	b.Cleanup(func() { _ = d.Close() })
	if _, err := d.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	return d
}

func BenchmarkSandbox(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		s, err := d.Create(b.Context(), sandbox.Spec{})
		if err != nil {
			b.Fatalf("Create: %v", err)
		}
		_ = s.Close()
	}
}

// BenchmarkFirstEval creates a guest and evaluates an expression in it, without the driver's pump.
func BenchmarkFirstEval(b *testing.B) {
	b.Run("own", func(b *testing.B) {
		d := benchDriver(b)
		k, err := d.kind("js")
		if err != nil {
			b.Fatalf("kind: %v", err)
		}
		for b.Loop() {
			s, err := d.newSandbox(k, sandbox.Spec{Memory: defaultMemory})
			if err != nil {
				b.Fatalf("newSandbox: %v", err)
			}
			g := s.guest
			if err := g.enter(func() error {
				_, err := g.engine.(*jsEngine).eval("6 * 7", "x")
				return err
			}); err != nil {
				b.Fatalf("enter: %v", err)
			}
			_ = s.Close()
		}
	})
	b.Run("wazero", func(b *testing.B) { // boots, as it has no image
		e := newWazeroEngine(b)
		for b.Loop() {
			m := e.machine(b)
			evaluate(m, bootMachine(m), "6 * 7")
			_ = m.mod.Close(context.Background())
		}
	})
}

// BenchmarkProgram runs a whole program in a fresh sandbox, over the guest stream.
func BenchmarkProgram(b *testing.B) {
	for name, code := range map[string]string{"one line": "(() => 42)", "thirty lines": thirtyLines} {
		b.Run(name, func(b *testing.B) {
			d := benchDriver(b)
			for b.Loop() {
				if o := sandboxtest.Exec(b.Context(), b, d, sandbox.Spec{}, code, sandboxtest.Host{}); !o.Done {
					b.Fatalf("o = %v, want o.Done", o)
				}
			}
		})
	}
}

// BenchmarkCalls makes 100 concurrent calls that are answered immediately.
func BenchmarkCalls(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		o := sandboxtest.Exec(b.Context(), b, d, sandbox.Spec{},
			`(async () => (await Promise.all(Array.from({ length: 100 }, (_, i) => test.echo({ i })))).length)`,
			sandboxtest.Host{Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
				return &sandbox.Answer{Value: c.Args}
			}})
		if string(o.Value) != "100" {
			b.Fatalf(`o = %v, want string(o.Value) == "100"`, o)
		}
	}
}

// BenchmarkHostCall measures a synchronous call of a host function by the guest.
func BenchmarkHostCall(b *testing.B) {
	d, err := New(Config{Prelude: `(() => { const host = __host; delete globalThis.__host;
		return { deliver(n) { for (let i = 0; i < n; i++) host("now"); host("write", "\n"); }, idle() {} }; })()`})
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	defer func() { _ = d.Close() }()
	s, err := d.Create(b.Context(), sandbox.Spec{CPU: 1 << 50})
	if err != nil {
		b.Skip(err)
	}
	in, out := io.Pipe()
	w := make(chan struct{})
	go func() { _, _ = fmt.Fprintf(out, "%d\n", b.N) }()
	go func() {
		<-w
		_ = out.Close()
	}()
	_, err = s.Run(b.Context(), &sandbox.Cmd{Guest: struct {
		io.Reader
		io.Writer
	}{in, writerFunc(func(p []byte) (int, error) { close(w); return len(p), nil })}})
	if err != nil {
		b.Fatalf("Run: %v", err)
	}
	_ = s.Close()
}

type writerFunc func([]byte) (int, error)

// Write calls f.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// BenchmarkCPU compares the speed of the translated module with that of wazero's compiler.
func BenchmarkCPU(b *testing.B) {
	for _, c := range []struct{ name, code string }{
		{"fib", "(function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); })(20)"},
		{"json", `JSON.stringify(JSON.parse(JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: "text " + ` +
			`i, a: [i, i / 3] }))))).length`},
		{"sort", `Array.from({ length: 5000 }, (_, i) => ({ k: (i * 7919) % 5003 })).sort((a, b) => a.k - b.k)[7].k`},
		{"regexp", `"lorem ipsum dolor sit amet ".repeat(1000).match(/\b(\w)\w+\1?\b/g).length`},
		{"hash", "(() => { let h = 1; for (let i = 0; i < 50000; i++) h = (Math.imul(h ^ (i & 255), 16777619) << 3 | " +
			"h >>> 29) >>> 0; return h; })()"},
	} {
		b.Run(c.name+"/own", func(b *testing.B) {
			m := newOwnMachine(b)
			s := bootMachine(m)
			for b.Loop() {
				evaluate(m, s, c.code)
			}
		})
		b.Run(c.name+"/wazero", func(b *testing.B) {
			m := newWazeroEngine(b).machine(b)
			s := bootMachine(m)
			for b.Loop() {
				evaluate(m, s, c.code)
			}
		})
	}
}

// BenchmarkBoot makes the image, which includes the engine and the prelude.
func BenchmarkBoot(b *testing.B) {
	l := javaScript()
	for b.Loop() {
		img, err := bootImage(l)
		if err != nil {
			b.Fatalf("bootImage: %v", err)
		}
		img.close()
	}
}

// BenchmarkCrowded runs a short program next to endless ones, with and without turns.
func BenchmarkCrowded(b *testing.B) {
	for _, n := range []int{16, 100} {
		b.Run(fmt.Sprintf("turns/%d", n), func(b *testing.B) { crowded(b, n, Config{}) })
		b.Run(fmt.Sprintf("no turns/%d", n), func(b *testing.B) { crowded(b, n, Config{Parallel: 1000}) })
	}
}

func crowded(b *testing.B, n int, cfg Config) {
	d, err := New(cfg)
	if err != nil {
		b.Fatalf("New: %v", err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Probe(b.Context()); err != nil {
		b.Skip(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			s, err := d.Create(ctx, sandbox.Spec{CPU: 1 << 50})
			if err != nil {
				b.Errorf("Create: %v", err)
				return
			}
			sandboxtest.Host{}.Run(ctx, s, sandbox.Run{Code: "(() => { for (;;); })", Name: strings.Repeat("x", 3)})
			_ = s.Close()
		}()
	}
	for b.Loop() {
		if o := sandboxtest.Exec(b.Context(), b, d, sandbox.Spec{}, thirtyLines, sandboxtest.Host{}); !o.Done {
			b.Fatalf("o = %v, want o.Done", o)
		}
	}
	stop()
	for range n {
		<-done
	}
}
