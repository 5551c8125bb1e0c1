package wasm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// pyExec runs a Python program in a fresh sandbox; calls are answered with their arguments.
func pyExec(t testing.TB, ctx context.Context, d *Driver, spec sandbox.Spec, code string) *sandboxtest.Outcome {
	t.Helper()
	spec.Runtime = "python"
	box, err := d.Create(ctx, spec)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = box.Close() }()
	return pyHostFor(t).Run(ctx, box,
		sandbox.Run{Code: code, Name: "program.py", Namespaces: map[string][]string{"test": {"echo"}}})
}

func pyHostFor(testing.TB) sandboxtest.Host {
	return sandboxtest.Host{Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
		return &sandbox.Answer{Value: c.Args}
	}}
}

func TestPython(t *testing.T) {
	d := realDriver(t, Config{})
	for code, want := range map[string]string{
		"1 + 1":                            "2",
		"(await test.echo(a=[1, 2]))['a']": "[1,2]",
		"import asyncio\nr = await asyncio.gather(*[test.echo(i=i) for i in range(100)])\nsum(x.i for x in r)": "4950",
		"def f(i):\n    return test.echo(i=i)['i']\nsum(f(i) for i in range(50))":                              "1225",
		"import asyncio\nasync def f():\n    await asyncio.sleep(0.002)\n    return 'woken'\nawait f()":        `"woken"`,
		"import asyncio\ndef g():\n    return asyncio.run(h())\nasync def h():\n    await asyncio.sleep(0.002)\n    " +
			"return 5\ng()": "5",
	} {
		o := pyExec(t, t.Context(), d, sandbox.Spec{}, code)
		if !o.Done || string(o.Value) != want {
			t.Errorf("%s\n%v, want %s", code, o, want)
		}
	}
}

