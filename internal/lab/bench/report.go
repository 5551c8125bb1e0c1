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

	"github.com/biplane-dev/biplane/internal/base/text"
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

// addGroup adds the figures of a group, in the order of its rows. A row without a measurement is
// added as not measured.
func (r *Report) addGroup(g group, figures []Figure) {
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
	fmt.Fprintf(w, "biplane %s, %d cores, %s/%s, %s\n", r.version, runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH,
		runtime.Version())
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
					f.writeRow(t, "  ", row)
				}
			}
			for _, f := range r.Yardsticks {
				if y := findRow(f.Name); y.beside == row.name {
					shown[f.Name] = true
					f.writeRow(t, "  · ", y)
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
		f.writeRow(t, "  · ", findRow(f.Name))
	}
	_ = t.Flush() // there is no one to report an error to
	fmt.Fprintf(w, "\n%s\n", note)
	for _, n := range r.notes {
		fmt.Fprintf(w, "%s\n", n)
	}
	fmt.Fprintf(w, "It took %.1f s.\n", r.took.Seconds())
}

// writeRow prints a row.
func (f Figure) writeRow(w io.Writer, indent string, about row) {
	if f.Why != "" {
		fmt.Fprintf(w, "%s%s\t–\t–\t–\t%s\tnot measured: %s\n",
			indent, f.Name, about.formatTarget(), strings.Join(strings.Fields(f.Why), " "))
		return
	}
	fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\n", indent, f.Name, formatQuantity(f.Median, f.Unit),
		formatQuantity(f.P99, f.Unit), text.Group(f.N), about.describeTarget(f.Median), about.what)
}

// formatTarget returns the target of a figure.
func (r row) formatTarget() string {
	switch r.reach {
	case 0:
		return "–"
	case nothing:
		return "0"
	}
	return formatQuantity(r.reach, r.unit)
}

// describeTarget returns the target of a figure, and whether it was reached.
func (r row) describeTarget(v float64) string {
	switch {
	case r.reach == 0:
		return r.formatTarget()
	case r.atLeast() && v >= r.reach, !r.atLeast() && v <= r.reach:
		return r.formatTarget() + " ✓"
	case r.reach == nothing:
		return r.formatTarget() + " ✗"
	}
	return r.formatTarget() + " × " + formatNumber(v/r.reach)
}

// roundFigure rounds to four significant digits, which is more than the precision of these figures.
func roundFigure(v float64) float64 { return roundDigits(v, 4) }

func roundDigits(v float64, n int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// formatQuantity formats a number with its unit.
func formatQuantity(v float64, unit string) string {
	switch unit {
	case "ms":
		return formatDuration(v * 1e6)
	case "us":
		return formatDuration(v * 1e3)
	case "bytes":
		return formatSize(v)
	case "1/s":
		return formatNumber(v) + "/s"
	case "percent":
		return formatNumber(v) + " %"
	}
	return formatNumber(v)
}

// formatDuration formats a number of nanoseconds.
func formatDuration(ns float64) string {
	switch {
	case ns < 1e3:
		return formatNumber(ns) + " ns"
	case ns < 1e6:
		return formatNumber(ns/1e3) + " µs"
	case ns < 1e9:
		return formatNumber(ns/1e6) + " ms"
	}
	return formatNumber(ns/1e9) + " s"
}

func formatSize(v float64) string {
	switch {
	case v < 1e3:
		return formatNumber(v) + " B"
	case v < 1e6:
		return formatNumber(v/1e3) + " kB"
	case v < 1e9:
		return formatNumber(v/1e6) + " MB"
	}
	return formatNumber(v/1e9) + " GB"
}

// formatNumber formats a number with three significant digits. From 1000 on, it rounds to an
// integer.
func formatNumber(v float64) string {
	if math.Abs(v) >= 1000 {
		return text.Group(int(math.Round(v)))
	}
	return strconv.FormatFloat(roundDigits(v, 3), 'f', -1, 64)
}
