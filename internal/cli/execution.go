package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// lineOf encodes v as JSON on one line.
func lineOf(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// showExecution prints an execution.
func showExecution(w io.Writer, d *api.ExecutionDetail) {
	rows := [][]string{{"execution", d.ID}, {"state", d.State}, {"session", orDash(d.Session)},
		{"language", d.Language}, {"started", formatMoment(d.Started)}, {"took", formatTook(d.MS)}}
	for _, r := range [][]string{{"client", d.Client}, {"corrects", d.After}, {"tier", d.Tier}, {"engine", d.Engine},
		{"has read", strings.Join(d.Labels, ", ")}, {"can't be replayed", d.Lost}} {
		if r[1] != "" {
			rows = append(rows, r)
		}
	}
	writeColumns(w, rows...)
	fmt.Fprintln(w, "\nprogram")
	for i, l := range strings.Split(strings.TrimRight(stripControls(d.Program), "\n"), "\n") {
		fmt.Fprintf(w, "%5d | %s\n", i+1, l)
	}
	fmt.Fprintf(w, "\ncalls (%d)\n", len(d.Calls))
	printTree(w, d)
	if len(d.Console) > 0 {
		fmt.Fprintln(w, "\nconsole")
	}
	for _, l := range d.Console {
		writeLines(w, "  "+cleanLine(l.Level)+": ", stripControls(l.Text))
	}
	switch {
	case d.Error != nil:
		fmt.Fprintln(w, "\nerror")
		writeLines(w, "  ", stripControls(failureText(d.Error)))
	case !isRunning(d.State):
		fmt.Fprintln(w, "\nvalue")
		value, err := compactValue(d.Value)
		if err != nil {
			value = string(d.Value)
		}
		writeLines(w, "  ", stripControls(value))
	}
	for _, n := range d.Notes {
		writeLines(w, "note: ", stripControls(n))
	}
}

// groupCalls groups calls that overlapped in time, directly or through other calls of the group.
func groupCalls(calls []api.ExecutionCall) [][]api.ExecutionCall {
	var out [][]api.ExecutionCall
	var end time.Time
	for _, c := range calls {
		done := c.Started.Add(time.Duration(c.MS) * time.Millisecond)
		if c.State == api.CallPending || c.State == api.CallUnknown {
			done = c.Started.Add(100 * 365 * 24 * time.Hour) // the end is unknown
		}
		if n := len(out); n > 0 && c.Started.Before(end) {
			out[n-1] = append(out[n-1], c)
		} else {
			out, end = append(out, []api.ExecutionCall{c}), time.Time{}
		}
		if done.After(end) {
			end = done
		}
	}
	return out
}

// printTree prints the calls of an execution as a tree.
func printTree(w io.Writer, d *api.ExecutionDetail) {
	groups := groupCalls(d.Calls)
	var rows [][]string
	for i, g := range groups {
		branch, stem := "├─ ", "│  "
		if i == len(groups)-1 {
			branch, stem = "└─ ", "   "
		}
		if len(g) == 1 {
			rows = append(rows, callRow(branch, d.Started, &g[0]))
			continue
		}
		rows = append(rows, []string{branch + fmt.Sprintf("%d together", len(g))})
		for j := range g {
			b := stem + "├─ "
			if j == len(g)-1 {
				b = stem + "└─ "
			}
			rows = append(rows, callRow(b, d.Started, &g[j]))
		}
	}
	writeColumns(w, rows...)
}

// callRow returns the row of a call in the tree: its number and tool, decision, start, duration,
// size and outcome.
func callRow(branch string, began time.Time, c *api.ExecutionCall) []string {
	size, lasted := bytesText(int64(c.Bytes)), formatTook(c.MS)
	if c.State != api.CallDone && c.State != api.CallFailed {
		size = ""
	}
	if c.State == api.CallPending || c.State == api.CallUnknown {
		lasted = "…"
	}
	what := c.State
	if c.Error != "" {
		what += ": " + strings.TrimPrefix(c.Error, notMade)
	}
	if c.From != "" {
		what += ", from " + c.From
	}
	return []string{branch + strconv.Itoa(c.Call) + " " + c.Tool, orDash(c.Decision),
		"+" + formatTook(c.Started.Sub(began).Milliseconds()), lasted, size, shortenLine(what, 100),
		argumentsText(c, 60)}
}

// argumentsText returns the beginning of a call's arguments.
func argumentsText(c *api.ExecutionCall, n int) string {
	if len(c.Arguments) == 0 {
		if c.Digest != "" {
			return "(arguments not kept)"
		}
		return ""
	}
	text, err := compactValue(c.Arguments)
	if err != nil {
		text = string(c.Arguments)
	}
	return shortenLine(text, n)
}

// callText describes a call in one line.
func callText(c *api.ExecutionCall) string {
	text := fmt.Sprintf("call %d %s ", c.Call, c.Tool)
	switch c.State {
	case api.CallPending:
		return text + "begun " + argumentsText(c, 100)
	case api.CallDone:
		return text + fmt.Sprintf("done, %s, %s", formatTook(c.MS), bytesText(int64(c.Bytes)))
	}
	return text + c.State + ": " + shortenLine(strings.TrimPrefix(c.Error, notMade), 160)
}

// showCall prints a call with all of its arguments and its result.
func showCall(w io.Writer, c *api.ExecutionCall) {
	rows := [][]string{{"call", strconv.Itoa(c.Call)}, {"tool", c.Tool}, {"state", c.State},
		{"decision", orDash(c.Decision)}, {"begun", formatMoment(c.Started)}, {"took", formatTook(c.MS)}}
	if c.From != "" {
		rows = append(rows, []string{"answered from", c.From})
	}
	writeColumns(w, rows...)
	for _, part := range []struct {
		name  string
		value json.RawMessage
	}{{"arguments", c.Arguments}, {"result", c.Value}} {
		if len(part.value) == 0 {
			continue
		}
		fmt.Fprintln(w, "\n"+part.name)
		text := &bytes.Buffer{}
		if json.Indent(text, part.value, "", "  ") != nil {
			text = bytes.NewBuffer(part.value)
		}
		writeLines(w, "  ", stripControls(text.String()))
	}
	if c.Error != "" {
		fmt.Fprintln(w, "\nerror")
		writeLines(w, "  ", stripControls(c.Error))
	}
}