// TestPythonStops runs programs that never end or exhaust a resource. Each must end with a limit or
// a Python error.
func TestPythonStops(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	d := realDriver(t, Config{})
	for _, c := range []struct{ name, code, want string }{
		{"loop", "while True: pass", "limit cpu"},
		{"caught", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "limit cpu"},
		{"builtin", "sum(range(10**12))", "limit cpu"},
		{"power", "10 ** 10 ** 8", "limit cpu"},
		{"regex", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", "limit cpu"},
		{"sort", "sorted(range(10**7), key=lambda x: -x) and 1\nwhile True: sorted(range(10**6))",
			"limit cpu|fail MemoryError"},
		{"tasks", "import asyncio\nwhile True: await asyncio.sleep(0)", "limit cpu"},
		{"finalizer", "class A:\n    def __del__(self):\n        while True: pass\nA()\nNone", "limit cpu"},
		{"hash", "class H:\n    def __hash__(self): return 1\n    def __eq__(self, o): return False\n{H() for _ in " +
			"range(10**6)}", "limit cpu"},
		{"list", "x = []\nwhile True: x.append(bytearray(100000))", "fail MemoryError"},
		{"dict", "x = {}\ni = 0\nwhile True:\n    x[i] = str(i) * 50\n    i += 1", "fail MemoryError|limit cpu"},
		{"string", "x = 'x'\nwhile True: x += x", "fail MemoryError"},
		{"value", "'x' * (20 << 20)", "fail MemoryError|done"},
		{"nested", "x = ()\nwhile True: x = (x, x, [x])", "fail MemoryError|limit memory"},
		{"big list", "[0] * 10**9", "fail MemoryError"},
		{"caught memory", "x = []\nwhile True:\n    try:\n        while True: x.append(' ' * 10**6)\n    except " +
			"MemoryError: pass", "limit cpu"},
		{"recursion", "def f(): return f()\nf()", "fail RecursionError"},
		{"deep recursion", "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return f(n + 1)\nf(0)",
			"fail RecursionError|fail MemoryError|limit"},
		{"deep getattr", "import sys\nsys.setrecursionlimit(10**6)\nclass A:\n    def __getattr__(s, n): return " +
			"getattr(s, n + 'x')\nA().y", "fail RecursionError|fail MemoryError|limit stack"},
		{"deep repr", "x = []\nfor i in range(100000): x = [x]\nrepr(x)", "fail RecursionError"},
		{"deep json", "import json\njson.loads('[' * 100000)", "fail RecursionError"},
		{"deep parens", "eval('(' * 5000 + ')' * 5000)", "fail SyntaxError|fail MemoryError|fail RecursionError"},
		{"deep source", "exec('if 1:\\n' + ''.join(' ' * i + 'if 1:\\n' for i in range(1, 3000)))",
			"fail IndentationError|fail SyntaxError|fail RecursionError|fail MemoryError"},
		{"deep operators", "eval('-' * 100000 + '1')", "fail MemoryError|fail RecursionError|fail SyntaxError"},
		{"deep pickle", "import pickle\nx = []\nfor i in range(100000): x = [x]\npickle.dumps(x)",
			"fail RecursionError"},
		{"deep free", "x = None\nfor i in range(10**6): x = (x,)\ndel x\n1", "done"},
		{"deep regex", "import re\nre.compile('(' * 5000 + ')' * 5000)",
			"fail RecursionError|fail error|fail PatternError|fail MemoryError"},
		{"deep compare", "a = []; b = []\nfor i in range(100000):\n    a = [a]; b = [b]\na == b",
			"fail RecursionError"},
		{"deep types", "x = int\nfor i in range(100000): x = list[x]\nhash(x)", "fail RecursionError|done"},
		{"deep copy", "import copy\nx = []\nfor i in range(100000): x = [x]\ncopy.deepcopy(x)",
			"fail RecursionError|fail MemoryError"},
		{"deep xml", "import xml.etree.ElementTree as E\nE.fromstring('<a>' * 100000 + '</a>' * 100000)\n1",
			"done|fail RecursionError"},
		{"exit", "import os\nos._exit(3)",
			"error run a guest: the program ended the interpreter with code 3: let it come"},
		{"abort", "import os\nos.abort()", "error run a guest: the interpreter crashed"},
		{"trace", "import sys\ndef t(*a): return t\nsys.settrace(t)\nsys.setprofile(t)\nx = [i for i in " +
			"range(100)]\nsys.settrace(None)\n1", "done|fail"},
		{"trace raises", "import sys\ndef t(*a): raise ValueError('t')\nsys.settrace(t)\nlen([1])\n1", "done|fail"},
		{"gc", "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict) and '_pending' in o: " +
			"o.clear()\ngc.set_threshold(1)\n1", "done|fail|error|exit"},
		{"builtins", "import builtins\nbuiltins.__dict__.clear()", "done|fail|error|exit"},
		{"modules", "import sys\nsys.modules.clear()\n1", "done|fail|error|exit"},
		{"closed streams", "import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdin.close()\nprint(1)",
			"done|fail"},
		{"no streams", "import sys\nsys.stdout = sys.stderr = None\nprint(1)\n2", "done"},
		{"ctypes of the poor", "b = bytearray(b'x' * 8)\nm = memoryview(b)\nclass I(int):\n    def " +
			"__index__(self):\n        b.clear()\n        return 0\ntry:\n    m[I()] = 1\nexcept BaseException: pass\n1", "done|fail"},
		{"code object", "def f(): pass\nf.__code__ = f.__code__.replace(co_code=b'\\x64\\xff' * 100, co_consts=())\nf()", "done|fail|error|limit"},
		{"host module", "import _host\n_host.write('garbage')\n_host.next()", "done|fail|exit|error|limit"},
		{"marshal", "import marshal\nfor i in range(256):\n    try: marshal.loads(bytes([i]) * 50)\n    except " +
			"Exception: pass\n1", "done|fail|error"},
		{"surrogates", "'\\udcff' * 3", "done"},
		{"format", "'{:>1000000000}'.format(1)", "fail MemoryError|done"},
		{"print", "while True: print('x' * 1000)", "limit cpu|limit output"},
		{"int to text", "str(7 ** 1000000)", "fail ValueError"},
		{"suppressed exit", "import atexit\natexit.register(lambda: 1 / 0)\nraise SystemExit(0)", "done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sandbox.Spec{Memory: 64 << 20, CPU: 20 * time.Second}
			if strings.Contains(c.want, "limit cpu") || strings.HasSuffix(c.want, "|limit") {
				spec.CPU = 400 * time.Millisecond
			}
			o := pyExec(t, t.Context(), d, spec, c.code)
			got := o.String()
			if l := o.Limit(); l != "" {
				got = "limit " + l
			}
			for _, w := range strings.Split(c.want, "|") {
				if strings.HasPrefix(got, w) {
					return
				}
			}
			t.Errorf("%.300s, want %s", got, c.want)
		})
	}
	if o := pyExec(t, t.Context(), d, sandbox.Spec{}, "40 + 2"); string(o.Value) != "42" {
		t.Errorf("afterwards: %v", o)
	}
}

