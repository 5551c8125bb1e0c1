package executor

import (
	"strconv"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tokens"
)

// unsaid matches the last line of a guest whose program has written more than the guest sends.
var unsaid = lazily.Regexp(`^… console output over \d{1,9} characters is dropped$`)

// logLine keeps a line of the console.
func (r *run) logLine(c *sandbox.Console) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unsaid().MatchString(c.Text) {
		r.unsaid = true
		return
	}
	r.exec.Logged += len(c.Text) + 1 + cutAway(c.Text)
	if r.console+len(c.Text) > r.x.cfg.Limits.Console {
		r.dropped++
		return
	}
	r.console += len(c.Text) + 16
	r.exec.Console = append(r.exec.Console, execution.Line{Level: c.Level, Text: r.places(c.Text)})
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
