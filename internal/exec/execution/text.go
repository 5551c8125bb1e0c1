package execution

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WritesValue reports whether the value of a program in a language is its standard output.
func WritesValue(language string) bool {
	switch language {
	case "bash", "go", "rust", "java":
		return true
	}
	return false
}

// undefinedText is the answer of a program without a value.
func (e *Execution) undefinedText() string {
	if e.Language == "python" {
		return "no value: the program returned None"
	}
	if WritesValue(e.Language) {
		return "no value: the program wrote nothing to standard output"
	}
	return "no value: the program returned undefined"
}

// Texts returns the texts about an ended execution for the agent. value returns the text of the
// value if there is one. session is a line about the session, or empty.
func (e *Execution) Texts(value func() string, session string) []string {
	var first, last string
	switch {
	case e.State != Done:
		first = e.failureText()
	case e.Undefined:
		first = e.undefinedText()
	default:
		first = value()
	}
	if e.State != Done {
		last = lines(session, Notes(e.Notes[:len(e.Notes)-e.Error.More]), tierText(e), missingText(e.Missing),
			e.continueText())
	} else {
		last = lines(callsText(e.Calls), reusedText(e.Calls), session, Notes(e.Notes),
			tierText(e), missingText(e.Missing))
	}
	return slices.DeleteFunc([]string{first, consoleText(e.Console, e.Logged), last}, func(s string) bool {
		return s == ""
	})
}

// tierText returns one line about the tier and the image of the program's sandbox, or "" for the
// default one.
func tierText(e *Execution) string {
	switch {
	case e.Tier == tool.WASM:
		return ""
	case e.Image != "":
		return fmt.Sprintf("ran in a sandbox of tier %s, image %s", e.Tier, e.Image)
	}
	return "ran in a sandbox of tier " + e.Tier.String()
}

// missingText returns one line about unavailable protections, or "".
func missingText(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	const most = 300
	return text.Cut("protections not available here: "+strings.Join(missing, "; "), most)
}

// lines joins the non-empty parts.
func lines(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n")
}

// maxConsole is the maximum size in bytes of the console in an answer.
const maxConsole = 8 << 10

// consoleText returns the console, or its head and tail if it is long. logged is the size of
// everything that was logged, including what was discarded.
func consoleText(lines []Line, logged int) string {
	if len(lines) == 0 {
		return ""
	}
	shown := make([]string, len(lines))
	total := 0
	for i, l := range lines {
		shown[i] = l.Text
		if l.Level != "log" && l.Level != "info" {
			shown[i] = l.Level + ": " + l.Text
		}
		total += len(shown[i]) + 1
	}
	if total <= maxConsole {
		return "console:\n" + strings.Join(shown, "\n")
	}
	all := strings.Join(shown, "\n")
	head, tail := text.Cut(all, maxConsole*3/4), all[len(all)-maxConsole/4:]
	total = max(total, logged)
	return fmt.Sprintf("console (%s in %s; the middle is left out):\n%s\n…\n%s", text.Size(total),
		text.Count(len(lines), "line"), head, strings.ToValidUTF8(tail, ""))
}

// Notes formats notes for an agent; it returns "" if there are none.
func Notes(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	const most = 10
	if len(notes) > most {
		notes = append(notes[:most:most], fmt.Sprintf("… and %d more", len(notes)-most))
	}
	return "note: " + strings.Join(notes, "\nnote: ")
}

// callsText returns one line about the calls: the number of calls per tool, the size of their
// results, and the time from the first to the last.
func callsText(calls []Call) string {
	calls, unsent := split(slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.From != "" }))
	refused := ""
	if len(unsent) > 0 {
		refused = text.Count(len(unsent), "call") + " not made: " + strings.Join(countNames(unsent), ", ")
	}
	if len(calls) == 0 {
		return refused
	}
	type sum struct {
		name          string
		n, bytes, bad int
		from, to      time.Time
	}
	by := map[string]*sum{}
	var all []*sum
	for _, c := range calls {
		s := by[c.Tool]
		if s == nil {
			s = &sum{name: c.Tool, from: c.Begun}
			by[c.Tool], all = s, append(all, s)
		}
		s.n++
		s.bytes += c.Bytes
		if c.Error != "" {
			s.bad++
		}
		if end := c.Begun.Add(c.Took); end.After(s.to) {
			s.to = end
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].n > all[j].n })
	var parts []string
	for i, s := range all {
		if i == 12 {
			parts = append(parts, fmt.Sprintf("and %d more tools", len(all)-i))
			break
		}
		p := text.Cut(s.name, 100)
		if s.n > 1 {
			p += fmt.Sprintf(" x%s", text.Group(s.n))
		}
		p += fmt.Sprintf(" (%s, %s", text.Size(s.bytes), text.Duration(s.to.Sub(s.from)))
		if s.bad > 0 {
			p += fmt.Sprintf(", %d failed", s.bad)
		}
		parts = append(parts, p+")")
	}
	line := text.Count(len(calls), "call") + ": " + strings.Join(parts, ", ")
	if refused != "" {
		line += "; " + refused
	}
	return line
}

