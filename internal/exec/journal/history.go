package journal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Input is one input that the guest received.
type Input struct {
	Question bool   // it answers a question
	Text     []byte // a sandbox.HostMessage, without '\n'
	Answers  int64  // ID of what it answers; 0: nothing
	At       int64  // time of day in the message, in milliseconds since 1970
}

// A History is a decoded journal.
type History struct {
	Record   Record
	Begin    Begin
	Prepared *Prepared // nil: the program was not prepared yet
	Inputs   []Input   // from the Run on; empty if it was not sent
	Calls    []*Call   // in order
	Planned  *Planned  // nil: there is no plan
	End      *End      // nil: it has not ended

	partCount int
	byID      map[int64]*Call
	last      time.Time // time of the last entry that has one
	gaps      []gap     // in order
}

// A gap is a time in which no process ran the execution, or people were asked.
type gap struct{ from, to time.Time }

// Load reads the journal of an execution. It returns nil if there is none.
func Load(ctx context.Context, s Store, id string) (*History, error) {
	rec, err := s.Get(ctx, id)
	if err != nil || rec == nil {
		return nil, err
	}
	parts, err := s.Parts(ctx, id)
	if err != nil {
		return nil, err
	}
	st := &History{Record: *rec, partCount: len(parts), byID: map[int64]*Call{}, last: rec.Started}
	r := reader{ctx, s, st}
	for _, p := range parts {
		if err := entries(p, r.entry); err != nil {
			return nil, err
		}
	}
	if id := st.Begin.Principal.ID; id != "" { // the journal is sealed, the record is not
		st.Record.Principal = id
	}
	if run, _ := st.Run(); run != nil && st.Prepared != nil {
		st.Prepared.Code, st.Prepared.Name, st.Prepared.Line, st.Prepared.Namespaces = run.Code, run.Name, run.Line,
			run.Namespaces
		st.Prepared.Aliases, st.Prepared.Whole = run.Aliases, run.Whole
	}
	return st, nil
}

// NewBareHistory returns a History that has only a record.
func NewBareHistory(r Record) *History {
	return &History{Record: r, byID: map[int64]*Call{}, last: r.Started}
}

// Call returns the call with the guest's ID, or nil if there is none.
func (s *History) Call(id int64) *Call { return s.byID[id] }

// Labels returns the labels of all data that the execution is known to have read, sorted.
func (s *History) Labels() []string {
	out := tool.JoinLabels(nil, s.Begin.Labels)
	for _, c := range s.Calls {
		out = tool.JoinLabels(out, c.Labels)
	}
	if s.End != nil {
		out = tool.JoinLabels(out, s.End.Labels)
	}
	return out
}

// Unknown returns the calls that were sent and may have written, but whose outcome is unknown.
func (s *History) Unknown() (out []*Call) {
	for _, c := range s.Calls {
		if c.Unknown() {
			out = append(out, c)
		}
	}
	return out
}

// RunTime returns the time that the execution had run until its last entry that has a time. It
// excludes the time between processes and the time spent waiting for people.
func (s *History) RunTime() time.Duration {
	d := s.last.Sub(s.Record.Started)
	for _, g := range s.gaps {
		d -= g.to.Sub(g.from)
	}
	return d
}

