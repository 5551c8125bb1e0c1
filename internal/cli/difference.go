package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/biplane-dev/biplane/api"
)

// A difference holds the differences between two executions.
type difference struct {
	A       string     `json:"a"`
	B       string     `json:"b"`
	Same    bool       `json:"same"`
	State   *change    `json:"state,omitempty"`
	Program []string   `json:"program,omitempty"` // lines, marked with "-", "+" or " "; absent if equal
	Calls   []callDiff `json:"calls,omitempty"`   // that differ
	Console []string   `json:"console,omitempty"`
	Value   *change    `json:"value,omitempty"`
	Error   *change    `json:"error,omitempty"`
}

// A change is a value that differs between two executions.
type change struct {
	A string `json:"a"`
	B string `json:"b"`
}

// A callDiff is a call that differs. If only one execution made it, the other's call is nil.
type callDiff struct {
	A    *api.ExecutionCall `json:"a,omitempty"`
	B    *api.ExecutionCall `json:"b,omitempty"`
	What string             `json:"what"` // "only in a", "only in b", "result", "outcome"
}

// compareExecutions returns the differences between two executions.
func compareExecutions(a, b *api.ExecutionDetail) *difference {
	d := &difference{A: a.ID, B: b.ID}
	d.State = changeBetween(a.State, b.State)
	d.Program = compareLines(strings.Split(a.Program, "\n"), strings.Split(b.Program, "\n"))
	d.Console = compareLines(consoleLines(a), consoleLines(b))
	d.Calls = compareCalls(a.Calls, b.Calls)
	va, erra := compactValue(a.Value)
	vb, errb := compactValue(b.Value)
	if erra != nil || errb != nil {
		va, vb = string(a.Value), string(b.Value)
	}
	d.Value, d.Error = changeBetween(va, vb), changeBetween(errorOf(a), errorOf(b))
	d.Same = d.State == nil && d.Program == nil && d.Console == nil && d.Calls == nil && d.Value == nil &&
		d.Error == nil
	return d
}

func changeBetween(a, b string) *change {
	if a == b {
		return nil
	}
	return &change{a, b}
}

func errorOf(d *api.ExecutionDetail) string {
	if d.Error == nil {
		return ""
	}
	return failureText(d.Error)
}

func consoleLines(d *api.ExecutionDetail) (out []string) {
	for _, l := range d.Console {
		out = append(out, l.Level+": "+l.Text)
	}
	return out
}

// maxAlign is the maximum size of the table that aligns two lists.
const maxAlign = 4_000_000

// alignLists pairs the equal elements of two lists, by a longest common subsequence. The index -1
// stands for an element that the other list lacks. In lists that are too long for the table, only
// the common prefix and suffix are paired.
func alignLists(n, m int, same func(i, j int) bool) (pairs [][2]int) {
	head := 0
	for head < n && head < m && same(head, head) {
		pairs = append(pairs, [2]int{head, head})
		head++
	}
	tail := 0
	for tail < n-head && tail < m-head && same(n-1-tail, m-1-tail) {
		tail++
	}
	pairs = append(pairs, alignMiddle(head, n-tail, m-tail, same)...)
	for k := tail; k > 0; k-- {
		pairs = append(pairs, [2]int{n - k, m - k})
	}
	return pairs
}

func alignMiddle(from, n, m int, same func(i, j int) bool) (pairs [][2]int) {
	rows, cols := n-from, m-from
	var best []int32 // best[i*(cols+1)+j] is the length of the longest common subsequence from i and j on
	if rows*cols <= maxAlign {
		best = make([]int32, (rows+1)*(cols+1))
		for i := rows - 1; i >= 0; i-- {
			for j := cols - 1; j >= 0; j-- {
				at := i*(cols+1) + j
				if best[at] = max(best[at+cols+1], best[at+1]); same(from+i, from+j) {
					best[at] = max(best[at], best[at+cols+2]+1)
				}
			}
		}
	}
	i, j := 0, 0
	for i < rows || j < cols {
		at := i*(cols+1) + j
		switch {
		case best != nil && i < rows && j < cols && same(from+i, from+j) && best[at] == best[at+cols+2]+1:
			pairs = append(pairs, [2]int{from + i, from + j})
			i, j = i+1, j+1
		case i < rows && (best == nil || j == cols || best[at+cols+1] >= best[at+1]):
			pairs = append(pairs, [2]int{from + i, -1})
			i++
		default:
			pairs = append(pairs, [2]int{-1, from + j})
			j++
		}
	}
	return pairs
}

