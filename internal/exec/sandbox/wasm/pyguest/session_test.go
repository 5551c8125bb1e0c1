//go:build linux && (amd64 || arm64)

package pyguest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// session runs programs consecutively in one guest and compares their outcomes.
func session(t *testing.T, programs ...[2]string) *machine {
	t.Helper()
	m := start(t)
	m.tools = testTools
	for _, p := range programs {
		done, fail, err := m.run(sandbox.Run{Code: p[0], Session: true})
		if err != nil {
			t.Fatalf("p[0] = %s, err = %v, want nil", p[0], err)
		}
		var want []string
		if p[1] != "" {
			want = strings.Split(p[1], "\n")
		}
		m.nexts = 0
		if got := m.outcome(done, fail, want); got != p[1] {
			t.Errorf("%s\ngot\n%s\nwant\n%s", p[0], got, p[1])
		}
	}
	return m
}

func TestSession(t *testing.T) {
	session(t,
		[2]string{"import math\nx = 1\nclass K:\n    def f(self):\n        return x\ndef g():\n    return K().f() + 1",
			""},
		[2]string{"x = 10\n[g(), math.floor(2.5)]", "value [11,2]"},
		[2]string{"class K:\n    def f(self):\n        return 'new'\nK().f()", `value "new"`},
		[2]string{"def g(): return 'again'\ng()", `value "again"`},
		[2]string{"1 / 0", "fail ZeroDivisionError: division by zero"},
		[2]string{"x", "value 10"},
		[2]string{"return x + 1", "value 11"},
		[2]string{"def main():\n    return 'main'", `value "main"`},
		[2]string{"y = 5", ""},
		[2]string{"main()", `value "main"`},
		[2]string{"pending = github.get_issue(number=1, ms=50)\nimport asyncio\nt = " +
			"asyncio.create_task(asyncio.sleep(5, 'slept'))\n1", "value 1"},
		[2]string{"(await pending).number, await t", `value [1,"slept"]`},
		[2]string{"[pending.title, issue.number for issue in []] if False else 2",
			"fail SyntaxError: did you forget parentheses around the comprehension target?"},
		[2]string{"import builtins\n'github' in dir(builtins), repr(github)",
			`value [true,"<tools github: list_issues, get_issue, create_issue>"]`},
		[2]string{"def fetch(n):\n    return github.get_issue(number=n)\nclass C:\n    def none(self):\n        " +
			"return github.nothing()\nget = github.get_issue", ""},
		[2]string{"c, d = fetch(1), get(number=2)\nisinstance(c, dict), isinstance(d, dict), C().none() is None",
			"value [true,true,true]"},
		[2]string{"import asyncio\n[x.number for x in await asyncio.gather(*[fetch(i) for i in range(2)])]",
			"value [0,1]"},
		[2]string{"f = open('workspace/s.txt', 'w')\nf.write('abc')", "value 3"},
		[2]string{"f.write('def')\nf.close()\nopen('workspace/s.txt').read()", `value "abcdef"`},
		[2]string{"open('skills/late.py', 'w').write('V = 1')\nimport skills.late\nskills.late.V", "value 1"},
		[2]string{"open('skills/later.py', 'w').write('W = 2')\nfrom skills.later import W\nW", "value 2"},
	)
}

// TestSessionCalls awaits and gathers calls that earlier programs started, or even returned.
func TestSessionCalls(t *testing.T) {
	session(t,
		[2]string{"calls = [github.text() for _ in range(2)]\nissues = [github.get_issue(number=i) for i in " +
			"range(2)]\nnone = lambda: github.nothing()\nby_name = {'text': github.text}\ndef safe():\n    try:\n    " +
			"    return github.count()\n    except ToolError:\n        return 0", ""},
		[2]string{"import asyncio\n[await asyncio.gather(*calls), [i.number for i in await asyncio.gather(*issues)]]",
			`value [["plain text","plain text"],[0,1]]`},
		[2]string{"await none(), await by_name['text'](), await safe(), await calls[0]",
			"value [null,\"plain text\",42,\"plain text\"]"},
		[2]string{"await asyncio.wait_for(safe(), 5), await asyncio.create_task(calls[0]), [len(x) for x in await " +
			"asyncio.wait([safe(), 1])], [await x for x in asyncio.as_completed(calls[:1])]",
			"value [42,\"plain text\",[2,0],[\"plain text\"]]"},
		[2]string{"await asyncio.gather(safe)",
			"fail TypeError: An asyncio.Future, a coroutine or an awaitable is required"},
	)
}

