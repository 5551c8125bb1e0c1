package journal

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// large is from which size on a text is kept by its digest, in bytes.
	large = 16 << 10
	// soon is when entries are written that nothing else brings with it. A program without calls has mostly ended by then.
	soon = 20 * time.Millisecond
	// shortly is when the outcome of a call is written that only read: several may come at once, and one that is lost is asked
	// for again.
	shortly = 2 * time.Millisecond
	// maxLost is how long a text of the end may be of an execution whose journal was given up, in bytes.
	maxLost = 1 << 20
	// much is how many bytes of entries are written at once, whatever they are.
	much = 64 << 10
)

// A Log writes the journal of an execution. It is safe for concurrent use. A nil Log writes nothing.
type Log struct {
	store Store
	most  int64
	now   func() time.Time

	mu      sync.Mutex
	rec     Record
	part    []byte // entries that are not given to the store yet
	results []Result
	held    int             // bytes of results
	hurry   bool            // the timer is set to shortly
	kept    map[string]bool // results that were given to it
	seq     int
	begun   bool // the record was given to it
	stale   bool // and has changed since
	closed  bool // nothing is written any more
	frozen  bool // by Freeze
	last    Pending
	wrote   Pending // the outcome of a call that may write, the last one; nil: there is none
	timer   *time.Timer
}

// NewLog makes the Log of a new execution. Its journal may have so many bytes, results included; one that has more is
// given up, and says so.
func NewLog(s Store, rec Record, b Begin, most int64, now func() time.Time) *Log {
	l := &Log{store: s, most: most, now: now, rec: rec, kept: map[string]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(begun, b)
	l.timer = time.AfterFunc(soon, l.Flush)
	return l
}

// Continue makes the Log of an execution that goes on, after the entries of its story.
func Continue(s Store, st *Story, most int64, now func() time.Time) *Log {
	l := &Log{store: s, most: most, now: now, rec: st.Record, kept: map[string]bool{}, begun: true, seq: st.parts}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(soon, l.Flush)
	l.timer.Stop()
	return l
}

// Update changes the record, and has it written. With flush false it is written with the first entries that are.
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

// Prepared notes what the guest is given.
func (l *Log) Prepared(p Prepared) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(prepared, p)
}

// Planned notes the plan of a program, and gives what is waited for before a person is asked about it.
func (l *Log) Planned(p Planned) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(planned, p)
	return l.give(false)
}

// Again says that the program begins once more: what its guest heard before is void.
func (l *Log) Again() { l.put(again, nil) }

// Resumed says that the execution goes on in this process. It is written with what comes next.
func (l *Log) Resumed() { l.goesOn(0) }

// Stood says that the execution's time has stood still since a moment, while people were asked. It is written with what comes next.
func (l *Log) Stood(since time.Time) { l.goesOn(since.UnixMicro()) }

func (l *Log) goesOn(from int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(resumed, resumption{At: l.now().UnixMicro(), From: from})
}

// Heard notes a line that the guest is told.
func (l *Log) Heard(text []byte) { l.put(line, text) }

// Answered notes the answer to a question of the guest.
func (l *Log) Answered(text []byte) { l.put(answer, text) }

// Delivered notes that the guest is told of the outcome of its call, at a time in milliseconds.
func (l *Log) Delivered(id, at int64, question bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(delivered, delivery{id, at, question})
}

// Intent notes that a call is about to leave. What it gives is waited for before it does: that the intent is on the disk, or, of a
// call that only reads, that what came of the writes before it is safe; nil where there are none.
func (l *Log) Intent(c *Call) Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(intent, l.sending(c, l.now()))
	if c.ReadOnly {
		return l.wrote
	}
	return l.give(false)
}

