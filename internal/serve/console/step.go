package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A moment is a point in the timeline of an execution: a program makes a call, or receives its
// answer.
type moment struct {
	Call   int // its number
	Answer bool
	at     time.Time
}

// listMoments returns the timeline of calls, by their recorded times. An answer comes before a call
// that was made in the same millisecond, but never before its own call.
func listMoments(x *api.ExecutionDetail) (out []moment) {
	at := x.Started
	for i := range x.Calls {
		c := &x.Calls[i]
		if c.Started.After(at) {
			at = c.Started
		}
		out = append(out, moment{Call: c.Call, at: at})
		if c.State != api.CallPending {
			out = append(out, moment{c.Call, true, at.Add(time.Duration(c.MS) * time.Millisecond)})
		}
	}
	slices.SortStableFunc(out, func(a, b moment) int {
		order := a.at.Truncate(time.Millisecond).Compare(b.at.Truncate(time.Millisecond))
		return cmp.Or(order, a.Call-b.Call)
	})
	return out
}

// A stepBar moves through the timeline of an execution that has ended. Step 0 is its beginning, and
// the last step is its end.
type stepBar struct {
	N, Last        int
	On             bool // a step is shown, not the end
	Text           string
	Line           int    // of the program; 0: unknown
	Guess          bool   // the line is one of several
	Previous, Next string // addresses; empty: none
	First, End     string
	Console        string // why the console is not known at this step
}

// addressOf returns the address of a step.
func addressOf(x *api.ExecutionDetail, n int) string {
	return fmt.Sprintf("/executions/%s?step=%d#steps", url.PathEscape(x.ID), n)
}

// newStepBar returns the bar at a step of an execution, and the moment of the step. Without a step,
// it is at the end.
func newStepBar(x *api.ExecutionDetail, step string) (*stepBar, []moment, error) {
	all := listMoments(x)
	b := &stepBar{Last: len(all) + 1, First: addressOf(x, 0), End: "/executions/" + url.PathEscape(x.ID) + "#steps"}
	b.N = b.Last
	if step != "" {
		n, err := strconv.Atoi(step)
		if err != nil || n < 0 {
			return nil, nil, tool.Errorf(tool.Invalid, "step must be a number from 0 to %d", b.Last)
		}
		b.N = min(n, b.Last)
	}
	b.On = b.N < b.Last
	if b.N > 0 {
		b.Previous = addressOf(x, b.N-1)
	}
	switch b.Next = addressOf(x, b.N+1); b.N {
	case b.Last:
		b.Next = ""
	case b.Last - 1:
		b.Next = b.End
	}
	return b, all[:min(b.N, len(all))], nil
}

// showStep shows an execution as it was at a step of its timeline.
func showStep(v *visit, x *api.ExecutionDetail, step string) (*executionData, error) {
	b, past, err := newStepBar(x, step)
	if err != nil {
		return nil, err
	}
	from := parseNumber(v.r.URL.Query().Get("from"), 0)
	if !b.On {
		v.server.timelines.findTimeline(keyOf(v, x)).addLines(x)
		d := displayExecution(v, x, from)
		b.Text, d.Steps = "the end", b
		return d, nil
	}
	now := rewindCalls(x, past)
	if made := len(x.Calls); made > shownCalls && from == 0 {
		from = made - shownCalls + 1
	}
	b.Console = rewindConsole(v, x)
	x.Error, x.Value, x.Problem, x.Ended = nil, nil, "", cmp.Or(x.Ended, &now)
	d := displayExecution(v, x, from)
	d.Steps = b
	at := int(min(max(now.Sub(x.Started).Milliseconds(), 0), x.MS) * 1000 / max(x.MS, 1))
	for _, r := range d.Rows {
		if r.State == api.CallPending {
			r.Width, r.Approver, r.Note = max(at-r.X, 4), "", ""
		}
	}
	b.describeMoment(d, past, now.Sub(x.Started))
	return d, nil
}

// rewindCalls leaves only the calls that were made in the past, those without an answer as pending.
// It returns the time of the newest moment.
func rewindCalls(x *api.ExecutionDetail, past []moment) time.Time {
	made, answered, now := 0, map[int]bool{}, x.Started
	for _, m := range past {
		if now = m.at; m.Answer {
			answered[m.Call] = true
		} else {
			made++
		}
	}
	x.Calls = slices.Clone(x.Calls[:made])
	for i := range x.Calls {
		if c := &x.Calls[i]; !answered[c.Call] {
			c.State, c.MS, c.Bytes, c.Error, c.Labels = api.CallPending, 0, 0, "", nil
		}
	}
	return now
}

// rewindConsole leaves only the lines that the program had written when it made the last of the
// calls, and adds the lines of the calls. The journal has neither, so the program is replayed. It
// returns why that is not possible, and then leaves no lines.
func rewindConsole(v *visit, x *api.ExecutionDetail) string {
	lines := x.Console
	x.Console = nil
	if len(x.Calls) == 0 {
		return "" // shown from the first call on
	}
	t, why := timelineOf(v, x)
	if why != "" {
		if len(lines) == 0 {
			return ""
		}
		return why
	}
	t.addLines(x)
	last, known := t[x.Calls[len(x.Calls)-1].Call]
	if !known && len(lines) > 0 {
		return "The replay did not come to this call."
	}
	x.Console = lines[:min(last.lines, len(lines))]
	return ""
}

// describeMoment adds the text and the line of the newest moment.
func (b *stepBar) describeMoment(d *executionData, past []moment, after time.Duration) {
	b.Text = "the program starts"
	if len(past) == 0 {
		return
	}
	m := past[len(past)-1]
	for _, r := range d.Rows {
		if r.Call != m.Call {
			continue
		}
		verb := "is made"
		if m.Answer {
			verb = "is answered"
		}
		b.Text = fmt.Sprintf("call %d, %s, %s after %s", m.Call, tool.VisibleLine(r.Tool), verb,
			formatDuration(after.Milliseconds()))
		r.Now = true
		if b.Line, b.Guess = r.Line, r.Guess; b.Line > 0 && b.Line <= len(d.Lines) {
			d.Lines[b.Line-1].Now = true
		}
	}
}