// TestSessionTasks checks that tasks continue between programs.
func TestSessionTasks(t *testing.T) {
	session(t,
		[2]string{"import asyncio\nlog = []\nasync def tick():\n    while True:\n        await asyncio.sleep(1)\n    " +
			"    log.append(len(log))\nt = asyncio.create_task(tick())", ""},
		[2]string{"await asyncio.sleep(3.5)\nlog", "value [0,1,2]"},
		[2]string{"t.cancel()\nawait asyncio.sleep(2)\nlog", "value [0,1,2]"},
	)
}

// TestApart runs programs outside a session in one guest. Nothing may remain for the next program.
func TestApart(t *testing.T) {
	m := start(t)
	for _, p := range [][2]string{
		{"x = 1\nimport asyncio\nasync def f():\n    await asyncio.sleep(1)\n    " +
			"print('late')\nasyncio.create_task(f())\nx", "1"},
		{"'x' in globals()", "false"},
		{"import asyncio\nawait asyncio.sleep(5)\nlen(asyncio.all_tasks())", "1"},
		{"import random\nrandom.seed(7)\n1", "1"},
		{"import random\nrandom.random() == random.Random(7).random()", "false"},
	} {
		done, fail, err := m.run(sandbox.Run{Code: p[0]})
		if err != nil || fail != nil || string(done.Value) != p[1] || strings.Contains(m.console(), "late") {
			t.Errorf("p[0] = %s, done = %v, fail = %v, err = %v, m.console() = %s, want err == nil && "+
				"fail == nil && string(done.Value) == p[1] && !strings.Contains(m.console(), "+
				"\"late\")", p[0], done, fail, err, m.console())
		}
	}
}

// TestSeed checks that equal seeds yield equal random values, and that different seeds yield
// different ones. uuid1 may be equal for different seeds.
func TestSeed(t *testing.T) {
	code := "import random, os, uuid, secrets, tempfile\nr = random.Random()\n[random.random(), r.random(), " +
		"os.urandom(4).hex(), str(uuid.uuid4()), secrets.token_hex(4), random.SystemRandom().random(), " +
		"random.getrandbits(300), str(uuid.uuid1())]"
	values := func(seeds ...string) (all []string) {
		m := start(t)
		for _, s := range seeds {
			done, fail, err := m.run(sandbox.Run{Code: code, Seed: strings.Repeat(s, 32), Session: true})
			if err != nil || fail != nil {
				t.Fatalf("fail = %v, err = %v, want err == nil && fail == nil", fail, err)
			}
			all = append(all, string(done.Value))
		}
		return all
	}
	a, b := values("01", "02"), values("01", "03")
	if a[0] != b[0] {
		t.Errorf("the same seed gave %s and %s", a[0], b[0])
	}
	var x, y []any
	_ = json.Unmarshal([]byte(a[1]), &x)
	_ = json.Unmarshal([]byte(b[1]), &y)
	for i := range x {
		if i < 7 && x[i] == y[i] {
			t.Errorf("two seeds gave the same %v", x[i])
		}
	}
}

// TestSeedOfGenerators checks that generators made by earlier programs are reseeded, unless the
// program seeded them itself.
func TestSeedOfGenerators(t *testing.T) {
	made := `import copy, random
class Odd(random.Random):
  def __eq__(self, other): return True
free, again, odd = random.Random(), random.Random(7), Odd()
again.seed()
fixed, state = random.Random(7), random.Random()
state.setstate(fixed.getstate())
twin = copy.copy(fixed)
for _ in range(100): random.Random()
random.seed(7)`
	drawn := func(seed string) (all []float64) {
		m := start(t)
		for _, r := range []sandbox.Run{{Code: made, Seed: strings.Repeat("01", 32)},
			{Code: "[g.random() for g in (free, again, odd, fixed, state, twin, random)]",
				Seed: strings.Repeat(seed, 32)}} {
			r.Session = true
			done, fail, err := m.run(r)
			if err != nil || fail != nil {
				t.Fatalf("fail = %v, err = %v, want err == nil && fail == nil", fail, err)
			}
			_ = json.Unmarshal(done.Value, &all)
		}
		return all
	}
	a, b, c := drawn("02"), drawn("02"), drawn("03")
	if len(a) != 7 || !slices.Equal(a, b) {
		t.Fatalf("the same seed gave %v and %v", a, b)
	}
	for i := range a {
		if (i < 3) == (a[i] == c[i]) {
			t.Errorf("generator %d: %v and %v", i, a[i], c[i])
		}
	}
}

