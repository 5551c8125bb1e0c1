package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A kept is a sandbox whose guest persists between Runs.
type kept struct {
	t testing.TB
	*Sandbox
}

func newKept(t testing.TB, d *Driver, spec sandbox.Spec) kept {
	t.Helper()
	s, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return kept{t, s.(*Sandbox)}
}

// say sends lines and returns the guest's output.
func (k kept) say(lines ...string) string {
	k.t.Helper()
	c := &script{Reader: strings.NewReader(strings.Join(lines, "\n") + "\n")}
	if _, err := k.Run(k.t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
		k.t.Fatalf("Run: %v", err)
	}
	return c.String()
}

func (k kept) snapshot() []byte {
	k.t.Helper()
	b, err := k.Snapshot(k.t.Context())
	if err != nil {
		k.t.Fatalf("Snapshot: %v", err)
	}
	return b
}

func restore(t testing.TB, d *Driver, b []byte) kept {
	t.Helper()
	s, err := d.Restore(t.Context(), sandbox.Spec{}, b)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return kept{t, s.(*Sandbox)}
}

// program returns a line that runs code.
func program(code string) string {
	return fmt.Sprintf(`{"at":1767225700000,"run":{"code":%q,"name":"p.js","session":true,"seed":"%064x",`+
		`"namespaces":{"test":["echo"]}}}`, code, 7)
}

