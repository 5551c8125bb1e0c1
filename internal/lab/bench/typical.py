import re
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
}
