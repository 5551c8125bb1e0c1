// Package sandboxtest provides the test suite that every kind of sandbox must pass, a host to run
// programs in tests, and a fake driver.
package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// small has limits that end a hostile program quickly.
var small = sandbox.Spec{Memory: 64 << 20, CPU: 300 * time.Millisecond, Output: 4 << 20}

// roomy has limits that no program of the suite reaches.
var roomy = sandbox.Spec{Memory: 64 << 20, CPU: 20 * time.Second}

// Run runs the suite on d, in each language that it runs. It skips the suite, with the reason, if d
// can't run.
func Run(t *testing.T, d sandbox.Driver) {
	c, err := d.Probe(t.Context())
	if err != nil {
		t.Skipf("this kind can't run here: %v", err)
	}
	if c.Ephemeral {
		d = roomier{d}
	}
	t.Logf("%s: %s", c.Driver, c.Engine)
	if c.Driver == "" || c.Engine == "" {
		t.Errorf("capabilities without names: %+v", c)
	}
	t.Run("capabilities", func(t *testing.T) { checkCapabilities(t, d, c) })
	spoken, missing := languages(c)
	if len(spoken) == 0 {
		t.Fatalf("%s runs none of %s: the suite has nothing else", c.Driver, strings.Join(missing, ", "))
	}
	if len(missing) > 0 {
		t.Logf("%s runs no %s: the suite has nothing in it", c.Driver, strings.Join(missing, ", "))
	}
	if slices.Contains(c.Runtimes, "js") {
		checkJavaScript(t, d, c)
	}
	for _, l := range spoken {
		t.Run(l.runtime, func(t *testing.T) { checkLanguage(t, d, l, c.Ephemeral) })
	}
}

// checkJavaScript runs what the suite has in JavaScript only.
func checkJavaScript(t *testing.T, d sandbox.Driver, c sandbox.Capabilities) {
	t.Run("values", func(t *testing.T) { checkValues(t, d) })
	t.Run("errors", func(t *testing.T) { checkFailures(t, d) })
	t.Run("calls", func(t *testing.T) { checkCalls(t, d) })
	t.Run("long", func(t *testing.T) { checkLongLines(t, d) })
	t.Run("orders", func(t *testing.T) { checkOrders(t, d) })
	t.Run("limits", func(t *testing.T) { checkLimits(t, d) })
	t.Run("isolation", func(t *testing.T) { checkIsolation(t, d, c.Ephemeral) })
	t.Run("crowd", func(t *testing.T) { checkCrowd(t, d) })
	t.Run("misuse", func(t *testing.T) { checkMisuse(t, d) })
	t.Run("leftovers", func(t *testing.T) { leftovers(t, d) })
}

// checkLanguage runs what the suite has in each language. The guests of an ephemeral driver are
// processes, which can be neither stored nor replayed.
func checkLanguage(t *testing.T, d sandbox.Driver, l language, ephemeral bool) {
	t.Run("cancel", func(t *testing.T) { checkCancel(t, d, l) })
	t.Run("close", func(t *testing.T) { checkClosing(t, d, l) })
	t.Run("keep", func(t *testing.T) { keeping(t, d, l, ephemeral) })
	if !ephemeral {
		t.Run("copy", func(t *testing.T) { copying(t, d, l) })
		t.Run("misuse", func(t *testing.T) { misusing(t, d, l) })
		t.Run("determinism", func(t *testing.T) { determinism(t, d, l) })
	}
	if l.runtime != "js" { // checkJavaScript has more of them
		t.Run("limits", func(t *testing.T) { enduring(t, d, l) })
	}
}

// A roomier is a driver whose sandboxes have the memory that an interpreter needs for itself.
type roomier struct{ sandbox.Driver }

// Create creates a sandbox with more memory than spec says.
func (d roomier) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Memory >= small.Memory {
		spec.Memory += 128 << 20
	}
	return d.Driver.Create(ctx, spec)
}

