package daemon_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// sales are files with three formats of dates.
var sales = map[string]string{
	"north.csv": "date;amount\n2026-01-05;10\n2026-02-20;20\n",
	"south.csv": "date;amount\n06/01/2026;7\n31/01/2026;3\n",
	"west.csv":  "date;amount\nFeb 03, 2026;5\nMar 15, 2026;4\n",
}

const withPandas = `import asyncio
import pandas as pd

FORMATS = {"north": "%Y-%m-%d", "south": "%d/%m/%Y", "west": "%b %d, %Y"}


def read(region, pattern):
    frame = pd.read_csv(f"./workspace/{region}.csv", sep=";")
    frame["date"] = pd.to_datetime(frame["date"], format=pattern)
    frame["region"] = region
    return frame


async def report(month, amount):
    answer = await box.put(month=month, amount=int(amount))
    return [month, int(amount), answer]


frames = [read(region, pattern) for region, pattern in FORMATS.items()]
merged = pd.concat(frames, ignore_index=True).sort_values("date")
merged["month"] = merged["date"].dt.strftime("%Y-%m")
totals = merged.groupby("month")["amount"].sum()
reports = await asyncio.gather(*[report(m, a) for m, a in totals.items()])
merged.to_csv("./workspace/merged.csv", index=False)
with open("./workspace/months.txt", "w") as f:
    f.write("\n".join(totals.index))
{"rows": len(merged), "first": str(merged["date"].min().date()), "reports": reports}
`

const withPandasLater = `import pandas as pd

merged = pd.read_csv("./workspace/merged.csv", parse_dates=["date"])
best = merged.groupby("region")["amount"].sum().idxmax()
await box.put(best=best)
{"rows": len(merged), "best": best, "kind": str(merged["date"].dtype), "later": "totals" in globals()}
`

// withPackage does the same without pandas, and with a package of the host.
const withPackage = `import asyncio
import csv
import datetime
import PACKAGE

FORMATS = {"north": "%Y-%m-%d", "south": "%d/%m/%Y", "west": "%b %d, %Y"}


def read(region, pattern):
    with open(f"./workspace/{region}.csv", newline="") as f:
        for row in csv.DictReader(f, delimiter=";"):
            day = datetime.datetime.strptime(row["date"], pattern).date()
            yield {"date": day.isoformat(), "region": region, "amount": int(row["amount"])}


async def report(month, amount):
    answer = await box.put(month=month, amount=amount)
    return [month, amount, answer]


merged = sorted((r for n, p in FORMATS.items() for r in read(n, p)), key=lambda r: r["date"])
totals = {}
for row in merged:
    totals[row["date"][:7]] = totals.get(row["date"][:7], 0) + row["amount"]
reports = await asyncio.gather(*[report(m, a) for m, a in totals.items()])
with open("./workspace/merged.csv", "w", newline="") as f:
    out = csv.DictWriter(f, ["date", "region", "amount"])
    out.writeheader()
    out.writerows(merged)
assert PACKAGE.__file__.startswith("/usr/"), PACKAGE.__file__
{"rows": len(merged), "first": merged[0]["date"], "reports": reports}
`

const withPackageLater = `import csv
import PACKAGE

with open("./workspace/merged.csv", newline="") as f:
    merged = list(csv.DictReader(f))
amounts = {}
for row in merged:
    amounts[row["region"]] = amounts.get(row["region"], 0) + int(row["amount"])
best = max(amounts, key=amounts.get)
await box.put(best=best)
{"rows": len(merged), "best": best, "later": "totals" in globals()}
`

