package executor

import (
	"strconv"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// maxNote is the maximum length of a note from the runtime, in bytes.
const maxNote = 500

// addConsole keeps a line of the console. It returns an error when the program has written too
// much: lines that aren't kept cost time, too.
func (s *state) addConsole(c *sandbox.Console) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Level == sandbox.NoteLevel {
		s.output.addDoubt(prose.Cut(c.Text, maxNote))
		return nil
	}
	return s.output.addLine(c.Level, c.Text, cutAway(c.Text), s.rewriteFrames)
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