// checkCapabilities checks what a host relies on when it chooses among drivers and continues
// guests: a known tier, runtimes that can be created, no others, and the same engines each time.
func checkCapabilities(t *testing.T, d sandbox.Driver, c sandbox.Capabilities) {
	if tier, err := tool.ParseTier(c.Tier.String()); err != nil || tier != c.Tier {
		t.Errorf("the tier is %s: %v", c.Tier, err)
	}
	for _, runtime := range c.Runtimes {
		spec := roomy
		spec.Runtime = runtime
		box, err := d.Create(t.Context(), spec)
		if err != nil {
			t.Errorf("runtime %q: %v", runtime, err)
			continue
		}
		_, snapshots := box.(sandbox.Snapshotter)
		if _, restores := d.(sandbox.Restorer); snapshots != restores {
			t.Errorf("runtime %q: snapshots %t, restores %t: guests can be kept only with both", runtime,
				snapshots, restores)
		}
		if err := box.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	spec := roomy
	spec.Runtime = "no such runtime"
	if box, err := d.Create(t.Context(), spec); err == nil {
		t.Errorf("a sandbox for %q was created: %v", spec.Runtime, box.Close())
	}
	again, err := d.Probe(t.Context())
	c.Details, again.Details = nil, nil
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("the second Probe returned %+v, %v; the first %+v", again, err, c)
	}
}

// echo answers a call with its arguments.
func echo(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
	return &sandbox.Answer{Value: c.Args}
}

func checkValues(t *testing.T, d sandbox.Driver) {
	for _, c := range []struct{ code, want string }{
		{`() => 42`, `42`},
		{`async () => ({ a: [1, "é€😀", null, true] })`, `{"a":[1,"é€😀",null,true]}`},
		{`async () => { await 0; }`, ``},
		{`() => 123456789012345678901234567890n`, `123456789012345678901234567890`},
		{`async () => (await callTool("test.echo", { n: 12345678901234567890n })).n + 1n`, `12345678901234567891`},
		{`async () => (await tools.test.echo({ s: "\u2028\\n\"" })).s`, `"` + "\u2028" + `\\n\""`},
		{`async () => { const t = Date.now(); await new Promise((ok) => setTimeout(ok, 20)); return Date.now() - t ` +
			`>= 20 }`, `true`},
	} {
		o := Exec(t.Context(), t, d, roomy, "("+c.code+")", Host{Call: echo})
		if !o.Done || string(o.Value) != c.want || o.Err != nil || o.Exit != 0 {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		}
	}
}

func checkFailures(t *testing.T, d sandbox.Driver) {
	for _, c := range []struct{ code, name, text, kind string }{
		{`(() => { throw new RangeError("too far") })`, "RangeError", "too far", ""},
		{`(async () => { await 0; throw new TypeError("no") })`, "TypeError", "no", ""},
		{`(() => { `, "SyntaxError", "", ""},
		{`(() => new Promise(() => {}))`, "", "", "stalled"},
		{`(async () => { await test.echo({ fail: true }) })`, "ToolError", "it failed", "unavailable"},
	} {
		o := Exec(t.Context(), t, d, roomy, c.code,
			Host{Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
				return &sandbox.Answer{Error: &sandbox.GuestError{Message: "it failed", Kind: "unavailable",
					Upstream: "test", Tool: "echo"}}
			}})
		if o.Fail == nil || c.name != "" && o.Fail.Name != c.name || !strings.Contains(o.Fail.Message, c.text) ||
			o.Fail.Kind != c.kind || o.Err != nil {
			t.Errorf("c.code = %s, o = %v", c.code, o)
		}
	}
}

// checkCalls makes a hundred calls, none of which is answered before all are made.
func checkCalls(t *testing.T, d sandbox.Driver) {
	const n = 100
	var mu sync.Mutex
	made, all := 0, make(chan struct{})
	o := Exec(t.Context(), t, d, roomy, `(async () => {
		const r = await Promise.all(Array.from({ length: 100 }, (_, i) => test.echo({ i })));
		return r.map((x) => x.i).join();
	})`, Host{Call: func(ctx context.Context, c *sandbox.GuestCall) *sandbox.Answer {
		mu.Lock()
		if made++; made == n {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-ctx.Done():
		}
		return &sandbox.Answer{Value: c.Args}
	}})
	var got string
	if err := json.Unmarshal(o.Value, &got); err != nil || len(strings.Split(got, ",")) != n ||
		!strings.HasPrefix(got, "0,1,2,") {
		t.Errorf("o = %v, want err == nil && len(strings.Split(got, \",\")) == n && "+
			"strings.HasPrefix(got, \"0,1,2,\")", o)
	}
}

