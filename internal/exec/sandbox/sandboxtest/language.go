package sandboxtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A language holds the suite's programs in one guest language.
type language struct {
	runtime  string // Spec.Runtime
	count    string // increments a number kept by the session, and returns it
	pending  string // makes three parallel calls of test.echo, with i from 0 to 2, and returns i of each answer
	sleep    string // waits 50 ms, and returns 7
	random   string // returns a random number
	clock    string // returns the time of day in whole milliseconds
	busy     string // makes a call of test.echo, and computes without end
	waiting  string // waits for the answer of a call of test.echo
	hostiles []hostile
	program  func(steps []step) string // returns a program that performs the steps and returns a list of their results
}

// A step is a part of a random program.
type step struct {
	do string // "call", "calls", "sleep", "random", "clock", "keep"
	n  int
}

var stepKinds = []string{"call", "calls", "sleep", "random", "clock", "keep"}

// languages returns the suite's languages that a driver runs, and the names of the others.
func languages(c sandbox.Capabilities) (spoken []language, missing []string) {
	for _, l := range []language{javaScript(), python()} {
		if slices.Contains(c.Runtimes, l.runtime) {
			spoken = append(spoken, l)
		} else {
			missing = append(missing, l.runtime)
		}
	}
	return spoken, missing
}

func javaScript() language {
	return language{
		runtime:  "js",
		count:    `(() => globalThis.count = (globalThis.count ?? 0) + 1)`,
		pending:  `(async () => (await Promise.all([0, 1, 2].map((i) => test.echo({ i })))).map((x) => x.i))`,
		sleep:    `(async () => { await new Promise((ok) => setTimeout(ok, 50)); return 7; })`,
		random:   `(() => Math.random())`,
		clock:    `(() => Date.now())`,
		busy:     `(async () => { test.echo({}); for (;;) await 0; })`,
		waiting:  `(async () => { await test.echo({}); })`,
		hostiles: hostiles,
		program: func(steps []step) string {
			return render(steps, "(async () => { const out = [];\n", "return out; })", map[string]string{
				"call": "out.push((await test.echo({ n: %[1]d })).n);\n",
				"calls": "await Promise.all(Array.from({ length: %[1]d }, async (_, i) => { const x = await " +
					"test.echo({ i }); out.push(x.i); }));\n",
				"sleep":  "await new Promise((ok) => setTimeout(ok, %[1]d));\n",
				"random": "out.push(Math.random(), crypto.randomUUID());\n",
				"clock":  "for (let i = 0; i < %[1]d * 1000; i++) Date.now(); out.push(Date.now());\n",
				"keep": "globalThis.kept = (globalThis.kept ?? []).concat(out.length, %[1]d); " +
					"out.push(kept.length);\n",
			})
		},
	}
}

func python() language {
	return language{
		runtime: "python",
		count:   "try:\n    count += 1\nexcept NameError:\n    count = 1\ncount",
		pending: "import asyncio\nr = await asyncio.gather(*[test.echo(i=i) for i in range(3)])\n[x['i'] for x in r]",
		sleep:   "import asyncio\nawait asyncio.sleep(0.05)\n7",
		random:  "import random\nrandom.random()",
		clock:   "import time\nround(time.time() * 1000)",
		busy:    "import asyncio\ncall = asyncio.ensure_future(test.echo())\nwhile True: await asyncio.sleep(0)",
		waiting: "await test.echo()",
		hostiles: []hostile{
			{"loop", "while True: pass", []string{"cpu"}, false},
			{"catching loop", "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
				[]string{"cpu"}, false},
			{"big integer", "10 ** 10 ** 8", []string{"cpu", "memory"}, true},
			{"builtin", "sum(range(10 ** 12))", []string{"cpu"}, false},
			{"recursion", "def f(): return f() + 1\nf()", []string{"stack"}, true},
			{"regular expression", "import re\nre.match('(a*)*b', 'a' * 40)", []string{"cpu"}, true},
			{"list bomb", "a = []\nwhile True: a.append([0] * 10000)", []string{"memory", "cpu"}, true},
			{"output flood", "while True: print('x' * 1000)", []string{"output", "cpu"}, false},
		},
		program: func(steps []step) string {
			return render(steps, "import asyncio, random, time, uuid\nout = []\nasync def one(i):\n    x = await "+
				"test.echo(i=i)\n    out.append(x['i'])\n", "out", map[string]string{
				"call":   "out.append((await test.echo(n=%[1]d))['n'])\n",
				"calls":  "await asyncio.gather(*[one(i) for i in range(%[1]d)])\n",
				"sleep":  "await asyncio.sleep(%[1]d / 1000)\n",
				"random": "out += [random.random(), str(uuid.uuid4())]\n",
				"clock":  "for i in range(%[1]d * 1000): time.time()\nout.append(time.time())\n",
				"keep": "try: kept\nexcept NameError: kept = []\nkept = kept + [len(out), " +
					"%[1]d]\nout.append(len(kept))\n",
			})
		},
	}
}

// render returns a program that performs the steps.
func render(steps []step, begin, end string, forms map[string]string) string {
	var b strings.Builder
	b.WriteString(begin)
	for _, s := range steps {
		f := forms[s.do]
		if strings.Contains(f, "%") {
			f = fmt.Sprintf(f, s.n)
		}
		b.WriteString(f)
	}
	b.WriteString(end)
	return b.String()
}
