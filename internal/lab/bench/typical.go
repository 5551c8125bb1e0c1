package bench

import (
	_ "embed"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// thirtyLines is a program as agents write them, without calls.
const thirtyLines = `const customers = Array.from({ length: 200 }, (_, i) => ({
  id: i,
  name: "customer " + i,
  region: ["north", "south", "east", "west"][i % 4],
  orders: Array.from({ length: i % 7 }, (_, k) => ({ total: (i * 31 + k * 17) % 500, paid: (i + k) % 3 !== 0 })),
}));
interface Sum { count: number; due: number; names: string[] }
const open = customers
  .map((c) => ({ ...c, due: c.orders.filter((o) => !o.paid).reduce((s, o) => s + o.total, 0) }))
  .filter((c) => c.due > 300);
const regions = new Map<string, Sum>();
for (const c of open) {
  const r = regions.get(c.region) ?? { count: 0, due: 0, names: [] };
  r.count++;
  r.due += c.due;
  if (/\d*[02468]$/.test(c.name)) {
    r.names.push(c.name.toUpperCase());
  }
  regions.set(c.region, r);
}
function line(region: string, { count, due, names }: Sum): string {
  return region + ": " + count + " owe " + due.toFixed(2) + " (" + names.slice(0, 3).join(", ") + ")";
}
const lines = [...regions].map(([region, r]) => line(region, r)).sort();
return {
  report: lines.join("; "),
  total: open.reduce((s, c) => s + c.due, 0),
  largest: Math.max(...open.map((c) => c.due)),
  regions: regions.size,
};`

//go:embed typical.py
var typicalPython string

// typical is the program that sessions run before they are measured, by language.
var typical = map[string]string{
	"ts": thirtyLines,
	"py": typicalPython,
}

// The programs for measuring engines: 1+1, a variable of the typical program, many calls, the CPU
// set.
var (
	one      = map[string]string{"ts": "1 + 1", "py": "1 + 1"}
	variable = map[string]string{"ts": "regions.size", "py": "len(regions)"}
	manyTool = map[string]string{
		"ts": `for (let i = 0; i < %d; i++) await bench.echo({ i }); return "done"`,
		"py": "for i in range(%d):\n    await bench.echo(i=i)\n'done'",
	}
	cpu = map[string]string{"ts": cpuTS, "py": cpuPY}
)

// prepareProgram makes a program of a session runnable, as the executor does: once, before anything
// is timed.
func prepareProgram(lang, source string) (*program.Program, error) {
	return program.New(program.Config{}).Prepare(program.Request{
		Source: source, Language: map[string]string{"ts": "typescript", "py": "python"}[lang], Session: true,
	})
}