// checkLongLines answers two calls with the longest line that the host may send. Together they
// exceed what may wait for a guest elsewhere.
func checkLongLines(t *testing.T, d sandbox.Driver) {
	const n = 24 << 20
	text, err := json.Marshal(strings.Repeat("word ", n/5))
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	spec := roomy
	spec.Memory = 256 << 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Exec(ctx, t, d, spec,
		`(async () => (await Promise.all([test.echo(), test.echo()])).map((x) => x.length).join())`,
		Host{Call: func(context.Context, *sandbox.GuestCall) *sandbox.Answer { return &sandbox.Answer{Value: text} }})
	if want := fmt.Sprintf(`"%d,%[1]d"`, len(text)-2); string(o.Value) != want {
		t.Errorf("%v, want %s", o, want)
	}
}

// checkOrders answers calls in an order chosen by the host, which the program must observe.
func checkOrders(t *testing.T, d sandbox.Driver) {
	for seed := range uint64(5) {
		const n = 20
		want := rand.New(rand.NewPCG(seed, 1)).Perm(n)
		gates := make([]chan struct{}, n+1)
		for i := range gates {
			gates[i] = make(chan struct{})
		}
		close(gates[0])
		place := make([]int, n) // position of a call in want
		for i, v := range want {
			place[v] = i
		}
		o := Exec(t.Context(), t, d, roomy, `(async () => {
			const order = [];
			await Promise.all(Array.from({ length: 20 }, async (_, i) => {
				await test.echo({ i });
				order.push(i);
				console.log(i);
			}));
			return order;
		})`, Host{
			Call: func(ctx context.Context, c *sandbox.GuestCall) *sandbox.Answer {
				var a struct{ I int }
				_ = json.Unmarshal(c.Args, &a) // if invalid, the comparison fails
				select {
				case <-gates[place[a.I]]:
				case <-ctx.Done():
				}
				return &sandbox.Answer{Value: c.Args}
			},
			Seen: func(m *sandbox.GuestMessage) { // the console line shows that the answer was delivered
				if m.Console != nil {
					var i int
					_, _ = fmt.Sscan(m.Console.Text, &i)
					close(gates[place[i]+1])
				}
			},
		})
		if b, _ := json.Marshal(want); string(o.Value) != string(b) {
			t.Errorf("order %s, want %s", o, b)
		}
	}
}

// A hostile is a hostile program and how it may end: by one of the limits, by an exception, or
// both.
type hostile struct {
	name, code string
	limits     []string // limits that may end it
	fails      bool     // an exception may end it
}

var hostiles = []hostile{
	{"loop", `(() => { for (;;); })`, []string{"cpu"}, false},
	{"catching loop", `(() => { for (;;) try { for (;;); } catch {} finally { for (;;); } })`, []string{"cpu"}, false},
	{"async loop", `(async () => { for (;;) await 0; })`, []string{"cpu"}, false},
	{"promise loop", `(() => { const f = () => Promise.resolve().then(f); f(); return new Promise(() => {}); })`,
		[]string{"cpu", "memory"}, true},
	{"timer loop", `(() => new Promise(() => { const f = () => { for (let i = 0; i < 1e5; i++); setTimeout(f, 0); }; ` +
		`f(); }))`, []string{"cpu"}, false},
	{"regular expression", `(() => /(a*)*b/.test("a".repeat(40)))`, []string{"cpu"}, false},
	{"big integer", `(() => { let s = 0; for (;;) s += String(7n ** 300000n).length; })`, []string{"cpu"}, false},
	{"recursion", `(() => { const f = () => 1 + f(); return f(); })`, []string{"stack"}, true},
	{"array bomb", `(() => { const a = []; for (;;) a.push(new Array(1000).fill(a.length)); })`,
		[]string{"memory", "cpu"}, true},
	{"string bomb", `(() => { let s = "x"; for (;;) s = (s + s).replace("x", "y"); })`,
		[]string{"memory", "cpu"}, true},
	{"buffer bomb", `(() => { const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1)); })`,
		[]string{"memory", "cpu"}, true},
	{"one big buffer", `(() => new Uint8Array(2 ** 31 - 1).fill(1).length)`, []string{"memory"}, true},
	{"output flood", `(() => { for (;;) console.log("x".repeat(1000)); })`, []string{"output", "cpu"}, false},
	{"call flood", `(() => { for (;;) test.echo({ x: "y".repeat(1000) }); })`, []string{"output", "cpu", "memory"},
		true},
	{"never settles", `(() => new Promise(() => {}))`, nil, true},
	{"prototype tricks", `(() => {
		Object.prototype.toString = Array.prototype.push = Promise.prototype.then = JSON.stringify = Map.prototype.get = () => { throw 1; };
		Object.defineProperty(Object.prototype, "call", { get() { throw 2; } });
		Object.defineProperty(Array.prototype, "0", { set() { throw 3; } });
		throw 4;
	})`, nil, true},
}

