package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestReset checks that a region returned by a guest equals the image, byte for byte, whether or
// not its pages were kept.
func TestReset(t *testing.T) {
	d := realDriver(t, Config{})
	for _, code := range []string{
		`(() => 1)`,
		`(() => { globalThis.secret = Array.from({ length: 3000 }, (_, i) => "secret " + i); })`,
		`(() => { globalThis.big = Array.from({ length: 100000 }, (_, i) => ({ i })); })`,
		`(() => { const f = (n) => n ? 1 + f(n - 1) : 0; return f(1500); })`,
	} {
		k := newKept(t, d, sandbox.Spec{})
		k.say(program(code))
		img, region := k.img, k.region
		if err := k.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		d.pool.fills.Wait() // the fills add other regions
		found := false
		for _, r := range d.pool.ready[img] {
			found = found || r == region
			if b := r.memory(); !bytes.Equal(b, img.base) {
				t.Errorf("%s: a region for the next guest isn't as the image", code)
			}
		}
		if !found {
			t.Errorf("%s: its region is not among the ready ones", code)
		}
	}
}

// TestCorrupt writes garbage into a guest's memory between its entries. The guest must end with a
// value or an error, and the process must survive.
func TestCorrupt(t *testing.T) {
	d := realDriver(t, Config{})
	random := rand.New(rand.NewPCG(1, 2))
	const first = `(() => { globalThis.s = { a: [1, 2, 3], m: new Map([["k", { v: "text" }]]), f: (x) => x * 2, t: ` +
		`"y".repeat(1000) }; return 1; })`
	const second = `(async () => { const c = []; for (let i = 0; i < 300; i++) c.push({ i, s: "x" + i }); await ` +
		`test.echo; return [s.a.map(s.f), s.m.get("k").v, s.t.replace(/y/g, "z").length, JSON.stringify(c).length]; })`
	ends := map[string]int{}
	base := newKept(t, d, sandbox.Spec{Memory: 32 << 20, CPU: 200 * time.Millisecond})
	base.say(program(first))
	for range 150 {
		made, err := base.Fork(t.Context())
		if err != nil {
			t.Fatalf("Fork: %v", err)
		}
		s := made.(*Sandbox)
		memory := s.region.memory()
		pages := s.changedPages(s.img)
		for range 1 + random.IntN(200) {
			at := int(pages[random.IntN(len(pages))])*pageSize + random.IntN(pageSize-4)
			if random.IntN(4) == 0 {
				at = 1<<20 + random.IntN(len(memory)-1<<20-4)
			}
			binary.LittleEndian.PutUint32(memory[at:], []uint32{0, 1, 0xffffffff, 0x7fffffff, uint32(at),
				random.Uint32(), random.Uint32() % (1 << 23)}[random.IntN(7)])
		}
		c := &script{Reader: strings.NewReader(program(second) + "\n" + program(second) + "\n")}
		_, err = s.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true})
		var limit *sandbox.LimitError
		switch {
		case errors.As(err, &limit):
			ends[limit.Limit]++
		case err != nil:
			ends["error"]++
			if strings.Contains(err.Error(), "panic in the host side") {
				t.Errorf(`err = %v, want !strings.Contains(err.Error(), "panic in the host side")`, err)
			}
		default:
			ends["value"]++
			if _, err := s.Snapshot(t.Context()); err != nil {
				ends["not a snapshot"]++
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	t.Log(ends)
	if fresh := newKept(t, d, sandbox.Spec{}); !strings.Contains(fresh.say(program(first)), `"done"`) {
		t.Error("a fresh guest was harmed")
	}
}

// TestKeep checks that a kept guest receives every line, and that its Run ends only when no work is
// left.
func TestKeep(t *testing.T) {
	d := testDriver(t, `(() => { const host = __host; delete globalThis.__host; let n = 0; const say = (x) => host("write", x + "\n");
		return { deliver(l) { n++; if (l === "work") { let k = 0; const f = () => ++k < 200000 ? Promise.resolve().then(f) : say("worked"); f(); } else say(l + n); }, idle() {} }; })()`)
	k := newKept(t, d, sandbox.Spec{CPU: 20 * time.Second})
	if got := k.say("a", "work", "b"); got != "a1\nworked\nb3\n" {
		t.Errorf(`got = %q, want "a1\nworked\nb3\n"`, got)
	}
	if got := k.say("c"); got != "c4\n" {
		t.Errorf(`got = %q, want "c4\n"`, got)
	}
	if got := k.say(); got != "5\n" {
		t.Errorf("an empty line: %q", got)
	}
	cmd := &sandbox.Cmd{Guest: &script{Reader: strings.NewReader("work\n")}, Keep: true, CPU: time.Millisecond}
	var limit *sandbox.LimitError
	if _, err := k.Run(t.Context(), cmd); !errors.As(err, &limit) || limit.Limit != "cpu" ||
		!strings.Contains(err.Error(), "1ms") {
		t.Errorf("more CPU time than the Run has: %v", err)
	}
	if cmd.Usage.CPU < time.Millisecond || cmd.Usage.Memory < 1<<20 {
		t.Errorf("usage %+v", cmd.Usage)
	}
	if _, err := k.Run(t.Context(), cmd); err == nil {
		t.Error("it ran again")
	}
	for name, f := range map[string]func() error{
		"snapshot": func() error { _, err := k.Snapshot(t.Context()); return err },
		"fork":     func() error { _, err := k.Fork(t.Context()); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("a %s after an error", name)
		}
	}
}

// testDriver returns a driver with the given prelude.
func testDriver(t testing.TB, prelude string) *Driver { return realDriver(t, Config{Prelude: prelude}) }

// asker is a prelude that evaluates each line as a script.
const asker = `(() => { const host = __host; delete globalThis.__host; globalThis.ask = (s) => host("ask", s); globalThis.say = (s) => host("write", s + "\n");
	return { deliver(l) { (0, eval)(l); }, idle() {} }; })()`

// TestAsk stops guests that are blocked in ask, and sends answers too large for a guest.
func TestAsk(t *testing.T) {
	d := testDriver(t, asker)
	run := func(ctx context.Context, spec sandbox.Spec, line string, ask func(context.Context, []byte) []byte) (string,
		*sandbox.Cmd, error) {
		s, err := d.Create(ctx, spec)
		if err != nil {
			t.Skip(err)
		}
		defer func() { _ = s.Close() }()
		cmd := &sandbox.Cmd{Guest: &script{Reader: strings.NewReader(line + "\n")}, Ask: ask, Keep: true}
		_, err = s.Run(ctx, cmd)
		return cmd.Guest.(*script).String(), cmd, err
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, _, err := run(ctx, sandbox.Spec{}, `try { ask("x") } catch {} ; say("on")`,
		func(ctx context.Context, _ []byte) []byte {
			cancel(stopped)
			<-ctx.Done()
			return []byte("late")
		})
	if !errors.Is(err, stopped) {
		t.Errorf("a guest that stood still: %v", err)
	}
	out, cmd, err := run(t.Context(), sandbox.Spec{CPU: 50 * time.Millisecond}, `say(ask("x"))`,
		func(context.Context, []byte) []byte {
			for end := time.Now().Add(150 * time.Millisecond); time.Now().Before(end); {
			}
			return []byte("slow")
		})
	if err != nil || out != "slow\n" || cmd.Usage.CPU > 50*time.Millisecond {
		t.Errorf("an answer that took its time: %q, %v, %+v", out, err, cmd.Usage)
	}
	var limit *sandbox.LimitError
	_, _, err = run(t.Context(), sandbox.Spec{Memory: 16 << 20}, `ask("x")`, func(context.Context, []byte) []byte {
		return bytes.Repeat([]byte("x"), 17<<20)
	})
	if !errors.As(err, &limit) || limit.Limit != "memory" {
		t.Errorf("an answer that fills the memory: %v", err)
	}
	_, _, err = run(t.Context(), sandbox.Spec{Output: 1000}, `for (;;) ask("x".repeat(100))`,
		func(context.Context, []byte) []byte { return nil })
	if !errors.As(err, &limit) || limit.Limit != "output" {
		t.Errorf("questions without end: %v", err)
	}
	out, _, err = run(t.Context(), sandbox.Spec{}, `say(typeof ask("x"))`, nil)
	if err != nil || out != "undefined\n" {
		t.Errorf("nobody answers: %q, %v", out, err)
	}
}

// TestAskTurns checks that guests blocked in ask don't keep others from running.
func TestAskTurns(t *testing.T) {
	d := realDriver(t, Config{Prelude: asker, Parallel: 1})
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	done := make(chan error)
	for range 8 {
		k := newKept(t, d, sandbox.Spec{})
		go func() {
			_, err := k.Run(t.Context(), &sandbox.Cmd{Guest: &script{Reader: strings.NewReader("ask('x')\n")},
				Keep: true, Ask: func(context.Context, []byte) []byte {
					asked <- struct{}{}
					<-release
					return nil
				}})
			done <- err
		}()
	}
	for range 8 {
		<-asked
	}
	if got := newKept(t, d, sandbox.Spec{}).say("say(6 * 7)"); got != "42\n" {
		t.Errorf(`got = %q, want "42\n"`, got)
	}
	close(release)
	for range 8 {
		if err := <-done; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	}
}

// A closer is a stream from a reader and a writer.
type closer struct {
	io.Reader
	io.Writer
}

// TestGoneReader checks that a guest runs to its end although its host no longer reads.
func TestGoneReader(t *testing.T) {
	d := testDriver(t, asker)
	k := newKept(t, d, sandbox.Spec{})
	r, w := io.Pipe()
	_ = r.Close()
	if _, err := k.Run(t.Context(),
		&sandbox.Cmd{Guest: closer{strings.NewReader("say('x'); globalThis.n = 1\nsay('y'); n++\n"), w},
			Keep: true}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := k.say("say(n)"); got != "2\n" {
		t.Errorf(`got = %q, want "2\n"`, got)
	}
}

// forge returns a snapshot for this engine with arbitrary fields and pages.
func forge(t testing.TB, img *image, fields []byte, rest []byte) []byte {
	t.Helper()
	var c codec
	b, err := c.pack(head{stateMagic, img.lang.name, img.id}, zstd.SpeedFastest, fields, nil, nil)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatalf("zstd.NewWriter: %v", err)
	}
	if _, err := w.Write(append(slices.Clone(fields), rest...)); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	b = append(b[:headSize:headSize], z.Bytes()...)
	return binary.LittleEndian.AppendUint32(b, castagnoli(b))
}

// TestRestoreTooLarge restores a snapshot that claims more memory than a guest may have. Its list
// of pages could then have any length, and must not be read.
func TestRestoreTooLarge(t *testing.T) {
	d := realDriver(t, Config{})
	k := newKept(t, d, sandbox.Spec{Memory: 16 << 20})
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32(nil, 1<<31), 16<<20/wasmPage)
	b = append(le.AppendUint64(b, bootTime), make([]byte, 8)...)
	b = le.AppendUint32(b, 1<<31) // a number of pages with no pages following
	if s, err := d.Restore(t.Context(), sandbox.Spec{}, forge(t, k.img, b, nil)); err == nil ||
		!strings.Contains(err.Error(), "bytes of memory for it") {
		t.Errorf("s = %v, err = %v, want err != nil && strings.Contains(err.Error(), \"bytes of memory "+
			"for it\")", s, err)
	}
}

// FuzzRestore restores snapshots with a valid format, header and checksum, but arbitrary contents.
// Each must yield an error or a guest that stays within the sandbox.
func FuzzRestore(f *testing.F) {
	d := realDriver(f, Config{})
	k := newKept(f, d, sandbox.Spec{Memory: 16 << 20})
	k.say(program(`(() => { globalThis.a = [1]; })`))
	img := k.img
	h, u, err := d.codec.open(k.snapshot(), stateMagic)
	if err != nil || h.id != img.id {
		f.Fatalf("err = %v, want err == nil && h.id == img.id", err)
	}
	all, err := io.ReadAll(u.d)
	if err != nil {
		f.Fatalf("io.ReadAll: %v", err)
	}
	u.close()
	f.Add(all)
	f.Add(all[:40])
	le := binary.LittleEndian
	head := func(size, max uint32, clock uint64, readings, state uint32) []byte {
		b := le.AppendUint32(le.AppendUint32(nil, size), max)
		return le.AppendUint32(le.AppendUint32(le.AppendUint64(b, clock), readings), state)
	}
	for _, b := range [][]byte{
		head(1<<31, 1<<31, bootTime, 0, 0), head(100, 256, bootTime, 0, 1<<31), head(100, 256, 1<<63, 0, 0),
		head(256, 256, bootTime, 0, 0),
		le.AppendUint32(head(100, 256, bootTime, 0, 0), 1<<32-1),
		append(le.AppendUint32(head(100, 256, bootTime, 0, 0), 1), bytes.Repeat([]byte{0xff}, 1<<16)...),
		append(le.AppendUint32(head(256, 256, bootTime, 0, 0), 1),
			append([]byte{0, 0, 0, 0, 0, 16, 0, 0}, bytes.Repeat([]byte{0xff}, 1<<20)...)...),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, fields []byte) {
		s, err := d.Restore(t.Context(), sandbox.Spec{CPU: 50 * time.Millisecond, Output: 1 << 20},
			forge(t, img, fields, nil))
		if err != nil {
			if s != nil || !strings.HasPrefix(err.Error(), "can't restore the snapshot") {
				t.Fatalf("s = %v, err = %v, want s == nil && strings.HasPrefix(err.Error(), \"can't "+
					"restore the snapshot\")", s, err)
			}
			return
		}
		c := &script{Reader: strings.NewReader(program(`(() => a)`) + "\n")}
		if _, err := s.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil &&
			strings.Contains(err.Error(), "panic in the host side") {
			t.Errorf(`err = %v, want err == nil || !strings.Contains(err.Error(), "panic in the host side")`, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// FuzzOpen opens any bytes as a snapshot.
func FuzzOpen(f *testing.F) {
	d := realDriver(f, Config{})
	k := newKept(f, d, sandbox.Spec{Memory: 16 << 20})
	k.say(program(`(() => 1)`))
	f.Add(k.snapshot())
	f.Add([]byte(stateMagic + fmt.Sprintf("%100d", 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := d.Restore(t.Context(), sandbox.Spec{}, b)
		if err == nil {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// BenchmarkStop reports the longest time between canceling a guest and its end, in hard cases.
func BenchmarkStop(b *testing.B) {
	d := realDriver(b, Config{Prelude: asker})
	for _, code := range []string{
		`say(1); for (;;);`,
		`say(1); for (;;) try { for (;;); } catch {}`,
		`say(1); for (;;) (7n ** 300000n).toString()`,
		`var s = "1".repeat(1e6); say(1); for (;;) s.indexOf("2")`,
		`var c = "[".repeat(3000) + "]".repeat(3000); say(1); for (;;) JSON.parse(c)`,
		`say(1); /(a*)*b/.test("a".repeat(60))`,
		`say(1); Array.prototype.sort.call({ length: 2 ** 32 })`,
		`say(1); [].indexOf.call({ length: 2 ** 53 - 1 }, 1)`,
	} {
		b.Run(fmt.Sprintf("%.50s", strings.TrimSpace(code)), func(b *testing.B) {
			worst := time.Duration(0)
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				k := newKeptQuick(b, d)
				var at time.Time
				_, err := k.Run(ctx,
					&sandbox.Cmd{Guest: closer{strings.NewReader(code + "\n"), writerFunc(func(p []byte) (int, error) {
						at = time.Now()
						cancel()
						return len(p), nil
					})}, Keep: true})
				if worst = max(worst, time.Since(at)); err == nil {
					b.Fatal("it ended well")
				}
				cancel()
				_ = k.Close()
			}
			b.ReportMetric(float64(worst.Microseconds()), "worst-us")
		})
	}
}
