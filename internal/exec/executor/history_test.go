package executor

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestHistoryWithoutJournal checks that a history that is kept nowhere does nothing.
func TestHistoryWithoutJournal(t *testing.T) {
	t.Parallel()
	h := &history{env: &env{}, output: journal.NewOutputDigest()}
	if h.isKept() || h.isReplayed() || h.isStored() || h.recordedLines() != nil {
		t.Errorf("a new history: kept %t, replayed %t, stored %t, lines %v", h.isKept(), h.isReplayed(), h.isStored(),
			h.recordedLines())
	}
	if k := h.newEntry(0, &sandbox.GuestCall{ID: 1}, "box.read", ""); k != nil {
		t.Errorf("an entry without a journal: %v", k)
	}
	if err := h.checkState("another build", nil); err != nil {
		t.Errorf("checkState of a new execution: %v", err)
	}
	if err := h.closingError(); err != errClosing {
		t.Errorf("closingError = %v, want %v", err, errClosing)
	}
}

// TestHistoryOfAnotherBuild checks that an execution doesn't continue on another build of the
// engine.
func TestHistoryOfAnotherBuild(t *testing.T) {
	t.Parallel()
	st := &journal.History{Prepared: &journal.Prepared{}}
	st.Record.Build = "a"
	h := &history{env: &env{}, Recall: journal.NewRecall(st)}
	if err := h.checkState("a", nil); err != nil {
		t.Errorf("on the same build: %v", err)
	}
	if err := h.checkState("b", nil); !isInterruption(err) {
		t.Errorf("on another build: %v, want an interruption", err)
	}
	if h.stopReplay(); h.checkState("b", nil) != nil || h.isReplayed() {
		t.Error("it is still replayed after stopReplay")
	}
}

// TestLateAnswers checks that answers after the program's end are kept for its session's next
// program, until the history is released.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	h := &history{env: &env{}, output: journal.NewOutputDigest()}
	h.keepLate(&sandbox.Answer{ID: 1})
	h.keepLate(&sandbox.Answer{ID: 2})
	if n := len(h.lateAnswers()); n != 2 {
		t.Errorf("%d late answers, want 2", n)
	}
	h.setSpoken()
	if h.release(); len(h.lateAnswers()) != 0 || !h.hasSpoken() {
		t.Errorf("after release: %d late answers, spoken %t", len(h.lateAnswers()), h.hasSpoken())
	}
}