// check returns an error unless o is an acceptable end for h.
func (h hostile) check(o *Outcome) error {
	switch {
	case o.Err != nil && slices.Contains(h.limits, o.Limit()):
		return nil
	case h.fails && o.Err == nil && o.Fail != nil:
		return nil
	}
	return fmt.Errorf("%s ended with %.300s", h.name, o)
}

// spec returns limits for h: the CPU limit is small if it may end h.
func (h hostile) spec() sandbox.Spec {
	s := small
	if !slices.Contains(h.limits, "cpu") {
		s.CPU = roomy.CPU
	}
	return s
}

func checkLimits(t *testing.T, d sandbox.Driver) {
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			o := Exec(t.Context(), t, d, h.spec(), h.code, Host{})
			if err := h.check(o); err != nil {
				t.Errorf("check: %v", err)
			}
			if o.Err != nil && !strings.ContainsAny(o.Err.Error(), "0123456789") {
				t.Errorf("the error doesn't say what was reached: %v", o.Err)
			}
			checkGoodProgram(t, d)
		})
	}
}

// checkGoodProgram runs a program that must be unaffected by earlier ones.
func checkGoodProgram(t *testing.T, d sandbox.Driver) {
	t.Helper()
	o := Exec(t.Context(), t, d, roomy,
		`(async () => (await test.echo({ a: 1 })).a + [1, 2, 3].map((x) => x * 2).length)`, Host{Call: echo})
	if string(o.Value) != "4" || o.Err != nil {
		t.Errorf("the next program was harmed: %v", o)
	}
}

// checkCancel cancels a program that computes, and one that waits, when it has made a call.
func checkCancel(t *testing.T, d sandbox.Driver, l language) {
	for name, code := range map[string]string{"busy": l.busy, "waiting": l.waiting} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("the caller went away")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			spec := roomy
			spec.Runtime = l.runtime
			o := Exec(ctx, t, d, spec, code, Host{Seen: func(m *sandbox.GuestMessage) {
				if m.Call != nil {
					cancel(cause)
				}
			}})
			if !errors.Is(o.Err, cause) {
				t.Errorf("o = %v, want errors.Is(o.Err, cause)", o)
			}
			checkFreshGuest(t, d, l)
		})
	}
}

