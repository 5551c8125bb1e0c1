package review_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/exec/program/review"
	"github.com/biplane-dev/biplane/internal/tool"
)

func findingsOf(t testing.TB, language, source string) []tool.Finding {
	t.Helper()
	p, err := program.New(program.Config{}).Prepare(program.Request{Source: source, Language: language})
	if err != nil {
		t.Fatalf("prepare the program: %v", err)
	}
	return p.Findings
}

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		name, language, source string
		line, column           int
	}{
		{"template", "typescript", "interface A { b: string }\nconst x: A = await crm.get({});\n" +
			"await db.query({ sql: `SELECT 1 FROM t WHERE a = '${x.b}'` });", 3, 53},
		{"wrapper", "typescript", "const run = (command: string) => shell.run({ command });\n" +
			"const a = await crm.get({});\n" +
			"await run('ls');\nawait run(`ls ${a.b}`);", 4, 17},
		{"f-string in a block", "python", "Here it is:\n```python\n  x = await crm.get({})\n" +
			"  await shell.run({\"command\": f\"ls {x['a']}\"})\n```\n", 4, 37},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := findingsOf(t, tt.language, tt.source)
			if len(found) != 1 || found[0].Line != tt.line || found[0].Column != tt.column {
				t.Errorf("found %v, want one at line %d, column %d", found, tt.line, tt.column)
			}
		})
	}
}

// TestSecretIsNotRepeated tests that no text of a finding has any part of the secret.
func TestSecretIsNotRepeated(t *testing.T) {
	secret := "kT9" + "xQ2mWz7RbL4vN8pY"
	for language, source := range map[string]string{
		"typescript": `const api_key = "` + secret + `"; return api_key.length`,
		"python":     `api_key = "` + secret + `"` + "\nlen(api_key)",
	} {
		found := findingsOf(t, language, source)
		if len(found) != 1 || found[0].Rule != review.Secret {
			t.Fatalf("%s: found %v, want a secret", language, found)
		}
		for i := range len(secret) - 4 {
			if strings.Contains(found[0].String(), secret[i:i+4]) {
				t.Fatalf("%s: %q repeats a part of the secret", language, found[0])
			}
		}
	}
}

// TestUnreviewed tests that a program that can't be reviewed has a finding that says so.
func TestUnreviewed(t *testing.T) {
	for name, tt := range map[string]struct{ language, source string }{
		"a large script":         {"typescript", "let n = 0;\n" + strings.Repeat("n = n + 1;\n", 13000)},
		"a large Python program": {"python", strings.Repeat("n = 1\n", 25000)},
		"deep Python":            {"python", strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300)},
		"broken Python":          {"python", "x = = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			found := findingsOf(t, tt.language, tt.source)
			if len(found) != 1 || found[0].Rule != review.Unreviewed {
				t.Errorf("found %v, want unreviewed", found)
			}
		})
	}
}

// TestSyntax tests that the parser of Python supports what programs contain.
func TestSyntax(t *testing.T) {
	for _, source := range []string{
		"match x:\n    case {'a': [1, *rest]} if rest:\n        y = 1\n    case _:\n        pass\n",
		"match = 3\nprint(match)\nmatch.x = 1",
		"async def f(a, /, b: int = 1, *args, c, **kw) -> dict[str, int]:\n    return {**kw, 'a': a}\n",
		"x = [a async for a in g() if a if not a.b]\ny = {k: v for k, v in z.items()}\nw = {*x, 1}\nt = 1,\n",
		"with (open('a') as f, open('b') as g):\n    pass\nwith (a or b):\n    pass\n",
		"try:\n    x()\nexcept* (A, B) as e:\n    raise C from e\nelse:\n    pass\nfinally:\n    del x[0], y.z\n",
		"@a.b(c)\nclass D(E, metaclass=F):\n    '''doc'''\n    x: int\n" +
			"    def g(self): return lambda *a, b=1: a[::2], b\n",
		"x = f'{a!r:>{width}} {{}} {b[\"c\"]:,.2f} {d=}'\ny = f\"{x[\"a\"]}\"\nz = rb'\\d' b'x'\n",
		"if (n := len(a)) > 1 and not b is not c or d not in e: pass\nelif f: pass\nelse: pass\n",
		"x: list[int] = []\nx += [1]; y @= z\nglobal q\nassert x, 'no'\nfor i, (a, *b) in c: break\nelse: pass\n",
		"print(*a, **b, sep='')\nx = a if b else c\ny = await d\nz = -x ** ~y // 2 << 3\nu = yield\n",
		"x = (\n  1 +\n  2  # comment\n)\ny = 'a' \\\n  'b'\n\tz = 1 if x else 2\n",
		"type A = list[int]\n",
	} {
		for _, f := range review.ReviewPython(source) {
			t.Errorf("%q: %v", source, f)
		}
	}
}

