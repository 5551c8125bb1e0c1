package executor

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// recordedProgram returns the program as the guest received it originally. If now has the same
// code, it returns now, which has more detail.
func recordedProgram(st *journal.History, now *program.Program) *program.Program {
	was := st.Prepared
	if now != nil && now.Code == was.Code {
		return now
	}
	var found []tool.Finding
	if now != nil {
		found = now.Findings // they are about the agent's text, which is the same
	}
	return &program.Program{Findings: found, Runtime: was.Runtime, Code: was.Code, Name: was.Name, Line: was.Line,
		Source:     st.Begin.Source,
		Namespaces: was.Namespaces, Aliases: was.Aliases, Whole: was.Whole, Declared: was.Declared, Notes: was.Notes,
		Remark: was.Remark}
}

// interruptedKind is the kind of the error of an execution that could not continue.
const interruptedKind = tool.Kind(execution.Interrupted)

func errInterrupted(format string, a ...any) error {
	e := tool.Errorf(interruptedKind, format, a...)
	e.Msg = "biplane ended while this program ran, and it can't go on: " + e.Msg
	return e
}

var errCopied = errInterrupted("the data folder was restored from a backup, and what the program did " +
	"afterwards is " +
	"unknown. Look, before anything is sent again")

var errDiverged = errInterrupted("run again, it did something else than before")

// errChanged is the reason not to repeat a call that was sent when its tool was read-only.
var errChanged = errors.New("its tool is now declared as one that may write")

func changedSince(k *journal.Call) error {
	return errInterrupted("call %d, %s, had been sent, and whether it took effect is unknown: %w. Look, before "+
		"anything is sent again", k.N, text.Cut(k.Tool, 100), errChanged)
}

func isInterruption(err error) bool {
	e := tool.AsError(err)
	return e != nil && e.Kind == interruptedKind
}

// restoreCall copies what the journal has of a call. A call without an outcome that gets here is
// read-only or idempotent (see lost in recover.go), and is made again.
func (cs *calls) restoreCall(p *programCall, k *journal.Call) error {
	if k.Tool != p.path || !k.Is(tool.CallDigest(p.path, p.Args)) {
		return errDiverged
	}
	cs.results.keepAgain(k.Blocks)
	cs.state.updateCall(p.n, func(rec *execution.Call) {
		rec.Note = k
		if !k.Known() {
			return
		}
		rec.MS, rec.Bytes, rec.Error, rec.From = k.MS, k.Bytes, k.Error, k.From
		rec.Unsent, rec.Reads, rec.Pending = k.Unsent, k.ReadOnly, false
		rec.Took = time.Duration(k.MS) * time.Millisecond
	})
	return nil
}

// reuseCall ends the n-th call with the outcome of an earlier execution's call, or with err if it
// may not be made. The caller then calls releaseCall.
func (cs *calls) reuseCall(n int, k *journal.PriorCall, err error) (json.RawMessage, *sandbox.GuestError) {
	if err == nil {
		data := []string{string(k.Value)}
		for _, b := range k.Blocks {
			data = append(data, string(b.Raw))
		}
		err = cs.bring(k.Session, data...)
	}
	var o callOutcome
	if err != nil {
		o.failure, o.unsent = guestError(err), true
		o.err = execution.NotMade + o.failure.Message
	} else {
		o.value, o.blocks, o.bytes, o.from = k.Value, k.Blocks, k.Bytes, k.Of
		cs.results.keepAgain(k.Blocks)
	}
	cs.history.Outcome(cs.state.endCall(n, &o))
	return o.value, o.failure
}
