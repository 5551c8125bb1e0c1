package bench

// thirtyLines is a program as agents write them, less the calls.
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

// typical is the same as an engine gets it, by language: in a session, where all that it declares stays.
var typical = map[string]string{
	"ts": `(async () => {
globalThis.customers = Array.from({ length: 200 }, (_, i) => ({
  id: i,
  name: "customer " + i,
  region: ["north", "south", "east", "west"][i % 4],
  orders: Array.from({ length: i % 7 }, (_, k) => ({ total: (i * 31 + k * 17) % 500, paid: (i + k) % 3 !== 0 })),
}));
globalThis.open = customers
  .map((c) => ({ ...c, due: c.orders.filter((o) => !o.paid).reduce((s, o) => s + o.total, 0) }))
  .filter((c) => c.due > 300);
globalThis.regions = new Map();
for (const c of open) {
  const r = regions.get(c.region) ?? { count: 0, due: 0, names: [] };
  r.count++;
  r.due += c.due;
  if (/\d*[02468]$/.test(c.name)) {
    r.names.push(c.name.toUpperCase());
  }
  regions.set(c.region, r);
}
globalThis.line = function line(region, { count, due, names }) {
  return region + ": " + count + " owe " + due.toFixed(2) + " (" + names.slice(0, 3).join(", ") + ")";
}
globalThis.lines = [...regions].map(([region, r]) => line(region, r)).sort();
return {
  report: lines.join("; "),
  total: open.reduce((s, c) => s + c.due, 0),
  largest: Math.max(...open.map((c) => c.due)),
  regions: regions.size,
};
})`,
	"py": `import re
from dataclasses import dataclass, field

customers = [{
    "id": i,
    "name": "customer %d" % i,
    "region": ["north", "south", "east", "west"][i % 4],
    "orders": [{"total": (i * 31 + k * 17) % 500, "paid": (i + k) % 3 != 0} for k in range(i % 7)],
} for i in range(200)]

@dataclass
class Sum:
    count: int = 0
    due: float = 0
    names: list = field(default_factory=list)

due = [{**c, "due": sum(o["total"] for o in c["orders"] if not o["paid"])} for c in customers]
due = [c for c in due if c["due"] > 300]
regions = {}
for c in due:
    r = regions.setdefault(c["region"], Sum())
    r.count += 1
    r.due += c["due"]
    if re.search(r"\d*[02468]$", c["name"]):
        r.names.append(c["name"].upper())

def line(region, s):
    return f"{region}: {s.count} owe {s.due:.2f} ({', '.join(s.names[:3])})"

lines = sorted(line(region, s) for region, s in regions.items())
{
    "report": "; ".join(lines),
    "total": sum(c["due"] for c in due),
    "largest": max(c["due"] for c in due),
    "regions": len(regions),
}`,
}