// checkWork runs a program in a session with the files, and another one on the next day, after a
// restart of the gateway.
func (r *tierRig) checkWork(image, first, later, wantLater string) {
	r.t.Helper()
	r.clock = &wallclock.Clock{}
	r.stop()
	r.start(inProcesses, nil)
	if x := r.runPython(api.RunRequest{Code: "1", Session: "work", Image: image}); x.Error != nil {
		r.t.Fatalf("the first program of the session: %+v", x.Error)
	}
	for name, text := range sales {
		if err := r.d.Client().Sessions().WriteFile(r.t.Context(), "work", name, strings.NewReader(text)); err != nil {
			r.t.Fatalf("WriteFile: %v", err)
		}
	}
	run := func(code, want string, calls int) *api.Execution {
		x := r.runPython(api.RunRequest{Code: code, Session: "work", Image: image})
		var got any
		_ = json.Unmarshal(x.Value, &got) // compared below
		text, err := json.Marshal(got)
		if err != nil || x.Error != nil || string(text) != want || x.Tier != "process" || len(x.Calls) != calls {
			r.t.Errorf("value %s, %+v, tier %s, %d calls, console %v; want %s and %d calls", x.Value, x.Error, x.Tier,
				len(x.Calls), x.Console, want, calls)
		}
		return x
	}
	run(first, `{"first":"2026-01-05","reports":[["2026-01",20,"done"],["2026-02",25,"done"],["2026-03",4,"done"]],`+
		`"rows":6}`, 3)
	r.stop()
	r.clock.Advance(24 * time.Hour)
	r.start(inProcesses, nil)
	if x := run(later, wantLater, 1); !strings.Contains(x.SessionNote, "its files are kept") {
		r.t.Errorf("on the next day: the note is %q, want that the files are kept", x.SessionNote)
	}
}

// TestRealWork merges files by a program in Python with a package of the host.
func TestRealWork(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inProcesses)
	x := r.runPython(api.RunRequest{Code: "import importlib.util\nnext((n for n in ('yaml', 'six', 'dateutil', " +
		"'pyparsing', 'pygments', 'packaging', 'setuptools', 'pip') if importlib.util.find_spec(n)), '')"})
	var found string
	if err := json.Unmarshal(x.Value, &found); err != nil || found == "" {
		t.Skipf("this host's Python has no package: %s, %+v", x.Value, x.Error)
	}
	r.checkWork("", strings.ReplaceAll(withPackage, "PACKAGE", found),
		strings.ReplaceAll(withPackageLater, "PACKAGE", found), `{"best":"north","later":false,"rows":6}`)
}

// TestRealWorkWithPandas merges files by a program with pandas, in an image with Debian's package.
func TestRealWorkWithPandas(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it downloads packages")
	}
	r := newProcessRig(t, inProcesses)
	all := daemon.NewImages(r.dir, &config.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := all.BuildImage(ctx, "data", api.ImageContent{Python: []string{"pandas"}}, func(string) {}); err != nil {
		t.Skipf("an image with pandas can't be built here (apt-get update?): %v", err)
	}
	r.checkWork("data", withPandas, withPandasLater,
		`{"best":"north","kind":"datetime64[ns]","later":false,"rows":6}`)
}

// TestRealNodePackage runs a program on Node.js with an npm package of its image.
func TestRealNodePackage(t *testing.T) {
	t.Parallel()
	r := newNodeRig(t, anyTier)
	zod := filepath.Dir(peertest.Module(t, "zod/package.json"))
	files := map[string]string{}
	err := filepath.WalkDir(zod, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files["usr/lib/node_modules/zod"+strings.TrimPrefix(path, zod)] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("read the package: %v", err)
	}
	putImage(t, r.dir, image.Manifest{Name: "web", Modules: map[string][]string{"js": {"zod"}}}, files)
	x := r.runNode(api.RunRequest{Code: `import { z } from "zod";
const Row = z.object({ region: z.string(), amount: z.number().positive() });
const good = Row.parse({ region: "north", amount: 3 });
const bad = Row.safeParse({ region: "south", amount: -1 });
const answers = await Promise.all([1, 2, 3].map((n) => box.put({ n })));
return [good.amount, bad.success, answers.length]`})
	if x.Error != nil || string(x.Value) != "[3,false,3]" || x.Image != "web" || len(x.Calls) != 3 {
		t.Errorf("with zod: %s, %+v, image %q, %d calls", x.Value, x.Error, x.Image, len(x.Calls))
	}
}
