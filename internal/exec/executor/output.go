package executor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// consoleTimes limits what a program may write to the console, as a multiple of the part that
	// is kept. A program that exceeds it is out of control, and is ended.
	consoleTimes = 32
	// lineCost is the size that a console line counts beyond its text, in bytes.
	lineCost = 16
	// maxEmitted is the maximum size of the content blocks that a program emits to the agent, in
	// bytes.
	maxEmitted = 24 << 20
	// maxDoubts is the maximum number of notes on call arguments in one execution.
	maxDoubts = 5
)

// An output collects what a program produces for its agent besides its value: console lines,
// content blocks and notes on how it called its tools. It isn't safe for concurrent use.
type output struct {
	limit   int // bytes of the console that are kept
	lines   []execution.Line
	logged  int // characters logged, including what the guest cut away and what was dropped
	wrote   int // bytes that the guest sent
	kept    int // bytes of lines
	dropped int // lines over the limit

	blocks     []json.RawMessage
	blockBytes int
	doubts     []string
}

// addLine adds a console line, of which the guest has cut away some characters. Lines over the
// limit are dropped. It returns an error when the program has written so much that it must end:
// dropped lines cost time, too.
func (o *output) addLine(level, line string, cut int, rewrite func(string) string) error {
	o.logged += len(line) + 1 + cut
	o.wrote += len(line) + lineCost
	if o.wrote > consoleTimes*o.limit {
		o.dropped++
		return tool.Over(execution.OutputLimit, "the program wrote more than %s to its console: log less, "+
			"or write it to a file", text.Size(consoleTimes*o.limit))
	}
	if o.kept+len(line) > o.limit {
		o.dropped++
		return nil
	}
	o.kept += len(line) + lineCost
	o.lines = append(o.lines, execution.Line{Level: level, Text: rewrite(line)})
	return nil
}

// addBlock adds a content block, and reports whether there was room for it.
func (o *output) addBlock(block json.RawMessage) bool {
	if o.blockBytes+len(block) > maxEmitted {
		return false
	}
	o.blocks = append(o.blocks, block)
	o.blockBytes += len(block)
	return true
}

// addDoubt adds a note on the arguments of a call, unless it is known or there are too many.
func (o *output) addDoubt(note string) {
	if len(o.doubts) < maxDoubts && !slices.Contains(o.doubts, note) {
		o.doubts = append(o.doubts, note)
	}
}

// droppedNote returns a note on the dropped console lines, or the empty string if there are none.
func (o *output) droppedNote() string {
	if o.dropped == 0 {
		return ""
	}
	return fmt.Sprintf("%s dropped: %s are kept", text.Count(o.dropped, "console line"), text.Size(o.limit))
}

// maxNote is the maximum length of a note from the runtime, in bytes.
const maxNote = 500

// shortened matches the end of a text that the guest truncated before it sent it.
var shortened = lazily.Regexp(`… \((\d{1,9}) more characters\)$`)

// cutAway returns how many characters the guest truncated from a text that it logged.
func cutAway(line string) int {
	m := shortened.Get().FindStringSubmatch(text.Tail(line, 64))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most nine digits
	return n
}
