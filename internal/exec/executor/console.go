package executor

import (
	"slices"
	"strconv"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// consoleTimes limits what a program may write to the console, as a multiple of the part that is
// kept. A program that exceeds it is out of control, and is ended.
const consoleTimes = 32

// maxNote is the maximum length of a note from the runtime, in bytes.
const maxNote = 500

// logLine keeps a line of the console. It returns an error when the program has written too much:
// lines that aren't kept cost time, too.
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

// shortened matches the end of a text that the guest truncated before it sent it.
var shortened = lazily.Regexp(`… \((\d{1,9}) more characters\)$`)

// cutAway returns how many characters the guest truncated from a text that it logged.
func cutAway(text string) int {
	m := shortened().FindStringSubmatch(tokens.Tail(text, 64))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most nine digits
	return n
}