// Outcome notes what came of a call.
func (l *Log) Outcome(c *Call) {
	if l == nil || c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := ending{Value: c.Value, Failure: c.Failure, Blocks: c.Blocks, MS: c.MS, Bytes: c.Bytes, Error: c.Error, Kind: c.Kind, From: c.From, Unsent: c.Unsent, Labels: c.Labels}
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
	if l.rec.Attempts > 0 { // it got on
		l.rec.Attempts, l.stale = 0, true
	}
	switch {
	case !c.ReadOnly && !c.Sent.IsZero(): // a crash before this is written leaves a write of which nobody knows
		l.wrote = l.give(false)
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
	s := sending{N: c.N, ID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Digest: c.Digest, Asked: c.Asked, Decision: c.Decision,
		ReadOnly: c.ReadOnly, Idempotent: c.Idempotent, Plan: c.Plan, At: at.UnixMicro()}
	if len(c.Arguments) > large {
		s.Arguments, s.Large = nil, l.keep(c.Arguments)
	}
	return s
}

// End notes how the execution ended, with the record as f makes it. Nothing is written after it.
func (l *Log) End(e End, f func(*Record)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = l.now().UnixMicro()
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

// notWhole is why an execution can't be replayed of which not all could be written.
const notWhole = "not all of its journal could be written"

// Amend looks whether the end of an execution was written, which waits until it is known, and writes the record alone where it was
// not: the journal is not whole then, and what is known of the execution is how it ended. An error says that this can't be
// written either.
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
	if err := l.store.Write(&Write{ID: rec.ID, Record: &rec, New: true}).Wait(); err == nil || tool.AsError(err).Kind == tool.Unavailable {
		return err
	}
	return l.store.Write(&Write{ID: rec.ID, Record: &rec}).Wait() // it is there already
}

// Freeze says that nothing is written any more: for the journal it is as if the process had died.
func (l *Log) Freeze() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		on := l.rec.Attempts > 0 // this end of the process is not the program's doing
		l.rec.Attempts = 0
		l.flush(on)
		l.frozen = true
	}
	l.closed = true
	l.timer.Stop()
}

// Frozen reports whether Freeze came before End: the execution goes on in another process.
func (l *Log) Frozen() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen
}

// Wait waits until all that was given to the store is written.
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

// Lost says why the execution can't be replayed; empty when it can.
func (l *Log) Lost() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Lost
}

// Flush gives what there is to the store.
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

func (l *Log) put(k kind, text []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(k, text)
}

// add adds an entry that is an object. l.mu is held.
func (l *Log) add(k kind, v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		l.lose("an entry of its journal could not be written: " + err.Error())
		return
	}
	l.append(k, text)
}

// append adds an entry. l.mu is held.
func (l *Log) append(k kind, text []byte) {
	if l.closed || l.rec.Lost != "" && k != intent && k != outcome && k != ended {
		return // of a journal that was given up the calls remain
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

// keep keeps a text by its digest. l.mu is held.
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

// grow counts bytes of the journal. l.mu is held.
func (l *Log) grow(n int64) {
	if l.rec.Bytes += n; l.rec.Bytes > l.most && l.rec.Lost == "" {
		l.lose("its journal is larger than an execution's may be")
	}
}

// lose gives the journal up: what its guest hears is not written any more, nor what its calls gave. The execution goes on.
// l.mu is held.
func (l *Log) lose(why string) { l.rec.Lost, l.results = why, nil }

// flush gives what there is to the store, with the record where it is asked for or the first. l.mu is held.
func (l *Log) flush(record bool) { l.give(record) }

// give is flush, and gives what was given last. l.mu is held.
func (l *Log) give(record bool) Pending {
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

// A frozen is what waits for a Log that writes nothing any more: its call doesn't leave.
type frozen struct{}

var errFrozen = tool.Errorf(tool.Unavailable, "biplane is shutting down: the call was not made")

// Safe gives the error.
func (frozen) Safe() error { return errFrozen }

// Wait gives the error.
func (frozen) Wait() error { return errFrozen }

// Sync gives the error.
func (frozen) Sync() error { return errFrozen }
func (frozen) Hurry()      {}