// Own returns how much of Lasted the program itself ran, excluding the time of its calls.
func (s *History) Own() time.Duration {
	if len(s.Inputs) == 0 {
		return 0
	}
	type edge struct {
		at   time.Time
		more int
	}
	var edges []edge
	for _, c := range s.Calls {
		end := c.Ended
		if !c.Known() {
			end = s.last
		}
		if begun := end.Add(-time.Duration(c.MS) * time.Millisecond); !c.Sent.IsZero() && c.Sent.Before(begun) ||
			!c.Known() {
			edges = append(edges, edge{c.Sent, 1}, edge{end, -1})
		} else {
			edges = append(edges, edge{begun, 1}, edge{end, -1})
		}
	}
	for _, g := range s.gaps {
		edges = append(edges, edge{g.from, 1}, edge{g.to, -1})
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	own, at, under := time.Duration(0), time.UnixMilli(s.Inputs[0].At), 0
	for _, e := range append(edges, edge{at: s.last}) {
		if under == 0 && e.at.After(at) {
			own += e.at.Sub(at)
		}
		if e.at.After(at) {
			at = e.at
		}
		under += e.more
	}
	return own
}

// A reader builds a History from entries.
type reader struct {
	ctx   context.Context
	store Store
	st    *History
}

func (r *reader) entry(k kind, text []byte) error {
	switch k {
	case begun:
		return read(text, &r.st.Begin)
	case prepared:
		r.st.Prepared = &Prepared{}
		return read(text, r.st.Prepared)
	case line, answer:
		return r.addInput(k == answer, text)
	case delivered:
		return r.readDelivery(text)
	case intent:
		return r.intent(text)
	case outcome:
		return r.outcome(text)
	case planned:
		r.st.Planned = &Planned{}
		return read(text, r.st.Planned)
	case again:
		r.st.Inputs = nil
		return nil
	case resumed:
		return r.readResumption(text)
	case ended:
		return r.end(text)
	}
	return damaged
}

func read(text []byte, v any) error {
	if json.Unmarshal(text, v) != nil {
		return damaged
	}
	return nil
}

func (r *reader) addInput(question bool, text []byte) error {
	var m struct {
		At     int64
		Answer *struct{ ID int64 }
	}
	if err := read(text, &m); err != nil {
		return err
	}
	h := Input{Question: question, Text: text, At: m.At}
	if m.Answer != nil {
		h.Answers = m.Answer.ID
	}
	r.st.Inputs = append(r.st.Inputs, h)
	r.at(time.UnixMilli(m.At))
	return nil
}

func (r *reader) at(t time.Time) {
	if t.After(r.st.last) {
		r.st.last = t
	}
}

func (r *reader) readResumption(text []byte) error {
	var c resumption
	if err := read(text, &c); err != nil {
		return err
	}
	from, at := r.st.last, time.UnixMicro(c.At)
	if c.From != 0 {
		from = time.UnixMicro(c.From)
		earliest := r.st.Record.Started // avoids counting time twice or negative time, whatever the clock was set to
		if n := len(r.st.gaps); n > 0 {
			earliest = r.st.gaps[n-1].to
		}
		if from.Before(earliest) {
			from = earliest
		}
	}
	if at.After(from) {
		r.st.gaps = append(r.st.gaps, gap{from, at})
		r.at(at)
	}
	return nil
}

func (r *reader) readDelivery(text []byte) error {
	var d delivery
	if err := read(text, &d); err != nil {
		return err
	}
	c := r.st.byID[d.ID]
	if c == nil || !c.Known() {
		return damaged
	}
	l, err := answerLine(d.ID, c.Value, c.Failure, d.At)
	if err != nil {
		return err
	}
	r.st.Inputs = append(r.st.Inputs, Input{d.Question, l, d.ID, d.At})
	c.at = time.UnixMilli(d.At)
	r.at(c.at)
	for _, other := range r.st.Calls {
		c.Order = max(c.Order, other.Order)
	}
	c.Order++
	return nil
}

// call returns the call that s describes, and adds it if it is new.
func (r *reader) call(s *sending) (*Call, error) {
	if c := r.st.byID[s.ID]; c != nil {
		return c, nil
	}
	c := &Call{N: s.N, ID: s.ID, Tool: s.Tool, Arguments: s.Arguments, Digest: s.Digest, Asked: s.Asked,
		Decision: s.Decision, ReadOnly: s.ReadOnly, Idempotent: s.Idempotent, Plan: s.Plan}
	if s.Large != "" {
		var err error
		if c.Arguments, err = r.text(s.Large); err != nil {
			return nil, err
		}
	}
	r.st.byID[s.ID] = c
	at := len(r.st.Calls)
	for at > 0 && r.st.Calls[at-1].N > c.N {
		at--
	}
	r.st.Calls = append(r.st.Calls[:at], append([]*Call{c}, r.st.Calls[at:]...)...)
	return c, nil
}

// intent reads the intent of a call. A call that was repeated because its outcome was unknown has
// two. It counts as read-only or idempotent only if both intents do.
func (r *reader) intent(text []byte) error {
	var s sending
	if err := read(text, &s); err != nil {
		return err
	}
	c, err := r.call(&s)
	if err != nil {
		return err
	}
	c.ReadOnly, c.Idempotent = c.ReadOnly && s.ReadOnly, c.Idempotent && s.Idempotent
	c.Sent = time.UnixMicro(s.At)
	r.at(c.Sent)
	return nil
}

func (r *reader) outcome(text []byte) error {
	var e ending
	if err := read(text, &e); err != nil {
		return err
	}
	c, err := r.call(&e.sending)
	if err != nil {
		return err
	}
	if e.Kept != "" {
		if e.Value, err = r.text(e.Kept); err != nil {
			return err
		}
	}
	if e.KeptIn != "" {
		raw, err := r.text(e.KeptIn)
		if err != nil {
			return err
		}
		if raw == nil { // the journal is lost
			e.Value = nil // it refers to them
		} else if err := read(raw, &e.Blocks); err != nil {
			return err
		}
	}
	c.Ended = time.UnixMicro(e.At)
	c.Value, c.Failure, c.Blocks, c.MS, c.Bytes, c.Error, c.Kind, c.From, c.Unsent = e.Value, e.Failure, e.Blocks, e.MS,
		e.Bytes, e.Error, e.Kind, e.From, e.Unsent
	c.Labels = e.Labels
	r.at(c.Ended)
	return nil
}

func (r *reader) end(text []byte) error {
	e := &End{}
	if err := read(text, e); err != nil {
		return err
	}
	for _, t := range e.Texts {
		raw, err := r.text(t.Digest)
		if err != nil {
			return err
		}
		switch t.Field {
		case "execution":
			e.Execution = raw
		case "answer":
			e.Answer = raw
		}
	}
	r.st.End = e
	r.at(time.UnixMicro(e.At))
	return nil
}

// text returns a text by its digest. It may be missing if the journal was lost.
func (r *reader) text(digest string) ([]byte, error) {
	raw, err := r.store.Result(r.ctx, digest)
	var e *tool.Error
	if errors.As(err, &e) && e.Kind == tool.NotFound && r.st.Record.Lost != "" {
		return nil, nil
	}
	return raw, err
}

// Run returns the message that started the program and its time in milliseconds since 1970, or nil
// if there is none.
func (s *History) Run() (*sandbox.Run, int64) {
	if len(s.Inputs) == 0 {
		return nil, 0
	}
	var m sandbox.HostMessage
	if json.Unmarshal(s.Inputs[0].Text, &m) != nil || m.Run == nil {
		return nil, 0
	}
	return m.Run, m.At
}
