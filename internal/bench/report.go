package bench

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A Report is what was measured.
type Report struct {
	Version string  `json:"version"`
	Machine Machine `json:"machine"`
	Quick   bool    `json:"quick,omitempty"` // few rounds: no figures to rely on
	Groups  []Group `json:"groups"`
	Note    string  `json:"note"`
	Seconds float64 `json:"seconds"` // all of it
}

// Machine is where it was measured.
type Machine struct {
	Cores    int    `json:"cores"` // that Go uses
	Platform string `json:"platform"`
	Go       string `json:"go"`
}

// A Group is figures to be compared with the first of them.
type Group struct {
	Name    string   `json:"name"`
	Figures []Figure `json:"figures"`
}

const note = `Measured in one run of this binary on this machine. On a shared machine figures differ from run to run: compare them within one run.
The last column is a row against the first of its group (p50, else the rate, else the amount); a call from inside a program is against
the same call made directly, and is the mean of 100 in a program, less what a program takes that makes none. Rates are from many
at once, where nothing else is said: from as many as keep all cores at work. Tokens are those of o200k_base (OpenAI's) in names,
descriptions and input schemas; for Claude it is an estimate. Memory counts pages that sandboxes share once for each.`

func newReport(cfg Config) *Report {
	return &Report{
		Version: cfg.Version, Quick: cfg.Quick, Note: strings.ReplaceAll(note, "\n", " "),
		Machine: Machine{Cores: runtime.GOMAXPROCS(0), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()},
	}
}

// add adds a group, and says how each row compares to the first.
func (r *Report) add(name string, figures []Figure) {
	for i := range figures {
		f, first := &figures[i], figures[0]
		if i == 0 || f.unlike {
			continue
		}
		switch {
		case first.P50 > 0 && f.P50 > 0:
			f.Against = ratio(first.P50, f.P50)
		case first.PerSecond > 0 && f.PerSecond > 0:
			f.Against = ratio(first.PerSecond, f.PerSecond)
		case first.Amount > 0 && f.Amount > 0:
			f.Against = ratio(first.Amount, f.Amount)
		}
	}
	r.Groups = append(r.Groups, Group{name, figures})
}

// ratio is b as a multiple of a, with three digits; 0 where there is none.
func ratio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return digits(b / a)
}

// digits rounds to three significant digits.
func digits(v float64) float64 {
	if v == 0 {
		return 0
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// Write prints the report for a person.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "biplane %s, %d cores, %s, %s\n", r.Version, r.Machine.Cores, r.Machine.Platform, r.Machine.Go)
	if r.Quick {
		fmt.Fprintln(w, "quick: few rounds, no figures to rely on")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.Groups {
		fmt.Fprintf(t, "\n%s\tp50\tp99\ta second\tamount\tagainst first\n", g.Name)
		for _, f := range g.Figures {
			if f.Skipped != "" {
				fmt.Fprintf(t, "  %s\tnot measured: %s\n", f.Name, f.Skipped)
				continue
			}
			cells := []string{duration(f.P50), duration(f.P99), count(f.PerSecond), "–", "–"}
			if f.Amount > 0 {
				cells[3] = count(f.Amount) + " " + f.Unit
			}
			if f.Against > 0 {
				cells[4] = "× " + number(f.Against)
			}
			fmt.Fprintf(t, "  %s\t%s\n", f.Name, strings.Join(cells, "\t"))
		}
	}
	_ = t.Flush() // nobody is left to tell
	fmt.Fprintf(w, "\n%s\nIt took %.1f s.\n", note, r.Seconds)
}

// duration writes milliseconds.
func duration(ms float64) string {
	switch {
	case ms <= 0:
		return "–"
	case ms < 1:
		return number(ms*1000) + " µs"
	case ms < 1000:
		return number(ms) + " ms"
	}
	return number(ms/1000) + " s"
}

// count writes how many, or how often.
func count(v float64) string {
	switch {
	case v <= 0:
		return "–"
	case v < 100:
		return number(v)
	}
	return thousands(int(math.Round(v)))
}

// number writes three digits.
func number(v float64) string {
	if v >= 1000 {
		return thousands(int(math.Round(v)))
	}
	return strconv.FormatFloat(digits(v), 'f', -1, 64)
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
