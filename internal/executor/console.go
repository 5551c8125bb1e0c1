package executor

import (
	"slices"
	"strconv"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// consoleTimes is how many times of what is kept of the console a program may write to it. One that
// goes on then has lost its way.
const consoleTimes = 32

// maxNote is how many bytes a note of the runtime has.
const maxNote = 500

// logLine keeps a line of the console. It is an error when there was too much of it: what isn't
// kept costs time, too.
func (r *run) logLine(c *sandbox.Console) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Level == sandbox.NoteLevel {
		if note := prose.Cut(c.Text, maxNote); len(r.doubts) < maxDoubts && !slices.Contains(r.doubts, note) {
			r.doubts = append(r.doubts, note)
		}
		return nil
	}
	keep := r.x.cfg.Limits.Console
	r.exec.Logged += len(c.Text) + 1 + cutAway(c.Text)
	r.wrote += len(c.Text) + 16
	if r.wrote > consoleTimes*keep {
		r.dropped++
		return tool.Over(execution.OutputLimit, "the program wrote more than %s to its console: log less, or write it to a file", prose.Size(consoleTimes*keep))
	}
	if r.console+len(c.Text) > keep {
		r.dropped++
		return nil
	}
	r.console += len(c.Text) + 16
	r.exec.Console = append(r.exec.Console, execution.Line{Level: c.Level, Text: r.places(c.Text)})
	return nil
}

// shortened matches the end of a text that the guest cut before it sent it.
var shortened = lazily.Regexp(`… \((\d{1,9}) more characters\)$`)

// cutAway gives how much the guest cut away from a text that it logged, in characters.
func cutAway(text string) int {
	m := shortened().FindStringSubmatch(tokens.Tail(text, 64))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most nine digits
	return n
}
