package executor

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// asThen returns the program as the guest received it originally. If now has the same code, it
// returns now, which has more detail.
func asThen(st *journal.Story, now *program.Program) *program.Program {
	was := st.Prepared
	if now != nil && now.Code == was.Code {
		return now
	}
	return &program.Program{Runtime: was.Runtime, Code: was.Code, Name: was.Name, Line: was.Line, Source: st.Begin.Source,
		Namespaces: was.Namespaces, Aliases: was.Aliases, Whole: was.Whole, Declared: was.Declared, Notes: was.Notes, Remark: was.Remark}
}

// sendRecorded resends the lines that the guest received before.
func (d *dialog) sendRecorded() error {
	for _, h := range d.history.recordedLines() {
		if err := d.stream.Send(h.Text, about{at: h.At, recorded: true}, false); err != nil {
			return err
		}
	}
	return nil
}

// repeatAnswer returns the recorded answer to a question.
func (d *dialog) repeatAnswer(question []byte, h *journal.Heard) []byte {
	var m sandbox.GuestMessage
	err := d.guard("a question of the program", func() error {
		if err := json.Unmarshal(question, &m); err != nil {
			return &tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err}
		}
		d.history.recordQuestion(question, &m)
		d.state.mu.Lock()
		d.state.messages++
		d.state.mu.Unlock()
		switch {
		case m.Call != nil:
			return d.repeatCall(m.Call)
		case m.File != nil:
			d.files.repeat(m.File, h.Text)
		}
		return nil
	})
	if err != nil {
		_ = d.refuse(err)
		return nil
	}
	d.history.recordAgain(h.Text)
	return h.Text
}

func (d *dialog) repeatCall(c *sandbox.GuestCall) error {
	c, asked := d.calls.simplify(c)
	n, path, now, err := d.calls.addCall(c, asked)
	if err != nil || now != nil {
		return err
	}
	k := d.history.Call(c.ID)
	if k == nil || !k.Known() {
		return errDiverged
	}
	if err := d.calls.restoreCall(n, c, path, k); err != nil {
		return err
	}
	d.state.releaseCall(0)
	return nil
}

// restoreCall copies what the journal knows of a call to the n-th call. If the outcome is unknown,
// the call is made again.
func (cs *calls) restoreCall(n int, c *sandbox.GuestCall, path string, k *journal.Call) error {
	if k.Tool != path || !k.Is(tool.CallDigest(path, c.Args)) {
		return errDiverged
	}
	cs.results.keepAgain(k.Blocks)
	cs.state.mu.Lock()
	defer cs.state.mu.Unlock()
	rec := &cs.state.exec.Calls[n]
	rec.Note = k
	if !k.Known() {
		return nil
	}
	rec.MS, rec.Bytes, rec.Error, rec.From, rec.Unsent, rec.Reads, rec.Pending = k.MS, k.Bytes, k.Error, k.From, k.Unsent, k.ReadOnly, false
	rec.Took = time.Duration(k.MS) * time.Millisecond
	return nil
}

// interruptedKind is the kind of the error of an execution that could not continue.
const interruptedKind = tool.Kind(execution.Interrupted)

func interrupted(format string, a ...any) error {
	e := tool.Errorf(interruptedKind, format, a...)
	e.Msg = "biplane ended while this program ran, and it can't go on: " + e.Msg
	return e
}

var errDiverged = interrupted("run again, it did something else than before")

// errChanged is the reason not to repeat a call that was sent when its tool was read-only.
var errChanged = errors.New("its tool says now that it may write")

func changedSince(k *journal.Call) error {
	return interrupted("call %d, %s, had been sent, and whether it took effect is unknown: %w. Look, before anything is sent again", k.N, prose.Cut(k.Tool, 100), errChanged)
}

func isInterruption(err error) bool {
	e := tool.AsError(err)
	return e != nil && e.Kind == interruptedKind
}
