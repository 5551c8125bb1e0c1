package store

import (
	"fmt"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// mostAlarms is the maximum number of rows that an alarm reports.
const mostAlarms = 1000

// An alarm reports each row that was changed without the folder's key, once.
type alarm struct {
	to TamperRecorder // may be nil

	mu   sync.Mutex
	rung map[[2]string]bool
}

func (a *alarm) raise(table, row string, err error) {
	a.mu.Lock()
	at := [2]string{table, row}
	told := a.rung[at] || len(a.rung) >= mostAlarms
	if !told {
		if a.rung == nil {
			a.rung = map[[2]string]bool{}
		}
		a.rung[at] = true
	}
	a.mu.Unlock()
	if !told && a.to != nil {
		a.to.RecordTampering(table, row, err)
	}
}

// reportTampering reports a row that doesn't match its seal, and returns the error about it. The
// text names the row and the remedy.
func (s *Store) reportTampering(table, row, format string, args ...any) error {
	err := tool.Errorf(tool.Conflict, "%s: %w", fmt.Sprintf(format, args...), errChanged)
	s.alarm.raise(table, row, err)
	return err
}
