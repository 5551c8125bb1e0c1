package journal

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// large is the size in bytes above which a text is stored by its digest.
	large = 16 << 10
	// soon is the delay after which buffered entries are written. Most programs without calls have
	// ended by then.
	soon = 20 * time.Millisecond
	// shortly is the delay for the outcome of a call that only reads. Several outcomes may be
	// batched, and a lost one is requested again.
	shortly = 2 * time.Millisecond
	// maxLost is the maximum size in bytes of a text in the End of a lost journal.
	maxLost = 1 << 20
	// much is the number of buffered bytes above which entries are written immediately.
	much = 64 << 10
)

// A Log writes the journal of an execution. It is safe for concurrent use. A nil Log writes
// nothing.
type Log struct {
	store Store
	most  int64
	clock *wallclock.Clock

	mu      sync.Mutex
	rec     Record
	part    []byte // entries not yet passed to the store
	results []Result
	held    int             // size of results in bytes
	hurry   bool            // the timer is set to shortly
	kept    map[string]bool // digests already passed to the store
	seq     int
	begun   bool // the record was passed to the store
	stale   bool // the record has changed since
	closed  bool // no further writes
	frozen  bool // closed by Freeze
	last    Pending
	wrote   Pending // the last outcome of a call that may write; nil: none
	timer   *time.Timer
}

// NewLog returns the Log of a new execution. most is the maximum size of its journal in bytes,
// including results. A journal that exceeds it is marked as lost.
func NewLog(s Store, rec Record, b Begin, most int64, clock *wallclock.Clock) *Log {
	l := &Log{store: s, most: most, clock: clock, rec: rec, kept: map[string]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(begun, b)
	l.timer = time.AfterFunc(soon, l.Flush)
	return l
}

// Continue returns the Log of a resumed execution. It writes after the entries of st.
func Continue(s Store, st *History, most int64, clock *wallclock.Clock) *Log {
	l := &Log{store: s, most: most, clock: clock, rec: st.Record, kept: map[string]bool{}, begun: true,
		seq: st.partCount}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(soon, l.Flush)
	l.timer.Stop()
	return l
}

// Update modifies the record and schedules it for writing. If flush is false, it is written with
// the next entries.
func (l *Log) Update(f func(*Record), flush bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.rec)
	l.stale = true
	if flush && !l.closed {
		l.flush(true)
	}
}

// RecordProgram records the program that is sent to the guest.
func (l *Log) RecordProgram(p Prepared) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(prepared, p)
}

// RecordPlan records the plan of a program. The caller waits for the result before anyone is asked
// to approve the plan.
func (l *Log) RecordPlan(p Planned) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(planned, p)
	return l.flushLines(false)
}

// Again records that the program starts over: all that its guest received before is discarded.
func (l *Log) Again() { l.appendEntry(again, nil) }

// RecordResume records that the execution continues in this process. It is written with the next
// entry.
func (l *Log) RecordResume() { l.goesOn(0) }

// Stood records that the execution's clock was stopped since a time, while people were asked. It is
// written with the next entry.
func (l *Log) Stood(since time.Time) { l.goesOn(since.UnixMicro()) }

func (l *Log) goesOn(from int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(resumed, resumption{At: l.clock.Now().UnixMicro(), From: from})
}

// Heard records a line sent to the guest.
func (l *Log) Heard(text []byte) { l.appendEntry(line, text) }

// RecordAnswer records the answer to a question from the guest.
func (l *Log) RecordAnswer(text []byte) { l.appendEntry(answer, text) }

// RecordDelivery records that the outcome of call id is sent to the guest; at is in milliseconds.
func (l *Log) RecordDelivery(id, at int64, question bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(delivered, delivery{id, at, question})
}