// checkClosing closes the sandbox of a program that computes, and of one that waits.
func checkClosing(t *testing.T, d sandbox.Driver, l language) {
	for name, code := range map[string]string{"busy": l.busy, "waiting": l.waiting} {
		t.Run(name, func(t *testing.T) {
			spec := roomy
			spec.Runtime = l.runtime
			box, err := d.Create(t.Context(), spec)
			if err != nil {
				t.Fatalf("Create: %v", err)
			}
			var closed sync.WaitGroup
			o := Host{Seen: func(*sandbox.GuestMessage) {
				closed.Go(func() {
					if err := box.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
			}}.Run(t.Context(), box,
				sandbox.Run{Code: code, Name: "program", Namespaces: map[string][]string{"test": {"echo"}}})
			closed.Wait()
			if o.Err == nil {
				t.Errorf("run ended with %v", o)
			}
			if err := box.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
			checkFreshGuest(t, d, l)
		})
	}
}

// checkFreshGuest checks that a new guest has nothing of earlier ones.
func checkFreshGuest(t *testing.T, d sandbox.Driver, l language) {
	t.Helper()
	if got := newStage(t, d, l.runtime).run(l.count); got != "1" {
		t.Errorf("a fresh guest counts %s", got)
	}
}

// checkIsolation checks that sandboxes share no state and no randomness. Only in processes do
// programs reach modules of the host.
func checkIsolation(t *testing.T, d sandbox.Driver, inProcess bool) {
	names := "typeof globalThis.mark, typeof Object.prototype.mark, typeof __host"
	if !inProcess {
		names += ", typeof process, typeof require, typeof fetch"
	}
	seen := map[string]bool{}
	for range 4 {
		o := Exec(t.Context(), t, d, roomy, `(() => {
			const had = [`+names+`];
			globalThis.mark = Object.prototype.mark = Math.random();
			return [Math.random(), crypto.randomUUID(), had.join()];
		})`, Host{})
		var v [3]any
		if err := json.Unmarshal(o.Value, &v); err != nil {
			t.Fatalf("o = %v, want err == nil", o)
		}
		if had := fmt.Sprint(v[2]); strings.Trim(strings.ReplaceAll(had, "undefined", ""), ",") != "" {
			t.Errorf("a fresh sandbox has %s", had)
		}
		for _, x := range v[:2] {
			if s := fmt.Sprint(x); seen[s] {
				t.Errorf("two sandboxes drew the same random %s", s)
			} else {
				seen[s] = true
			}
		}
	}
}

// checkCrowd runs 50 programs concurrently, ten of them hostile.
func checkCrowd(t *testing.T, d sandbox.Driver) {
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if i%5 == 0 {
				h := hostiles[(i/5)%len(hostiles)]
				if err := h.check(Exec(t.Context(), t, d, h.spec(), h.code, Host{})); err != nil {
					t.Errorf("check: %v", err)
				}
				return
			}
			o := Exec(t.Context(), t, d, roomy, fmt.Sprintf(`(async () => {
				const r = await Promise.all(Array.from({ length: 20 }, (_, k) => test.echo({ k })));
				return r.reduce((s, x) => s + x.k, %d);
			})`, i), Host{Call: echo})
			if string(o.Value) != fmt.Sprint(190+i) || o.Err != nil {
				t.Errorf("program %d: %v", i, o)
			}
		})
	}
	wg.Wait()
	checkGoodProgram(t, d)
}

func checkMisuse(t *testing.T, d sandbox.Driver) {
	if _, err := d.Create(t.Context(), sandbox.Spec{Memory: 1}); err == nil {
		t.Error("a sandbox of one byte was made")
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := d.Create(gone, sandbox.Spec{}); err == nil {
		t.Error("a sandbox was made for nobody")
	}
	box, err := d.Create(t.Context(), roomy)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if _, err := box.Run(t.Context(), &sandbox.Cmd{}); err == nil {
		t.Error("a runtime that doesn't exist ran")
	}
	for range 2 {
		if err := box.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if o := (Host{}).Run(t.Context(), box, sandbox.Run{Code: "() => 1"}); o.Err == nil {
		t.Error("a closed sandbox ran")
	}
	for _, line := range []string{"", "{}", "[", "null", `{"run":5}`, `{"answer":{"id":99}}`, "\x00\xff\xfe",
		strings.Repeat("[", 1000)} {
		garbage(t, d, line)
	}
	checkGoodProgram(t, d)
}

// garbage sends a line that isn't a message before a program: only the sandbox may end.
func garbage(t *testing.T, d sandbox.Driver, line string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	box, err := d.Create(ctx, roomy)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	stream := &script{Reader: strings.NewReader(line + "\n")}
	if _, err := box.Run(ctx, &sandbox.Cmd{Guest: stream}); ctx.Err() != nil {
		t.Errorf("the line %q: %v", line, err)
	}
	if err := box.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A script is a stream with predefined host input.
type script struct{ *strings.Reader }

// Write discards the guest's output.
func (*script) Write(b []byte) (int, error) { return len(b), nil }

// leftovers checks that no goroutine outlives its sandbox.
func leftovers(t *testing.T, d sandbox.Driver) {
	checkGoodProgram(t, d)
	before := runtime.NumGoroutine()
	for range 20 {
		checkGoodProgram(t, d)
	}
	Exec(t.Context(), t, d, small, hostiles[0].code, Host{})
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(),
				buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
