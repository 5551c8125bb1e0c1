package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
)

// A Report holds the results.
type Report struct {
	Figures    []Figure // in the order of the table of names; figures that were not measured say why
	Yardsticks []Figure

	version string
	quick   bool
	groups  []group
	notes   []string
	took    time.Duration
}

// MarshalJSON writes {"figures": [...], "yardsticks": [...]}.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Figures    []Figure `json:"figures"`
		Yardsticks []Figure `json:"yardsticks"`
	}{append([]Figure{}, r.Figures...), append([]Figure{}, r.Yardsticks...)})
}

const note = `Measured in one run of this binary on this machine: on a shared one figures differ from run to run, so compare within a run. p99 is by
nearest rank: where n is under 100, the worst. "reach" is what a figure is to reach on two shared cores, ✓ that it does, × how far it is off.
Rows with a dot are yardsticks: what others need for the like. Tokens are those of o200k_base (OpenAI's); for Claude it is an estimate.`

func newReport(cfg Config) *Report { return &Report{version: cfg.Version, quick: cfg.Quick} }

// add adds the figures of a group, in the order of its rows. A row without a measurement is added
// as not measured.
func (r *Report) add(g group, figures []Figure) {
	r.groups = append(r.groups, g)
	for _, row := range g.rows {
		found := Figure{Name: row.name, Unit: row.unit, Why: "it was not measured"}
		for _, f := range figures {
			if f.Name == row.name {
				found = f
			}
		}
		r.Figures = append(r.Figures, found)
	}
}

// Write prints the report for a person.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "biplane %s, %d cores, %s/%s, %s\n", r.version, runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if r.quick {
		fmt.Fprintln(w, "quick: few rounds, no figures to rely on")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shown := map[string]bool{}
	for _, g := range r.groups {
		fmt.Fprintf(t, "\n%s\tmedian\tp99\tn\treach\twhat\n", g.title)
		for _, row := range g.rows {
			for _, f := range r.Figures {
				if f.Name == row.name {
					f.write(t, "  ", row)
				}
			}
			for _, f := range r.Yardsticks {
				if y := find(f.Name); y.beside == row.name {
					shown[f.Name] = true
					f.write(t, "  · ", y)
				}
			}
		}
	}
	others := false
	for _, f := range r.Yardsticks {
		if shown[f.Name] {
			continue
		}
		if !others {
			fmt.Fprintf(t, "\nothers\tmedian\tp99\tn\treach\twhat\n")
		}
		others = true
		f.write(t, "  · ", find(f.Name))
	}
	_ = t.Flush() // there is no one to report an error to
	fmt.Fprintf(w, "\n%s\n", note)
	for _, n := range r.notes {
		fmt.Fprintf(w, "%s\n", n)
	}
	fmt.Fprintf(w, "It took %.1f s.\n", r.took.Seconds())
}

// write prints a row.
func (f Figure) write(w io.Writer, indent string, about row) {
	if f.Why != "" {
		fmt.Fprintf(w, "%s%s\t–\t–\t–\t%s\tnot measured: %s\n", indent, f.Name, about.aim(), strings.Join(strings.Fields(f.Why), " "))
		return
	}
	fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", indent, f.Name, quantity(f.Median, f.Unit),
		quantity(f.P99, f.Unit), prose.Group(f.N), about.describeTarget(f.Median), about.what)
}

// aim returns the target of a figure.
func (r row) aim() string {
	switch r.reach {
	case 0:
		return "–"
	case nothing:
		return "0"
	}
	return quantity(r.reach, r.unit)
}

// describeTarget returns the target of a figure, and whether it was reached.
func (r row) describeTarget(v float64) string {
	switch {
	case r.reach == 0:
		return r.aim()
	case r.atLeast() && v >= r.reach, !r.atLeast() && v <= r.reach:
		return r.aim() + " ✓"
	case r.reach == nothing:
		return r.aim() + " ✗"
	}
	return r.aim() + " × " + number(v/r.reach)
}

// digits rounds to four significant digits, which is more than the precision of these figures.
func digits(v float64) float64 { return round(v, 4) }

func round(v float64, n int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// quantity formats a number with its unit.
func quantity(v float64, unit string) string {
	switch unit {
	case "ms":
		return duration(v * 1e6)
	case "us":
		return duration(v * 1e3)
	case "bytes":
		return size(v)
	case "1/s":
		return number(v) + "/s"
	case "percent":
		return number(v) + " %"
	}
	return number(v)
}

// duration formats a number of nanoseconds.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return number(ns) + " ns"
	case ns < 1e6:
		return number(ns/1e3) + " µs"
	case ns < 1e9:
		return number(ns/1e6) + " ms"
	}
	return number(ns/1e9) + " s"
}

func size(v float64) string {
	switch {
	case v < 1e3:
		return number(v) + " B"
	case v < 1e6:
		return number(v/1e3) + " kB"
	case v < 1e9:
		return number(v/1e6) + " MB"
	}
	return number(v/1e9) + " GB"
}

// number formats a number with three significant digits. From 1000 on, it rounds to an integer.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return prose.Group(int(math.Round(v)))
	}
	return strconv.FormatFloat(round(v, 3), 'f', -1, 64)
}
