package executor

import (
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxUnwritten is the maximum number of ended executions whose journals are not yet checked for
// write errors.
const maxUnwritten = 256

// An unwritten holds the journals of executions that ended. They are checked for write errors
// later, so that no one has to wait for that. It is safe for concurrent use.
type unwritten struct {
	mu     sync.Mutex
	logs   []*journal.Log
	closed bool // journals accept no more writes
}

// close drops the journals that are added from now on.
func (u *unwritten) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
}

// addLog adds the journal of an execution that ended; nil: it has none. If there are too many, it
// checks the oldest ones.
func (u *unwritten) addLog(l *journal.Log) {
	if l == nil {
		return
	}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return
	}
	u.logs = append(u.logs, l)
	var due []*journal.Log
	if len(u.logs) > maxUnwritten {
		due, u.logs = u.logs[:maxUnwritten/2:maxUnwritten/2], slices.Clone(u.logs[maxUnwritten/2:])
	}
	u.mu.Unlock()
	u.amend(due)
}

// amendAll retries writing the ends of executions whose journals could not be written.
func (u *unwritten) amendAll() {
	u.mu.Lock()
	due := u.logs
	u.logs = nil
	u.mu.Unlock()
	u.amend(due)
}

// awaitWrites is like amendAll, and returns an error if a journal can't be written at the moment.
func (u *unwritten) awaitWrites() error {
	u.amendAll()
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.logs); n > 0 {
		return tool.Errorf(tool.Unavailable, "the ends of %d executions can't be written: look at the data folder's "+
			"disk", n)
	}
	return nil
}

// amend checks journals. It keeps the ones that still can't be written.
func (u *unwritten) amend(due []*journal.Log) {
	for i, l := range due {
		if err := l.Amend(); err != nil { // the others would fail as well
			u.mu.Lock()
			u.logs = append(slices.Clone(due[i:]), u.logs...)
			u.mu.Unlock()
			return
		}
	}
}
