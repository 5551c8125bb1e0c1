package soak

import (
	"fmt"
	"maps"
	"slices"
)

// A truth is the expected content of a session.
type truth struct {
	guests map[string]*guestTruth // by language; missing: no program in it has succeeded
	files  map[string]string      // in ./workspace
	kills  int64                  // number of killed children when it was last used: later kills may lose it
}

type guestTruth struct {
	n   int   // the variable n
	log []int // the variable log
}

func newTruth() *truth { return &truth{guests: map[string]*guestTruth{}, files: map[string]string{}} }

func (s *truth) clone() *truth {
	c := &truth{guests: map[string]*guestTruth{}, files: maps.Clone(s.files), kills: s.kills}
	for l, g := range s.guests {
		c.guests[l] = &guestTruth{g.n, slices.Clone(g.log)}
	}
	return c
}

// empty reports whether no program has succeeded.
func (s *truth) empty() bool { return len(s.guests) == 0 }

func (g *guestTruth) sum() (sum int) {
	for _, k := range g.log {
		sum += k
	}
	return sum
}

// A step is one program, its effect on the truth, and its expected result.
type step struct {
	code    string
	seconds float64             // timeout_seconds, if not 0
	change  func(*truth) string // returns the start of the expected result; nil: the program fails
	cancel  bool                // the caller cancels
}

// An idiom holds the programs of the soak in one language. Numbers are inserted into each.
type idiom struct {
	begin                     string
	add, call, parallel, slow string
	write, read               string
	fail, endless, forever    string
	check                     string
	alone                     string
}

var idioms = map[string]idiom{
	"typescript": {
		begin: `let n = 0; let log: number[] = [];
const inc = (k: number) => { n += k; log.push(k); return n };
const total = () => log.reduce((a, b) => a + b, 0);
return n`,
		add:  `inc(%[1]d); return [n, log.length]`,
		call: `const r%[1]d = await box.echo({ k: %[1]d }); inc(r%[1]d.k); return [n, log.length]`,
		parallel: `const all = await Promise.all([1, 2, %[1]d].map((k) => box.wait({ ms: k %% 4, k }))); for (const ` +
			`r of all) inc(r.k); return [n, log.length]`,
		slow: `n += 1; const slow = await box.wait({ ms: 25, k: %[1]d }); n -= 1; inc(slow.k); return [n, ` +
			`log.length]`,
		write: `import { writeFile } from "node:fs/promises"; await writeFile("workspace/f%[2]d.txt", "text ` +
			`%[1]d".repeat(100)); inc(%[1]d); return [n, log.length]`,
		read: `import { readFile, readdir } from "node:fs/promises"; return [(await readdir("workspace")).join(),` +
			` (await readFile("workspace/f%[2]d.txt", "utf8")).slice(0, 30)]`,
		fail:    `inc(1000); await box.echo({}); throw new Error("on purpose")`,
		endless: `inc(1000); for (;;);`,
		forever: `inc(1000); await box.wait({ ms: 60000 }); return n`,
		check:   `return [n, log.length, total()]`,
		alone:   `const n = (await box.echo({ k: %[1]d })).k; return n + 1`,
	},
	"python": {
		begin: `n = 0
log = []
def inc(k):
    global n
    n += k
    log.append(k)
    return n
def total():
    return sum(log)
n`,
		add:  "inc(%[1]d)\n[n, len(log)]",
		call: "r = await box.echo(k=%[1]d)\ninc(r[\"k\"])\n[n, len(log)]",
		parallel: "import asyncio\nfor r in await asyncio.gather(*[box.wait(ms=k %% 4, k=k) for k in [1, 2, " +
			"%[1]d]]):\n    inc(r[\"k\"])\n[n, len(log)]",
		slow: "n += 1\nslow = await box.wait(ms=25, k=%[1]d)\nn -= 1\ninc(slow[\"k\"])\n[n, len(log)]",
		write: "with open(\"workspace/f%[2]d.txt\", \"w\") as f:\n    f.write(\"text %[1]d\" * " +
			"100)\ninc(%[1]d)\n[n, len(log)]",
		read: "import os\n[\",\".join(sorted(os.listdir(\"workspace\"))), " +
			"open(\"workspace/f%[2]d.txt\").read()[:30]]",
		fail:    "inc(1000)\nawait box.echo()\nraise ValueError(\"on purpose\")",
		endless: "inc(1000)\nwhile True:\n    pass",
		forever: "inc(1000)\nawait box.wait(ms=60000)\nn",
		check:   "[n, len(log), total()]",
		alone:   "n = (await box.echo(k=%[1]d))[\"k\"]\nn + 1",
	},
}

// added returns the change of a program that adds numbers, one after the other.
func added(language string, ks ...int) func(*truth) string {
	return func(s *truth) string {
		g := s.guests[language]
		for _, k := range ks {
			g.n += k
			g.log = append(g.log, k)
		}
		return fmt.Sprintf("[%d,%d]", g.n, len(g.log))
	}
}

// checked returns a change that changes nothing.
func checked(language string) func(*truth) string {
	return func(s *truth) string {
		g := s.guests[language]
		return fmt.Sprintf("[%d,%d,%d]", g.n, len(g.log), g.sum())
	}
}

// next chooses the next program of a session. dice returns numbers from 0 to 999.
func (s *truth) next(language string, dice func() int) step {
	id, k := idioms[language], dice()
	if s.guests[language] == nil {
		return step{code: id.begin, change: func(s *truth) string { s.guests[language] = &guestTruth{}; return "0" }}
	}
	plus := step{code: fmt.Sprintf(id.add, k), change: added(language, k)}
	switch d := dice(); {
	case d < 300:
		return plus
	case d < 450:
		return step{code: fmt.Sprintf(id.call, k), change: added(language, k)}
	case d < 550:
		return step{code: fmt.Sprintf(id.parallel, k), change: added(language, 1, 2, k)}
	case d < 570:
		return step{code: fmt.Sprintf(id.slow, k), change: added(language, k)}
	case d < 670:
		return s.write(language, k)
	case d < 770:
		return s.read(language, k)
	case d < 850:
		return step{code: id.fail}
	case d < 853:
		return step{code: id.endless, seconds: .03}
	case d < 860:
		return step{code: id.forever, cancel: true}
	default:
		return step{code: id.check, change: checked(language)}
	}
}

func (s *truth) write(language string, k int) step {
	return step{code: fmt.Sprintf(idioms[language].write, k, k%5), change: func(s *truth) string {
		text := fmt.Sprintf("text %d", k)
		for len(text) < 30 {
			text += text
		}
		s.files[fmt.Sprintf("f%d.txt", k%5)] = text[:30]
		return added(language, k)(s)
	}}
}

func (s *truth) read(language string, k int) step {
	at := step{code: fmt.Sprintf(idioms[language].read, k, k%5)}
	if _, ok := s.files[fmt.Sprintf("f%d.txt", k%5)]; !ok {
		return at // it fails: there is no such file
	}
	at.change = func(s *truth) string {
		names := ""
		for i, name := range slices.Sorted(maps.Keys(s.files)) {
			if i > 0 {
				names += ","
			}
			names += name
		}
		return fmt.Sprintf("[%q,%q]", names, s.files[fmt.Sprintf("f%d.txt", k%5)])
	}
	return at
}