// around is the number of equal lines shown before and after differing ones.
const around = 2

// compareLines returns the lines that differ, with some lines around them; nil if none differ.
func compareLines(a, b []string) []string {
	pairs := alignLists(len(a), len(b), func(i, j int) bool { return a[i] == b[j] })
	keep := make([]bool, len(pairs))
	different := false
	for k, p := range pairs {
		if p[0] >= 0 && p[1] >= 0 {
			continue
		}
		different = true
		for near := max(k-around, 0); near <= min(k+around, len(pairs)-1); near++ {
			keep[near] = true
		}
	}
	if !different {
		return nil
	}
	var out []string
	for k, p := range pairs {
		switch {
		case !keep[k]:
		case p[0] < 0:
			out = append(out, "+"+b[p[1]])
		case p[1] < 0:
			out = append(out, "-"+a[p[0]])
		default:
			out = append(out, " "+a[p[0]])
		}
	}
	return out
}

// compareCalls returns the differing calls. It pairs calls of the same tool with the same
// arguments.
func compareCalls(a, b []api.ExecutionCall) (out []callDiff) {
	pairs := alignLists(len(a), len(b), func(i, j int) bool {
		return a[i].Tool == b[j].Tool && a[i].Digest == b[j].Digest
	})
	for _, p := range pairs {
		switch {
		case p[1] < 0:
			out = append(out, callDiff{A: &a[p[0]], What: "only in a"})
		case p[0] < 0:
			out = append(out, callDiff{B: &b[p[1]], What: "only in b"})
		case a[p[0]].State != b[p[1]].State || a[p[0]].Error != b[p[1]].Error:
			out = append(out, callDiff{A: &a[p[0]], B: &b[p[1]], What: "outcome"})
		case a[p[0]].Result != b[p[1]].Result:
			out = append(out, callDiff{A: &a[p[0]], B: &b[p[1]], What: "result"})
		}
	}
	return out
}

// showDifference prints a difference.
func showDifference(w io.Writer, d *difference) {
	if d.Same {
		fmt.Fprintf(w, "%s and %s are the same: program, calls, console and value\n", cleanLine(d.A), cleanLine(d.B))
		return
	}
	fmt.Fprintf(w, "- %s\n+ %s\n", cleanLine(d.A), cleanLine(d.B))
	both := func(name string, c *change) {
		if c != nil {
			fmt.Fprintln(w, "\n"+name)
			writeLines(w, "-", stripControls(c.A))
			writeLines(w, "+", stripControls(c.B))
		}
	}
	all := func(name string, marked []string) {
		if marked != nil {
			fmt.Fprintln(w, "\n"+name)
			writeLines(w, "", stripControls(strings.Join(marked, "\n")))
		}
	}
	both("state", d.State)
	all("program", d.Program)
	if d.Calls != nil {
		fmt.Fprintln(w, "\ncalls")
	}
	for _, c := range d.Calls {
		if c.A != nil {
			fmt.Fprintln(w, cleanLine("-"+callSummary(c.A, c.What)))
		}
		if c.B != nil {
			fmt.Fprintln(w, cleanLine("+"+callSummary(c.B, c.What)))
		}
	}
	all("console", d.Console)
	both("error", d.Error)
	both("value", d.Value)
}

// callSummary describes a call in one line, with its differing part.
func callSummary(c *api.ExecutionCall, what string) string {
	text := fmt.Sprintf("%d %s %s", c.Call, c.Tool, argumentsText(c, 100))
	switch what {
	case "outcome":
		text += " " + c.State
		if c.Error != "" {
			text += ": " + shortenLine(c.Error, 160)
		}
	case "result":
		text += " " + bytesText(int64(c.Bytes)) + ", sha256 " + shortenLine(c.Result, 13)
	}
	return text
}