// Intent records that a call is about to be sent. The caller waits for the result before sending
// it. For a call that may write, the result is the write of the intent. For one that only reads, it
// is the last outcome of a call that may write, or nil if there is none.
func (l *Log) Intent(c *Call) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(intent, l.sending(c, l.clock.Now()))
	if c.ReadOnly {
		return l.wrote
	}
	return l.flushLines(false)
}

// Outcome records the outcome of a call.
func (l *Log) Outcome(c *Call) {
	if l == nil || c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := ending{Value: c.Value, Failure: c.Failure, Blocks: c.Blocks, MS: c.MS, Bytes: c.Bytes, Error: c.Error,
		Kind: c.Kind, From: c.From, Unsent: c.Unsent, Labels: c.Labels}
	e.sending = sending{N: c.N, ID: c.ID, At: c.Ended.UnixMicro()}
	if c.Sent.IsZero() {
		e.sending = l.sending(c, c.Ended)
	}
	switch {
	case l.rec.Lost != "":
		e.Value, e.Blocks = nil, nil
	case len(c.Value) > large:
		e.Value, e.Kept = nil, l.keep(c.Value)
	}
	if blockBytes(e.Blocks) > large {
		if raw, err := tool.Marshal(c.Blocks); err == nil {
			e.Blocks, e.KeptIn = nil, l.keep(raw)
		}
	}
	l.add(outcome, e)
	if l.rec.Attempts > 0 { // it made progress
		l.rec.Attempts, l.stale = 0, true
	}
	switch {
	case !c.ReadOnly && !c.Sent.IsZero(): // a crash before this is written leaves a write with an unknown outcome
		l.wrote = l.flushLines(false)
		l.wrote.Hurry()
	case l.held > much:
		l.flush(false)
	case !l.hurry && !l.closed:
		l.hurry = true
		l.timer.Reset(shortly)
	}
}

func blockBytes(blocks []Block) (n int) {
	for _, b := range blocks {
		n += len(b.Raw)
	}
	return n
}

func (l *Log) sending(c *Call, at time.Time) sending {
	s := sending{N: c.N, ID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Digest: c.Digest, Asked: c.Asked,
		Decision: c.Decision,
		ReadOnly: c.ReadOnly, Idempotent: c.Idempotent, Plan: c.Plan, At: at.UnixMicro()}
	if len(c.Arguments) > large {
		s.Arguments, s.Large = nil, l.keep(c.Arguments)
	}
	return s
}

// End records how the execution ended, and the record as modified by f. Nothing is written after
// it.
func (l *Log) End(e End, f func(*Record)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = l.clock.Now().UnixMicro()
	for _, t := range []struct {
		field string
		text  *json.RawMessage
	}{{"execution", &e.Execution}, {"answer", &e.Answer}} {
		switch {
		case l.rec.Lost != "" && len(*t.text) > maxLost:
			*t.text = nil
		case l.rec.Lost == "" && len(*t.text) > large:
			e.Texts = append(e.Texts, Text{t.field, l.keep(*t.text)})
			*t.text = nil
		}
	}
	l.add(ended, e)
	f(&l.rec)
	l.flush(true)
	l.closed = true
	l.timer.Stop()
}

// notWhole is why an execution can't be replayed if part of its journal could not be written.
const notWhole = "its journal is incomplete"

// Amend waits for the end of the execution to be written. If that failed, it writes the record
// alone: the journal is incomplete, but the result of the execution is known. It returns an error
// if the record can't be written either.
func (l *Log) Amend() error {
	l.mu.Lock()
	last, rec := l.last, l.rec
	l.mu.Unlock()
	if last == nil || !rec.State.Ended() || last.Wait() == nil {
		return nil
	}
	if rec.Lost == "" {
		rec.Lost = notWhole
	}
	if err := l.store.Write(&Write{ID: rec.ID, Record: &rec, New: true}).Wait(); err == nil ||
		tool.AsError(err).Kind == tool.Unavailable {
		return err
	}
	return l.store.Write(&Write{ID: rec.ID, Record: &rec}).Wait() // it exists already
}