// TestDeterminism runs random programs twice, with calls that are answered in random order. Then it
// replays the lines that the host wrote. The guest's output and final memory must be identical.
func TestDeterminism(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var code strings.Builder
		code.WriteString("import asyncio, random, time, json\nout = []\n")
		for i := range 6 {
			switch r.IntN(5) {
			case 0:
				fmt.Fprintf(&code,
					"out.append([x.args.i for x in await asyncio.gather(*[slack.post(i=i) for i in range(%d)])])\n",
					1+r.IntN(20))
			case 1:
				fmt.Fprintf(&code, "for f in asyncio.as_completed([slack.post(i=i) for i in range(%d)]): "+
					"out.append((await f).args.i)\n", 1+r.IntN(20))
			case 2:
				fmt.Fprintf(&code, "await asyncio.sleep(%v)\nout.append(time.time())\n", r.Float64())
			case 3:
				fmt.Fprintf(&code,
					"out.append(random.random())\nopen('workspace/f%d', 'w').write(str(out))\ntime.sleep(0.01)\n", i)
			case 4:
				fmt.Fprintf(&code, "def f%d(n):\n    return slack.post(i=n)['args']['i']\nout.append([f%d(n) for n "+
					"in range(%d)])\nprint({object, len, 'a', 1.5})\n", i, i, r.IntN(9))
			}
		}
		code.WriteString("out")
		play := func(delays uint64) ([]byte, []byte) {
			d := rand.New(rand.NewPCG(delays, 2))
			m := start(t)
			m.tools = func(path string, args json.RawMessage) (any, time.Duration, *sandbox.GuestError) {
				v, _, _ := echo(path, args)
				return v, time.Duration(d.IntN(100)) * time.Millisecond, nil
			}
			if _, fail, err := m.run(sandbox.Run{Code: code.String()}); err != nil || fail != nil {
				t.Fatalf("fail = %v, err = %v, code.String() = %v, want err == nil && fail == nil",
					fail, err, code.String())
			}
			said, _ := json.Marshal(m.out)
			return said, bytes.Clone(m.m.Memory())
		}
		said, memory := play(seed)
		again, memory2 := play(seed)
		if !bytes.Equal(said, again) {
			t.Errorf("two runs of\n%s\nsaid\n%s\n%s", &code, said, again)
		}
		if !bytes.Equal(memory, memory2) {
			t.Errorf("two runs of\n%s\nleft different memory", &code)
		}
	}
}

// TestBootTwice checks that two boots yield the same memory.
func TestBootTwice(t *testing.T) {
	first := bootImage(t)
	m := newMachine(t, nil)
	if err := m.enter(m.g.Boot); err != nil {
		t.Fatalf("enter: %v", err)
	}
	if !bytes.Equal(first, m.m.Memory()) {
		t.Error("two boots differ")
	}
}

// TestLines checks that line numbers include the lines of the agent's text before the code.
func TestLines(t *testing.T) {
	m := start(t)
	_, fail, err := m.run(sandbox.Run{Code: "x = 1\n1 / 0", Line: 10})
	if err != nil || fail == nil || !strings.Contains(fail.Stack, `File "program.py", line 12, column 1, in <module>`) {
		t.Errorf("fail = %v, err = %v, want err == nil && fail != nil && strings.Contains(fail.Stack, "+
			"`File \"program.py\", line 12, column 1, in <module>`)", fail, err)
	}
	_, fail, err = m.run(sandbox.Run{Code: "x = = 1", Line: 3})
	if err != nil || fail == nil || !strings.Contains(fail.Stack, `File "program.py", line 4, column 5`) {
		t.Errorf("fail = %v, err = %v, want err == nil && fail != nil && strings.Contains(fail.Stack, "+
			"`File \"program.py\", line 4, column 5`)", fail, err)
	}
}

