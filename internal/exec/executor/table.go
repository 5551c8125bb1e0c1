package executor

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAnswers is the maximum size of the results that wait until the program reads them, in bytes.
const maxAnswers = 256 << 20

// A callTable counts a program's calls, and limits what they hold. It isn't safe for concurrent
// use.
type callTable struct {
	indexes     map[int64]int // by the guest's id
	outstanding int
	unread      int // bytes of results that the guest has not read yet
	refused     int // calls over the limit
	results     lastResults
}

// addAnswer counts the value of an ended call until removeAnswer is called. It returns an error if
// the program would have too much to read.
func (t *callTable) addAnswer(path string, value json.RawMessage) error {
	if len(value) > 0 && t.unread > 0 && t.unread+len(value) > maxAnswers {
		return tool.Over(execution.FanOutLimit, "results of over %s are waiting to be read by the program already: "+
			"make fewer calls at once. The tool did what it was asked to", text.Size(maxAnswers))
	}
	t.unread += len(value)
	t.results.add(path, value)
	return nil
}

// refuseCall counts a call over the limit, and returns how many there were.
func (t *callTable) refuseCall() int {
	t.refused++
	return t.refused
}

// removeAnswer removes a value of size bytes that the program has read.
func (t *callTable) removeAnswer(size int) { t.unread -= size }

// endCall records that a call was answered, and reports whether it was the last outstanding one.
func (t *callTable) endCall() bool {
	t.outstanding--
	return t.outstanding == 0
}
