package program_test

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
)

const fiftyLines = `interface Issue { id: number; title: string; labels: string[]; state: "open" | "closed" }
type Summary = Record<string, { count: number; titles: string[] }>;

const repos = ["a/b", "c/d", "e/f"];

async function load(repo: string): Promise<Issue[]> {
  const page = await github.list_issues({ repo, state: "open", limit: 100 });
  return page.items.filter((i: Issue) => i.state === "open");
}

function group(issues: Issue[]): Summary {
  const out: Summary = {};
  for (const issue of issues) {
    for (const label of issue.labels) {
      out[label] ??= { count: 0, titles: [] };
      out[label].count++;
      if (out[label].titles.length < 3) {
        out[label].titles.push(issue.title.slice(0, 80));
      }
    }
  }
  return out;
}

const all = (await Promise.all(repos.map(load))).flat();
console.log(` + "`loaded ${all.length} issues of ${repos.length} repositories`" + `);

const stale = all.filter((i) => /stale|wontfix/i.test(i.labels.join(" ")));
for (const issue of stale.slice(0, 10)) {
  try {
    const text = await files.read({ path: ` + "`notes/${issue.id}.md`" + ` });
    if (text.includes("keep")) continue;
    await github.create_issue({ repo: "a/b", title: "stale: " + issue.title, body: null });
  } catch (e) {
    console.error("could not", issue.id, (e as Error).message);
  }
}

const summary = group(all);
const top = Object.entries(summary)
  .sort(([, a], [, b]) => b.count - a.count)
  .slice(0, 5)
  .map(([label, { count, titles }]) => ({ label, count, titles }));

if (top.length === 0) {
  return { message: "nothing to report", total: all.length };
}
return { total: all.length, stale: stale.length, top };
`

func BenchmarkPrepare(b *testing.B) {
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		b.Fatalf("txtar.ParseFile: %v", err)
	}
	for name, p := range map[string]*program.Preparer{
		"checked": program.New(program.Config{Catalog: catalog.NewResolver(tools(b, schemas.Files), nil)}),
		"alone":   program.New(program.Config{}),
	} {
		for size, source := range map[string]string{"50": fiftyLines,
			"1": "await github.list_issues({ repo: \"a/b\" })",
			"500": strings.Repeat("{\n"+strings.ReplaceAll(fiftyLines, "return { total", "if (1) return { total")+"}\n",
				10)} {
			b.Run(name+"/lines="+size, func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n++
					// a different text each time
					if _, err := p.Prepare(program.Request{Source: source + strings.Repeat(" ", n%500)}); err != nil {
						b.Fatalf("Prepare: %v", err)
					}
				}
			})
		}
	}
}
