package wasm

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestJSON compares the host's JSON with the engine's, in programs.
func TestJSON(t *testing.T) {
	d := realDriver(t, Config{})
	compare := readJSON(t, "compare")
	for _, name := range []string{"texts", "values", "random", "kept-values"} {
		t.Run(name, func(t *testing.T) {
			code := strings.Replace(compare, "TEST", readJSON(t, name), 1)
			c := &script{Reader: strings.NewReader(program(code) + "\n")}
			k := newKept(t, d, sandbox.Spec{})
			if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
				t.Fatalf("Run: %v; output %s", err, c.String())
			}
			if got := c.String(); !strings.Contains(got, `"value":[]`) {
				t.Errorf("the host's JSON differs from the engine's: %s", got)
			}
		})
	}
}

// FuzzJSON compares the host's parser with the engine's.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,"x\u00e9\n"],"b":{"a":null}}`, `[{"a":1},{"a":2,"b":[]}]`, `"→"`, `[1,]`,
	} {
		f.Add(seed)
	}
	compare := readJSON(f, "compare")
	d := realDriver(f, Config{})
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil || len(text) > 1<<16 {
			t.Skip()
		}
		c := &script{Reader: strings.NewReader(program(
			strings.Replace(compare, "TEST", "checkText("+string(quoted)+", '');", 1)) + "\n")}
		if _, err := newKept(t, d, sandbox.Spec{}).Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
			t.Fatalf("Run: %v; output %s", err, c.String())
		}
		if got := c.String(); !strings.Contains(got, `"value":[]`) {
			t.Errorf("the host's JSON differs from the engine's: %s", got)
		}
	})
}

func readJSON(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/json/" + name + ".js")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return string(b)
}

// TestJSONMemory parses until the guest's memory is exhausted. The program can catch the error, and
// continue.
func TestJSONMemory(t *testing.T) {
	d := realDriver(t, Config{})
	c := &script{Reader: strings.NewReader(program(`(async () => {
		const text = "[" + '{"a":[1,"two",{"b":3.5}]},'.repeat(20000) + "0]", kept = [];
		let message;
		try { for (;;) kept.push(JSON.parse(text)); } catch (e) { message = e.message; }
		const n = kept.length;
		kept.length = 0;
		return [message, n > 0, JSON.parse(text).length, JSON.stringify(JSON.parse(text)) === text];
	})`) + "\n")}
	k := newKept(t, d, sandbox.Spec{Memory: 64 << 20})
	if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
		t.Fatalf("Run: %v; output %s", err, c.String())
	}
	if got := c.String(); !strings.Contains(got, `"value":["out of memory",true,20001,true]`) {
		t.Errorf("after the memory was exhausted: %s", got)
	}
}

// TestJSONGarbage parses and writes while the guest's memory is full of cycles that nothing refers
// to, which only a collection frees.
func TestJSONGarbage(t *testing.T) {
	d := realDriver(t, Config{})
	for _, work := range []string{"JSON.parse(text).length", "JSON.stringify(value).length"} {
		c := &script{Reader: strings.NewReader(program(`(async () => {
			const live = "y".repeat(45000000); // so much that the engine never collects garbage
			const value = JSON.parse("[" + '{"a":[1,"two",{"b":3.5}]},'.repeat(20000) + "0]");
			const text = JSON.stringify(value); // not concatenated: the engine parses those texts itself
			const fill = (size) => {
				try {
					for (let i = 0; ; i++) {
						const cycle = { text: "x".repeat(size) + i };
						cycle.self = cycle;
					}
				} catch (e) {
					return e.message;
				}
			};
			const message = fill(3000000);
			const n = `+work+`;
			return [message, n, live.length];
		})`) + "\n")}
		k := newKept(t, d, sandbox.Spec{Memory: 64 << 20})
		if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
			t.Fatalf("Run: %v; output %s", err, c.String())
		}
		if got := c.String(); !strings.Contains(got, `"value":["out of memory",`) {
			t.Errorf("%s: %s, want a length", work, got)
		}
	}
}

// TestJSONKeys writes objects of many shapes that share a long key, which they leave out. The host
// doesn't write that key for each shape.
func TestJSONKeys(t *testing.T) {
	d := realDriver(t, Config{})
	c := &script{Reader: strings.NewReader(program(`(async () => {
		const key = "\u0001".repeat(1000000), list = [];
		for (let i = 0; i < 100; i++) list.push({ ["k" + i]: 1, [key]: undefined });
		return JSON.stringify(list).length;
	})`) + "\n")}
	k := newKept(t, d, sandbox.Spec{Memory: 64 << 20})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
		t.Fatalf("Run: %v; output %s", err, c.String())
	}
	runtime.ReadMemStats(&after)
	if got := c.String(); !strings.Contains(got, `"value":991`) {
		t.Errorf("got %s, want the length 991", got)
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 256 {
		t.Errorf("the host allocated %d MB, want at most 256", mb)
	}
}

// TestHostStop stops guests while the host works for them. The next guest is unharmed.
func TestHostStop(t *testing.T) {
	d := realDriver(t, Config{})
	for loop, value := range map[string]string{
		"JSON.parse(text)":            "0",
		"JSON.stringify(value)":       "JSON.parse(text)",
		"value.split(/,/)":            "text.repeat(4)",
		"value.match(/./g)":           "text.repeat(2)",
		"value.replace(/,/g, ';')":    "text.repeat(4)",
		"value.sort((a, b) => a - b)": "Array.from({ length: 1000000 }, (_, i) => i * 7919 % 1000003)",
	} {
		k := newKept(t, d, sandbox.Spec{Memory: 256 << 20, CPU: 800 * time.Millisecond})
		c := &script{Reader: strings.NewReader(program(`(async () => {
			const text = "[" + '{"a":[1,"two",{"b":3.5}]},'.repeat(100000) + "0]";
			const value = `+value+`;
			for (;;) `+loop+`;
		})`) + "\n")}
		_, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true})
		if limit := (*sandbox.LimitError)(nil); !errors.As(err, &limit) {
			t.Fatalf("loop = %s, err = %v, want a limit; output %s", loop, err, c.String())
		}
		if err := k.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		const small = `(async () => JSON.parse("[1,2" + " ".repeat(300) + "]"))`
		c = &script{Reader: strings.NewReader(program(small) + "\n")}
		next := newKept(t, d, sandbox.Spec{})
		if _, err := next.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
			t.Fatalf("Run: %v", err)
		}
		if got := c.String(); !strings.Contains(got, `"value":[1,2]`) {
			t.Errorf("after a stopped guest: %s", got)
		}
	}
}

// BenchmarkJSON does in a program what BenchmarkCPU does with the engine alone, which has only its
// own JSON.
func BenchmarkJSON(b *testing.B) {
	d := benchDriver(b)
	const code = `(async () => {
		const v = Array.from({ length: 2000 }, (_, i) => ({ i, s: "text " + i, a: [i, i / 3] }));
		for (let i = 0; i < 20; i++) JSON.stringify(JSON.parse(JSON.stringify(v)));
	})`
	for b.Loop() {
		k := newKept(b, d, sandbox.Spec{})
		c := &script{Reader: strings.NewReader(program(code) + "\n")}
		if _, err := k.Run(b.Context(), &sandbox.Cmd{Guest: c}); err != nil {
			b.Fatalf("Run: %v", err)
		}
		if err := k.Close(); err != nil {
			b.Fatalf("Close: %v", err)
		}
	}
}