func realDriver(t testing.TB, cfg Config) *Driver {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestSnapshot snapshots waiting guests, and continues in the original, in a restored
// guest and in a fork.
func TestSnapshot(t *testing.T) {
	d := realDriver(t, Config{})
	for _, code := range []string{
		`(async () => { const a = Array.from({ length: 500 }, (_, i) => ({ i, s: "s" + i })); const x = await ` +
			`test.echo({ n: 1 }); return [x, a[499], Math.random(), Date.now()]; })`,
		`(async () => { const deep = (n) => n ? 1 + deep(n - 1) : 0; const d = deep(1000); const r = await ` +
			`Promise.all([1, 2, 3].map((i) => test.echo({ i }))); return [r, d, new Map([[1, new Set([2])]])]; })`,
		`(async () => { const big = []; for (let i = 0; i < 60000; i++) big.push({ i, t: "text " + i }); await ` +
			`test.echo({}); return big.filter((x) => x.i % 20000 === 7); })`,
	} {
		k := newKept(t, d, sandbox.Spec{Memory: 64 << 20})
		first := k.say(program(code))
		n := strings.Count(first, `{"call":`)
		if n == 0 {
			t.Fatalf("code = %s, first = %s, want n != 0", code, first)
		}
		b := k.snapshot()
		if again := k.snapshot(); !bytes.Equal(b, again) {
			t.Error("a snapshot changes the guest")
		}
		forked, err := k.Fork(t.Context())
		if err != nil {
			t.Fatalf("Fork: %v", err)
		}
		f := kept{t, forked.(*Sandbox)}
		r := restore(t, d, b)
		if again := r.snapshot(); !bytes.Equal(b, again) {
			t.Error("what was restored has another snapshot")
		}
		if again := f.snapshot(); !bytes.Equal(b, again) {
			t.Error("a fork has another snapshot")
		}
		var answers []string
		for i := range n {
			answers = append(answers,
				fmt.Sprintf(`{"at":1767225800000,"answer":{"id":%d,"value":{"answered":%d}}}`, i+1, i))
		}
		want := k.say(answers...)
		if !strings.Contains(want, `"done":{"value"`) {
			t.Errorf("it didn't end: %s", want)
		}
		for name, x := range map[string]kept{"restored": r, "forked": f} {
			if got := x.say(answers...); got != want {
				t.Errorf("%s: %s, the original %s", name, got, want)
			}
		}
		t.Logf("%d bytes: %.60s", len(b), code)
		_ = f.Close()
		_ = r.Close()
	}
}

// TestForkAgain forks a guest twice, runs it, and forks it again. Each copy has the state at the
// time of its fork.
func TestForkAgain(t *testing.T) {
	k := newKept(t, realDriver(t, Config{}), sandbox.Spec{})
	k.say(program(`(() => { globalThis.n = 1; globalThis.more = []; })`))
	fork := func() kept {
		s, err := k.Fork(t.Context())
		if err != nil {
			t.Fatalf("Fork: %v", err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return kept{t, s.(*Sandbox)}
	}
	first, second := fork(), fork()
	k.say(program(`(() => { n = 2; for (let i = 0; i < 1000; i++) more.push({ i, s: "x" + i }); })`))
	for want, c := range map[string]kept{"[1,0]": first, "[1,0] ": second, "[2,1000]": fork(), "[2,1000] ": fork()} {
		if got := c.say(program(`(() => [n, more.length])`)); !strings.Contains(got, strings.TrimSpace(want)) {
			t.Errorf("the value in a copy is %s, want %s", got, want)
		}
	}
}

// TestDirty checks that scanning the page map finds the same changed pages as comparing memory.
func TestDirty(t *testing.T) {
	d := realDriver(t, Config{})
	if d.cfg.Pagemap == nil {
		t.Skip("this system doesn't scan page maps")
	}
	k := newKept(t, d, sandbox.Spec{})
	k.say(program(`(() => { globalThis.big = Array.from({ length: 30000 }, (_, i) => ({ i })); })`))
	img, err := k.kind.loadImage()
	if err != nil {
		t.Fatalf("loadImage: %v", err)
	}
	memory := k.region.memory()
	parts, ok := scanPages(d.cfg.Pagemap, memory)
	if !ok {
		t.Fatal("the scan failed")
	}
	got, want := differing(memory, img.base, parts), differing(memory, img.base, whole(memory))
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%d pages by the page map, %d by comparing", len(got), len(want))
	}
}

// TestDead overwrites dead memory with garbage, which the guest must not notice.
func TestDead(t *testing.T) {
	d := realDriver(t, Config{})
	const code = `(() => { globalThis.keep = globalThis.keep || []; for (let i = 0; i < 2000; i++) { const x = { i, s: "x" + i, f: () => i }; if (i % 3) keep.push(x); }
		keep = keep.filter((x) => x.f() % 2); return [keep.length, JSON.stringify(keep).length, /x(\d+)/.exec(keep.at(-1).s)[1]]; })`
	clean, dirty := newKept(t, d, sandbox.Spec{}), newKept(t, d, sandbox.Spec{})
	for i := range 20 {
		if i%5 == 4 {
			dirty.snapshot() // drops dead memory
		}
		want, got := clean.say(program(code)), dirty.say(program(code))
		if got != want {
			t.Fatalf("round %d: %s, want %s", i, got, want)
		}
		n, memory := 0, dirty.region.memory()
		for _, s := range dirty.guest.engine.dead() {
			for at := s.from; at < s.to; at++ {
				memory[at] = 0xa5
			}
			n += int(s.to - s.from)
		}
		if n < 1<<20 {
			t.Fatalf("only %d bytes are dead", n)
		}
	}
}

// TestSnapshotMisuse requests snapshots when none are possible, and restores invalid ones.
func TestSnapshotMisuse(t *testing.T) {
	d := realDriver(t, Config{})
	k := newKept(t, d, sandbox.Spec{Memory: 32 << 20})
	if _, err := k.Snapshot(t.Context()); err == nil {
		t.Error("a snapshot before the first Run")
	}
	if _, err := k.Fork(t.Context()); err == nil {
		t.Error("a fork before the first Run")
	}
	k.say(program(`(() => 1)`))
	b := k.snapshot()
	for name, bad := range map[string][]byte{
		"empty": nil, "short": b[:20], "cut": b[:len(b)-1], "longer": append(slices.Clone(b), 0),
		"text":    []byte(strings.Repeat("biplane state 1\n", 10)),
		"changed": func() []byte { c := slices.Clone(b); c[len(c)/2]++; return c }(),
	} {
		if _, err := d.Restore(t.Context(), sandbox.Spec{}, bad); err == nil ||
			!strings.HasPrefix(err.Error(), "can't restore the snapshot: ") {
			t.Errorf("%s, err = %v, want err != nil && strings.HasPrefix(err.Error(), \"can't restore "+
				"the snapshot: \")", name, err)
		}
	}
	for _, spec := range []sandbox.Spec{{Memory: 64 << 20}, {Runtime: "cobol"}} {
		if _, err := d.Restore(t.Context(), spec, b); err == nil {
			t.Errorf("restored as %+v", spec)
		}
	}
	other := realDriver(t, Config{Prelude: `delete globalThis.__host; ({ deliver() {}, idle() {} })`})
	var engine *sandbox.EngineError
	if _, err := other.Restore(t.Context(), sandbox.Spec{}, b); !errors.As(err, &engine) {
		t.Errorf("another engine's: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := k.Snapshot(t.Context()); !errors.Is(err, errDriverClosed) {
		t.Errorf("a snapshot without a driver: %v", err)
	}
}
