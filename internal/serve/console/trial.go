package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A trialData is the result of a program that was tried against the recorded answers of an
// execution.
type trialData struct {
	*api.Replay
	Lines       []*codeLine
	ProgramCut  bool
	Rows        []*callRow
	MoreCalls   int
	MoreLeft    int
	Unknown     *callRow // the call that ended it; nil: none
	Live        int      // number of calls that were made for real
	Result      *tree
	ConsoleCut  int
	Differences []trialDifference
}

// A trialDifference shows how a part of the result differs from the recorded one.
type trialDifference struct {
	Name  string
	Lines []diffLine // nil: it is too long to be compared
}

// tryProgram runs a program against the recorded answers of an execution, and shows the result
// below the form.
func tryProgram(v *visit, d *playground) error {
	c, ctx := v.newClient(), v.r.Context()
	x, err := c.Journal(ctx, d.Execution)
	if err != nil {
		return ownError(err)
	}
	r, err := c.Replay(ctx, d.Execution, api.ReplayRequest{Program: d.Code, Reads: d.Reads})
	if err != nil {
		return ownError(err)
	}
	d.Trial = newTrial(x, r, d.Code)
	return renderPlayground(v, d)
}

// newTrial returns the result of a program for the page.
func newTrial(x *api.ExecutionDetail, r *api.Replay, program string) *trialData {
	t := &trialData{Replay: r, Result: newTree(r.Value)}
	t.Lines, t.ProgramCut = colourProgram(program, x.Language)
	markError(t.Lines, r.Error)
	for i := range r.Calls {
		c := &callRow{ExecutionCall: r.Calls[i]}
		if c.Live {
			t.Live++
		}
		if r.State == api.ReplayDiverged && i == len(r.Calls)-1 {
			c.State, t.Unknown = api.CallNotMade, c
		}
		t.Rows = append(t.Rows, c)
	}
	placeCalls(t.Lines, t.Rows)
	if t.Unknown != nil && t.Unknown.Line > 0 && t.Unknown.Line <= len(t.Lines) {
		t.Lines[t.Unknown.Line-1].Failed = true
	}
	t.Differences = compareTrial(x, r)
	if n := len(t.Rows) - shownCalls; n > 0 {
		t.Rows, t.MoreCalls = t.Rows[n:], n // the newest are of interest
	}
	if n := len(r.Left) - shownCalls; n > 0 {
		r.Left, t.MoreLeft = r.Left[:shownCalls], n
	}
	if n := len(r.Console) - shownConsole; n > 0 {
		r.Console, t.ConsoleCut = r.Console[:shownConsole], n
	}
	return t
}

// compareTrial compares the parts of the result that differ from those of the execution.
func compareTrial(x *api.ExecutionDetail, r *api.Replay) (out []trialDifference) {
	add := func(name, before, after string) {
		if !slices.Contains(r.Changes, name) {
			return
		}
		out = append(out, trialDifference{name, compareLines(before, after)})
	}
	add("state", x.State, r.State)
	add("value", indentValue(x.Value), indentValue(r.Value))
	add("error", errorLines(x.Error), errorLines(r.Error))
	add("console", consoleText(x.Console), consoleText(r.Console))
	return out
}

// indentValue returns a value as lines, with visible characters.
func indentValue(raw []byte) string {
	if len(raw) == 0 {
		return "none"
	}
	text, cut := indentArguments(raw)
	if cut {
		text += "\n..."
	}
	return text
}

// errorLines returns an error as lines, with visible characters.
func errorLines(e *api.ProgramError) string {
	if e == nil {
		return "none"
	}
	return tool.Visible([]byte(e.Message))
}

// consoleText returns the lines of a console, with visible characters.
func consoleText(all []api.ConsoleLine) string {
	var b strings.Builder
	for _, l := range all {
		fmt.Fprintf(&b, "%s: %s\n", tool.VisibleLine(l.Level), tool.Visible([]byte(l.Text)))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