// TestPatchedLibrary lets programs patch modules that the runtime uses. Later programs must still
// run.
func TestPatchedLibrary(t *testing.T) {
	for _, patch := range []string{
		"import json\njson.dumps = lambda o: 'x\\n'\njson.loads = None",
		"import random\nrandom.seed = None",
		"import ast\nast.parse = ast.NodeTransformer = ast.Name = None",
		"import types\ntypes.FunctionType = types.ModuleType = None",
		"import inspect\ninspect.isawaitable = inspect.CO_COROUTINE = None",
		"import traceback\ntraceback.TracebackException = None",
		"import asyncio\nasyncio.gather = asyncio.all_tasks = asyncio.Future = asyncio.CancelledError = None",
		"import os, gc, itertools\nos.urandom = gc.collect = itertools.islice = None",
	} {
		session(t,
			[2]string{patch + "\nk = 5", ""},
			[2]string{"(await github.get_issue(number=k)).number", "value 5"},
			[2]string{"[github.get_issue(number=k).number for k in range(2)]", "value [0,1]"},
			[2]string{"len(nope)", "fail NameError: name 'nope' is not defined"},
		)
	}
}

// TestPlaces checks the reported positions of calls: repeated ones, others, and those in a
// redefined function.
func TestPlaces(t *testing.T) {
	m := start(t)
	m.tools = testTools
	places := func(code string) (all []string) {
		t.Helper()
		_, fail, err := m.run(sandbox.Run{Code: code, Session: true})
		if fail != nil || err != nil {
			t.Fatalf("fail = %v, err = %v, want fail == nil && err == nil", fail, err)
		}
		for _, c := range m.calls {
			all = append(all, strings.ReplaceAll(c.Stack, `File "program.py", line `, ""))
		}
		return all
	}
	first := "async def f(n):\n    return (await github.get_issue(number=n)).number\n"
	for _, p := range []struct {
		code string
		want []string
	}{
		{first + "for i in range(2):\n    await f(i)\nawait github.get_issue(number=3)", []string{
			"4, column 5, in <module>\n2, column 19, in f", "4, column 5, in <module>\n2, column 19, in f",
			"5, column 7, in <module>"}},
		{"\n\n" + first + "await f(1)", []string{"5, column 1, in <module>\n4, column 19, in f"}},
		{"await f(1)", []string{"1, column 1, in <module>\n4, column 19, in f"}},
	} {
		if got := places(p.code); !slices.Equal(got, p.want) {
			t.Errorf("%s\n%q\nwant\n%q", p.code, got, p.want)
		}
	}
}

// TestSaidAsItIs checks for accurate errors where the library could fail silently or misleadingly.
func TestSaidAsItIs(t *testing.T) {
	m := start(t)
	for code, want := range map[string]string{
		"import os\nos.chmod('none', 0o600)":                    "No such file",
		"import pathlib\npathlib.Path('none').chmod(0o600)":     "No such file",
		"eval('(' * 20000 + ')' * 20000)":                       "nest",
		"x = []\nwhile True:\n    x.append(bytearray(10 ** 6))": "memory limit",
	} {
		_, fail, err := m.run(sandbox.Run{Code: code})
		if err != nil || fail == nil || !strings.Contains(fail.Message, want) {
			t.Errorf("code = %s, fail = %+v, err = %v, want err == nil && fail != nil && "+
				"strings.Contains(fail.Message, want)", code, fail, err)
		}
	}
	done, fail, err := m.run(sandbox.Run{Code: "import os, shutil\nopen('a', 'w').close()\nos.chmod('a', " +
		"0o600)\nshutil.copy('a', 'b')\nos.listdir()"})
	if err != nil || fail != nil || string(done.Value) != `["a","b","skills","tools"]` {
		t.Errorf("done = %v, fail = %+v, err = %v, want err == nil && fail == nil && string(done.Value) "+
			"== `[\"a\",\"b\",\"skills\",\"tools\"]`", done, fail, err)
	}
}