const thirtyLines = `const repos = ["a/b", "c/d", "e/f"];
async function load(repo: string) {
  const page = await github.list_issues({ repo, state: "open", limit: 100 });
  return page.items.filter((i) => i.state === "open");
}
const all = (await Promise.all(repos.map(load))).flat();
const out = {};
for (const issue of all) {
  for (const label of issue.labels) {
    out[label] ??= { count: 0, titles: [] };
    out[label].count++;
    if (out[label].titles.length < 3) {
      out[label].titles.push(issue.title.slice(0, 80));
    }
  }
}
const stale = all.filter((i) => /stale|wontfix/i.test(i.labels.join(" ")));
for (const issue of stale.slice(0, 10)) {
  try {
    const text = await files.read({ path: "notes/" + issue.id + ".md" });
    if (text.includes("keep")) continue;
    await github.create_issue({ repo: "a/b", title: "stale: " + issue.title, body: null });
  } catch (e) {
    console.error("could not", issue.id, e.message);
  }
}
const top = Object.entries(out)
  .sort(([, a], [, b]) => b.count - a.count)
  .slice(0, 5).map(([label, { count, titles }]) => ({ label, count, titles }));
return { top, stale: stale.length };
`

const thirtyLinesPython = `import json

repos = ["a/b", "c/d", "e/f"]

async def load(repo):
    page = await github.list_issues({"repo": repo, "state": "open", "limit": 100})
    return [i for i in page["items"] if i["state"] == "open"]

out = {}
found = []
for repo in repos:
    found += await load(repo)
for issue in found:
    for label in issue["labels"]:
        entry = out.setdefault(label, {"count": 0, "titles": []})
        entry["count"] += 1
        if len(entry["titles"]) < 3:
            entry["titles"].append(issue["title"][:80])
stale = [i for i in found if "stale" in i["labels"]]
for issue in stale[:10]:
    try:
        text = await files.read({"path": f"notes/{issue['id']}.md"})
        if "keep" in text:
            continue
        await github.create_issue({"repo": "a/b", "title": "stale: " + issue["title"], "body": None})
    except Exception as e:
        print("could not", issue["id"], e)
top = sorted(out.items(), key=lambda kv: -kv[1]["count"])[:5]
print(json.dumps(top))
{"top": top, "stale": len(stale)}
`

func BenchmarkPython(b *testing.B) {
	for b.Loop() {
		review.ReviewPython(thirtyLinesPython)
	}
}

func BenchmarkScript(b *testing.B) {
	p, err := program.New(program.Config{}).Prepare(program.Request{Source: thirtyLines})
	if err != nil {
		b.Fatalf("prepare the program: %v", err)
	}
	tree := check.ParseCode(p.Code)
	if tree == nil {
		b.Fatal("the program has no syntax tree")
	}
	for b.Loop() {
		review.ReviewScript(p.Code, tree)
	}
}

func FuzzPython(f *testing.F) {
	f.Add(thirtyLinesPython)
	f.Add("f\"{x[\"a\"]:{w}}\"")
	f.Add("r = await a.b()\nfor x in sorted(r, key=lambda y: y.c):\n    x[0].d, (await a.b()).e = x['f'], r[-1][0]")
	f.Fuzz(func(t *testing.T, source string) {
		for _, x := range review.ReviewPython(source) {
			if x.At < 0 || x.At > len(source) {
				t.Errorf("the finding %v is outside the program", x)
			}
		}
		for _, r := range review.FindResultReads(source, map[string]bool{"a": true, "r": true}) {
			if r.At < 0 || r.At > len(source) || r.Tool == "" || len(r.Path) == 0 || r.Path[len(r.Path)-1] == "" {
				t.Errorf("the read %+v is not a field in the program", r)
			}
		}
	})
}

// TestRulesAreKnown checks that policies can name every rule.
func TestRulesAreKnown(t *testing.T) {
	rules := []string{review.SQL, review.Shell, review.Path, review.TLS, review.Eval, review.Secret,
		review.Unreviewed}
	slices.Sort(rules)
	if !slices.Equal(rules, tool.ReviewRules()) {
		t.Errorf("the rules are %v, and tool.ReviewRules has %v", rules, tool.ReviewRules())
	}
}