// TestPythonCancel cancels the context of a guest that runs a builtin.
func TestPythonCancel(t *testing.T) {
	d := realDriver(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	box, err := d.Create(ctx, sandbox.Spec{Runtime: "python"})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = box.Close() }()
	h := sandboxtest.Host{Seen: func(m *sandbox.GuestMessage) {
		if m.Console != nil {
			cancel()
		}
	}}
	o := h.Run(ctx, box, sandbox.Run{Code: "print('begin')\nsum(range(10**12))", Name: "program.py"})
	if !errors.Is(o.Err, context.Canceled) {
		t.Errorf("o = %v, want errors.Is(o.Err, context.Canceled)", o)
	}
}

// pyLine returns a line that runs a program in a session.
func pyLine(code string) string {
	text, _ := json.Marshal(code)
	return fmt.Sprintf(`{"at":1767225700000,"run":{"code":%s,"name":"p.py","session":true,"seed":"%064x",`+
		`"namespaces":{"test":["echo"]}}}`, text, 7)
}

// TestPythonSession keeps a session with a pending call across snapshots, forks and other guests.
func TestPythonSession(t *testing.T) {
	d := realDriver(t, Config{})
	k := newKept(t, d, sandbox.Spec{Runtime: "python"})
	k.say(pyLine("import random, asyncio\nclass K:\n    x = [1, 2]\ndef f(n):\n    return n + len(K.x)\nv = " +
		"random.random()\n"))
	if s := k.say(pyLine("w = test.echo(a=1)\nlog = ['before']\nr = await w\nlog.append('after')\n[f(r['a']), log, v]")); !strings.Contains(s, `"call":{"id":1`) || strings.Contains(s, "done") {
		t.Fatalf("s = %v, want strings.Contains(s, `\"call\":{\"id\":1`) && !strings.Contains(s, \"done\")", s)
	}
	b := k.snapshot()
	if again := k.snapshot(); string(again) != string(b) {
		t.Error("two snapshots of one state differ")
	}
	answer := `{"at":1767225800000,"answer":{"id":1,"value":{"a":40}}}`
	var said []string
	for range 2 {
		r := restore(t, d, b)
		said = append(said, r.say(answer))
	}
	box, err := k.Fork(t.Context())
	if err != nil {
		t.Fatalf("Fork: %v", err)
	}
	defer func() { _ = box.Close() }()
	fork := kept{t, box.(*Sandbox)}
	said = append(said, fork.say(answer), k.say(answer))
	for _, s := range said {
		if s != said[0] || !strings.Contains(s, `"done":{"value":[42,["before","after"],`) {
			t.Errorf("s = %q, want s == said[0] && strings.Contains(s, "+
				"`\"done\":{\"value\":[42,[\"before\",\"after\"],`)", s)
		}
	}
	if s := fork.say(pyLine("log.append(f(1))\nlog")); !strings.Contains(s, `["before","after",3]`) {
		t.Errorf("s = %v, want strings.Contains(s, `[\"before\",\"after\",3]`)", s)
	}
	if s := k.say(pyLine("log")); !strings.Contains(s, `["before","after"]`) {
		t.Errorf("s = %v, want strings.Contains(s, `[\"before\",\"after\"]`)", s)
	}
	if a, b := k.snapshot(), restore(t, d, k.snapshot()).snapshot(); string(a) != string(b) {
		t.Error("a snapshot of what was restored from a snapshot is another")
	}
}