// Freeze stops all further writes, as if the process had died.
func (l *Log) Freeze() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		on := l.rec.Attempts > 0 // the process exits for reasons other than the program
		l.rec.Attempts = 0
		l.flush(on)
		l.frozen = true
	}
	l.closed = true
	l.timer.Stop()
}

// Frozen reports whether Freeze was called before End: the execution continues in another process.
func (l *Log) Frozen() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen
}

// Wait waits until everything passed to the store is written.
func (l *Log) Wait() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Wait()
}

// Lost returns why the execution can't be replayed, or "" if it can.
func (l *Log) Lost() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Lost
}

// Flush passes all buffered entries to the store.
func (l *Log) Flush() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.flush(false)
	}
}

func (l *Log) appendEntry(k kind, text []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(k, text)
}

// add appends an entry whose text is v as JSON. l.mu is held.
func (l *Log) add(k kind, v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		l.lose("an entry of its journal could not be written: " + err.Error())
		return
	}
	l.append(k, text)
}

// append appends an entry. l.mu is held.
func (l *Log) append(k kind, text []byte) {
	if l.closed || l.rec.Lost != "" && k != intent && k != outcome && k != ended {
		return // only calls and the end are recorded after the journal was lost
	}
	before := len(l.part)
	l.part = appendEntry(l.part, k, text)
	l.grow(int64(len(l.part) - before))
	switch {
	case len(l.part) > much:
		l.flush(false)
	case before == 0 && l.timer != nil && !l.hurry:
		l.timer.Reset(soon)
	}
}

// keep schedules data for storing, and returns its digest. l.mu is held.
func (l *Log) keep(data []byte) (digest string) {
	digest = l.store.Digest(data)
	if !l.kept[digest] && !l.closed {
		if l.grow(int64(len(data))); l.rec.Lost == "" {
			l.kept[digest] = true
			l.results, l.held = append(l.results, Result{digest, data}), l.held+len(data)
		}
	}
	return digest
}

// grow adds n bytes to the size of the journal. l.mu is held.
func (l *Log) grow(n int64) {
	if l.rec.Bytes += n; l.rec.Bytes > l.most && l.rec.Lost == "" {
		l.lose("its journal exceeds the maximum size")
	}
}

// lose marks the journal as lost: input of the guest and values of calls are no longer written. The
// execution continues. l.mu is held.
func (l *Log) lose(why string) { l.rec.Lost, l.results = why, nil }

// flush passes all buffered entries to the store, with the record if requested or needed. l.mu is
// held.
func (l *Log) flush(record bool) { l.flushLines(record) }

// flushLines does the same as flush, and returns the last write. l.mu is held.
func (l *Log) flushLines(record bool) Pending {
	if l.closed {
		return frozen{}
	}
	w := &Write{ID: l.rec.ID, Part: l.part, Results: l.results}
	if record || !l.begun || l.stale || l.rec.Lost != "" {
		rec := l.rec
		w.Record, w.New, l.begun, l.stale = &rec, !l.begun, true, false
	}
	if len(w.Part) > 0 {
		l.seq++
		w.Seq = l.seq
	}
	l.part, l.results, l.held, l.hurry = nil, nil, 0, false
	if w.Record != nil || w.Seq > 0 || len(w.Results) > 0 {
		l.last = l.store.Write(w)
	}
	if l.last == nil {
		return frozen{}
	}
	return l.last
}

// frozen is the Pending of a Log that no longer writes: the call must not be sent.
type frozen struct{}

var errFrozen = &tool.Error{Kind: tool.Unavailable, Msg: "biplane is shutting down: the call was not made"}

// Safe returns an error.
func (frozen) Safe() error { return errFrozen }

// Wait returns an error.
func (frozen) Wait() error { return errFrozen }

// Sync returns an error.
func (frozen) Sync() error { return errFrozen }
func (frozen) Hurry()      {}