// countNames returns the tools of calls, each with the number of its calls.
func countNames(calls []Call) []string {
	n := map[string]int{}
	var names []string
	for i := range calls {
		name := text.Cut(calls[i].Tool, 100)
		if n[name]++; n[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		if i == 12 {
			return append(names[:i], fmt.Sprintf("and %d more tools", len(names)-i))
		}
		if n[name] > 1 {
			names[i] += " x" + text.Group(n[name])
		}
	}
	return names
}

// reusedText lists the calls that were answered from journals.
func reusedText(calls []Call) string {
	by := map[string][]Call{}
	var order []string
	for _, c := range calls {
		if c.From == "" {
			continue
		}
		if by[c.From] == nil {
			order = append(order, c.From)
		}
		by[c.From] = append(by[c.From], c)
	}
	var out string
	for _, id := range order {
		was := "was"
		if len(by[id]) > 1 {
			was = "were"
		}
		out = lines(out, fmt.Sprintf("from %s: %s %s not made again: %s", id, text.Count(len(by[id]), "call"), was,
			strings.Join(countNames(by[id]), ", ")))
	}
	return out
}

// failureText returns the text about a failed program for the agent: the error, its position, a
// hint, and the calls made so far.
func (e *Execution) failureText() string {
	f := e.Error
	var b strings.Builder
	b.WriteString(Head(f.Kind, f.Limit))
	if f.Text != "" {
		b.WriteString(text.Cut(f.Text, 32<<10))
	} else {
		b.WriteString(text.Cut(f.Message, 32<<10))
	}
	if f.Line > 0 && f.Frame != "" && f.Text == "" {
		fmt.Fprintf(&b, " (line %d, column %d)\n\n%s", f.Line, f.Column, f.Frame)
	}
	if f.Hint != "" {
		b.WriteString("\n\nhint: " + f.Hint)
	}
	if len(e.Calls) > 0 {
		b.WriteString("\n\n" + callsMade(e.Calls, e.GoesOn))
	}
	return b.String()
}

// continueText explains how a corrected program continues a failed execution without repeating its
// calls.
func (e *Execution) continueText() string {
	made, _ := split(e.Calls)
	switch {
	case e.ID == "" || e.GoesOn:
		return ""
	case len(made) == 0:
		return "execution " + e.ID + ": it made no calls"
	case !e.Journaled:
		return "execution " + e.ID + ": its calls are not stored, so a corrected program makes them again"
	}
	return fmt.Sprintf("execution %s: to continue, call execute with the corrected program and after: %q; calls that "+
		"succeeded are answered from this execution and not repeated", e.ID, e.ID)
}

// splitReads separates the calls that may have changed something from the ones that only read, or
// were made by an earlier execution.
func splitReads(made []Call) (changes, reads []Call) {
	for i := range made {
		if made[i].Reads || made[i].From != "" {
			reads = append(reads, made[i])
		} else {
			changes = append(changes, made[i])
		}
	}
	return changes, reads
}

// maxListed is the maximum number of calls listed in an error text.
const maxListed = 20

// callsMade lists the calls of a failed program, so that the next attempt does not repeat their
// effects. Calls rejected before anything was sent are listed separately. If goesOn is set, the
// program continues in another process.
func callsMade(calls []Call, goesOn bool) string {
	made, unsent := split(calls)
	var b strings.Builder
	list := func(calls []Call, what string) {
		if len(calls) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(countWas(len(calls)) + " " + what + ":")
		listCalls(&b, calls)
	}
	switch changes, reads := splitReads(made); {
	case goesOn:
		list(made, "made until now")
	case len(changes) == 0:
		list(made, "made before it ended")
	default:
		list(changes, "made before it ended; the next program must not repeat these changes")
		list(reads, "made that changed nothing")
	}
	list(unsent, "not made, and changed nothing")
	return b.String()
}

// split separates the calls that reached their tools, or may have, from the ones that certainly did
// not.
func split(calls []Call) (made, unsent []Call) {
	for i := range calls {
		if calls[i].Unsent {
			unsent = append(unsent, calls[i])
		} else {
			made = append(made, calls[i])
		}
	}
	return made, unsent
}

func listCalls(b *strings.Builder, calls []Call) {
	for i, c := range calls {
		if len(calls) > maxListed && i >= maxListed*3/4 && i < len(calls)-maxListed/4 {
			if i == maxListed*3/4 {
				fmt.Fprintf(b, "\n… %s more", text.Group(len(calls)-maxListed))
			}
			continue
		}
		fmt.Fprintf(b, "\n- %s %s -> %s", text.Cut(c.Tool, 100), c.Args, outcomeText(&c))
	}
}

func outcomeText(c *Call) string {
	said := text.Cut(firstLine(c.Error), 200)
	switch {
	case c.From != "":
		return "ok, not made again: from " + c.From
	case c.Error == "":
		return fmt.Sprintf("ok (%s, %s)", text.Size(c.Bytes), text.Duration(c.Took))
	case c.Unsent:
		return said
	case strings.HasPrefix(c.Error, "canceled"), strings.HasPrefix(c.Error, "timed out"):
		return said + " (it is unknown whether it took effect)"
	}
	return "failed: " + said
}

// firstLine returns the first line of s. If that ends in a colon, it is combined with the next
// line.
func firstLine(s string) string {
	first, rest, _ := strings.Cut(s, "\n")
	first = strings.TrimSpace(first)
	if strings.HasSuffix(first, ":") {
		next, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		first = strings.TrimSuffix(first, ":")
		if next = strings.TrimSpace(strings.TrimLeft(next, "-*• \t")); next != "" {
			first += ": " + next
		}
	}
	return first
}

func countWas(n int) string {
	if n == 1 {
		return "1 call was"
	}
	return text.Group(n) + " calls were"
}