// TestPythonHeld ends the stream of a guest that blocks until the next line.
func TestPythonHeld(t *testing.T) {
	d := realDriver(t, Config{})
	k := newKept(t, d, sandbox.Spec{Runtime: "python"})
	c := &script{Reader: strings.NewReader(pyLine("def f():\n    return test.echo(a=1)['a']\nf()") + "\n")}
	if _, err := k.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); !errors.Is(err, errHeld) {
		t.Errorf("err = %v, want errors.Is(err, errHeld)", err)
	}
	if s := c.String(); !strings.Contains(s, `{"hold":true}`) {
		t.Errorf("s = %v, want strings.Contains(s, `{\"hold\":true}`)", s)
	}
}

func BenchmarkPython(b *testing.B) {
	d := benchDriver(b)
	spec := sandbox.Spec{Runtime: "python"}
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			if o := pyExec(b, b.Context(), d, spec, "1 + 1"); string(o.Value) != "2" {
				b.Fatalf(`o = %v, want string(o.Value) == "2"`, o)
			}
		}
	})
	b.Run("program", func(b *testing.B) {
		for b.Loop() {
			if o := pyExec(b, b.Context(), d, spec, twentyLines); !o.Done {
				b.Fatalf("o = %v, want o.Done", o)
			}
		}
	})
	for name, code := range map[string]string{"one line": "1 + 1", "twenty lines": twentyLines} {
		k := newKept(b, d, spec)
		k.say(pyLine(code))
		snapshot := k.snapshot()
		img, err := k.kind.loadImage()
		if err != nil {
			b.Fatalf("loadImage: %v", err)
		}
		pages := len(k.changedPages(img))
		b.Run("snapshot/"+name, func(b *testing.B) {
			for b.Loop() {
				k.snapshot()
			}
			b.ReportMetric(float64(len(snapshot)), "packed-B")
			b.ReportMetric(float64(pages*4), "dirty-KiB")
		})
		b.Run("restore/"+name, func(b *testing.B) {
			for b.Loop() {
				r := restore(b, d, snapshot)
				if s := r.say(pyLine("1")); !strings.Contains(s, "done") {
					b.Fatalf(`s = %v, want strings.Contains(s, "done")`, s)
				}
				_ = r.Close()
			}
		})
		b.Run("fork/"+name, func(b *testing.B) {
			for b.Loop() {
				f, err := k.Fork(b.Context())
				if err != nil {
					b.Fatalf("Fork: %v", err)
				}
				_ = f.Close()
			}
		})
	}
}

// twentyLines is a typical program.
const twentyLines = `import json, statistics, re
from collections import defaultdict
rows = [{'id': i, 'team': 't%d' % (i % 7), 'score': (i * 7919) % 101, 'name': f'user-{i}'} for i in range(200)]
groups = defaultdict(list)
for r in rows:
    groups[r['team']].append(r)
out = []
for team, rs in groups.items():
    s = [r['score'] for r in rs]
    out.append({'team': team, 'n': len(rs), 'avg': statistics.mean(s), 'best': max(rs, key=lambda r: r['score'])['name']})
out.sort(key=lambda r: -r['avg'])
ids = [int(m.group(1)) for m in (re.match(r'user-(\d+)', r['name']) for r in rows) if m]
len(json.dumps(out)), sum(ids)
`
