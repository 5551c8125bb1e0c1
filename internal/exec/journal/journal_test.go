package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A memory is a Store that holds one journal.
type memory struct {
	mu      sync.Mutex
	rec     *Record
	parts   [][]byte
	results map[string][]byte
}

func (m *memory) Write(w *Write) Pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.Record != nil {
		rec := *w.Record
		m.rec = &rec
	}
	for _, r := range w.Results {
		m.results[r.Digest] = r.Data
	}
	if w.Seq > 0 {
		m.parts = append(m.parts, w.Part)
	}
	return written{}
}

type written struct{}

func (written) Wait() error { return nil }
func (written) Safe() error { return nil }
func (written) Sync() error { return nil }
func (written) Hurry()      {}

func (m *memory) Digest(data []byte) string                           { return tool.CallDigest("", data) }
func (m *memory) Get(context.Context, string) (*Record, error)        { return m.rec, nil }
func (m *memory) List(context.Context, Query) ([]Record, error)       { return nil, nil }
func (m *memory) Open(context.Context) ([]Record, error)              { return nil, nil }
func (m *memory) Parts(context.Context, string) ([][]byte, error)     { return m.parts, nil }
func (m *memory) Trim(context.Context, time.Time, int64) (int, error) { return 0, nil }

func (m *memory) Result(_ context.Context, digest string) ([]byte, error) {
	if r, ok := m.results[digest]; ok {
		return r, nil
	}
	return nil, tool.Errorf(tool.NotFound, "gone")
}

// Load reads what a Log writes: lines byte for byte, outcomes in the order of their delivery, large
// values by their digest.
func TestLogAndStory(t *testing.T) {
	m := &memory{results: map[string][]byte{}}
	at := time.UnixMilli(1_700_000_000_000)
	l := NewLog(m, Record{ID: "ex_1", State: Running, Started: at}, Begin{Source: "text"}, 1<<20, wallclock.At(at))
	l.RecordProgram(Prepared{Runtime: "js", Revision: 3})
	l.Heard([]byte(`{"at":1700000000000,"run":{"code":"code","name":"n","seed":"s"}}`))
	big := json.RawMessage(`"` + strings.Repeat("x", 2*large) + `"`)
	calls := []*Call{
		{N: 1, ID: 7, Tool: "a.b", Arguments: json.RawMessage(`{"n":9007199254740993}`), Sent: at, Ended: at,
			Value: big, MS: 5},
		{N: 2, ID: 8, Tool: "a.c", Sent: at, Ended: at,
			Failure: &sandbox.GuestError{Kind: "failed", Message: "<no> & no\u2028"}, Error: "no"},
		{N: 3, ID: 9, Tool: "a.d", Sent: at},
	}
	for _, c := range calls {
		c.Digest = tool.CallDigest(c.Tool, c.Arguments)
		l.Intent(c)
	}
	for _, c := range calls[:2] {
		l.Outcome(c)
	}
	l.RecordDelivery(8, 1_700_000_000_001, false)
	l.RecordAnswer([]byte(`{"answer":{"id":4}}`))
	l.RecordDelivery(7, 1_700_000_000_002, true)
	l.Freeze()
	if p := l.Intent(calls[2]); p.Sync() == nil {
		t.Error("a call may leave whose intent is not written")
	}
	st, err := Load(t.Context(), m, "ex_1")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if st.Begin.Source != "text" || st.Prepared.Revision != 3 || st.Prepared.Code != "code" || len(st.Inputs) != 4 ||
		len(st.Calls) != 3 {
		t.Fatalf("st = %+v", st)
	}
	for i, c := range calls[:2] {
		want, err := tool.Marshal(sandbox.HostMessage{Answer: &sandbox.Answer{ID: c.ID, Value: c.Value,
			Error: c.Failure}, At: 1_700_000_000_002 - int64(i)})
		h := st.Inputs[3-2*i]
		if err != nil || string(h.Text) != string(want) || h.Answers != c.ID || h.Question != (i == 0) {
			t.Errorf("call %d is told by %s", c.N, h.Text)
		}
		if got := st.Call(c.ID); got.Order != 2-i || !got.Known() {
			t.Errorf("got = %+v, want got.Order == 2-i && got.Known()", got)
		}
	}
	if u := st.Unknown(); len(u) != 1 || u[0].ID != 9 {
		t.Errorf("unknown: %+v", u)
	}
	if len(m.results) != 1 {
		t.Errorf("%d results", len(m.results))
	}
}

// The run time of an execution excludes the time in which no process ran it, however often that
// happened.
func TestTimeWithoutAProcess(t *testing.T) {
	m := &memory{results: map[string][]byte{}}
	clock := wallclock.At(time.UnixMilli(1_700_000_000_000))
	heard := func(l *Log) {
		l.Heard(fmt.Appendf(nil, `{"at":%d,"run":{"code":"code","name":"n","seed":"s"}}`, clock.Now().UnixMilli()))
	}
	l := NewLog(m, Record{ID: "ex_1", State: Running, Started: clock.Now()}, Begin{Source: "text"}, 1<<20, clock)
	l.RecordProgram(Prepared{Runtime: "js"})
	heard(l)
	clock.Advance(2 * time.Second) // the program's own time
	call := &Call{N: 1, ID: 7, Tool: "a.b", Sent: clock.Now(), ReadOnly: true}
	l.Intent(call)
	for range 3 { // it dies, and is resumed the next day
		l.Freeze()
		st, err := Load(t.Context(), m, "ex_1")
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		clock.Advance(24 * time.Hour)
		l = Continue(m, st, 1<<20, clock)
		l.RecordResume()
		clock.Advance(time.Second) // the program's own time: it repeats what it did
		call.Sent = clock.Now()
		l.Intent(call)
	}
	clock.Advance(5 * time.Second) // the tool's time
	call.Ended, call.MS = clock.Now(), 5000
	l.Outcome(call)
	l.Freeze()
	st, err := Load(t.Context(), m, "ex_1")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if st.Own() != 5*time.Second || st.RunTime() != 10*time.Second {
		t.Errorf("it ran for %v, %v of that by itself", st.RunTime(), st.Own())
	}
}

// However the clock was set while people were asked, the run time is never negative, and no wait is
// excluded twice.
func TestTimeOfPeople(t *testing.T) {
	began := time.UnixMicro(1_700_000_000_000_000)
	for name, c := range map[string]struct {
		waits [][2]time.Duration // since began, by the clock
		last  time.Duration
		want  time.Duration
	}{
		"as it was": {[][2]time.Duration{{time.Minute, time.Hour}, {2 * time.Hour, 3 * time.Hour}},
			3*time.Hour + time.Second, time.Hour + time.Minute + time.Second},
		"set back before":          {[][2]time.Duration{{-2 * time.Hour, -time.Hour}}, time.Second, time.Second},
		"set back before the wait": {[][2]time.Duration{{-time.Hour, time.Hour}}, time.Hour + time.Second, time.Second},
		"set back between": {[][2]time.Duration{{time.Minute, time.Hour}, {2 * time.Minute, 2 * time.Hour}},
			2 * time.Hour, time.Minute},
		"in the future": {[][2]time.Duration{{2 * time.Hour, time.Hour}}, time.Hour, time.Hour},
	} {
		m := &memory{results: map[string][]byte{}}
		clock := wallclock.At(began)
		l := NewLog(m, Record{ID: "ex_1", State: Running, Started: began}, Begin{Source: "text"}, 1<<20,
			clock)
		for _, w := range c.waits {
			clock.Set(began.Add(w[1]))
			l.Stood(began.Add(w[0]))
		}
		clock.Set(began.Add(c.last))
		l.Intent(&Call{N: 1, ID: 7, Tool: "a.b", Sent: clock.Now()})
		l.Freeze()
		st, err := Load(t.Context(), m, "ex_1")
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		if st.RunTime() != c.want {
			t.Errorf("%s: it ran for %v, want %v", name, st.RunTime(), c.want)
		}
	}
}

// Reading any part returns a history or an error.
func FuzzStory(f *testing.F) {
	var part []byte
	for k, text := range map[kind]string{begun: `{"source":"x"}`, prepared: `{}`, line: `{"at":1,"run":{}}`,
		answer: `{"answer":{"id":1}}`,
		intent: `{"n":1,"id":1,"tool":"a"}`, outcome: `{"n":1,"id":1,"at":5}`, delivered: `{"id":1,"at":3}`, again: ``,
		resumed: `{"at":4}`, ended: `{"state":"done"}`} {
		part = appendEntry(part, k, []byte(text))
	}
	f.Add(part)
	f.Add([]byte("l\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, part []byte) {
		m := &memory{rec: &Record{}, parts: [][]byte{part}, results: map[string][]byte{}}
		st, err := Load(context.Background(), m, "x")
		if err != nil {
			var e *tool.Error
			if !errors.As(err, &e) {
				t.Errorf("err = %v, want errors.As(err, &e)", err)
			}
			return
		}
		st.Own()
		st.RunTime()
		st.Unknown()
	})
}

// A journal that grows too large with the blocks of a result, which are then not kept, can be read.
func TestBlocksOfLostJournal(t *testing.T) {
	m := &memory{results: map[string][]byte{}}
	at := time.UnixMilli(1_700_000_000_000)
	l := NewLog(m, Record{ID: "ex_1", State: Running, Started: at}, Begin{Source: "text"}, 2*large, wallclock.At(at))
	c := &Call{N: 1, ID: 7, Tool: "a.b", Digest: tool.CallDigest("a.b", nil), Sent: at, Ended: at,
		Value: json.RawMessage(`"res_1"`), Blocks: []Block{{"res_1", json.RawMessage(`"` +
			strings.Repeat("x", 2*large) + `"`)}}}
	l.Intent(c)
	l.Outcome(c)
	l.End(End{State: Done}, func(r *Record) { r.State = Done })
	st, err := Load(t.Context(), m, "ex_1")
	if err != nil || st.Record.Lost == "" || len(st.Calls) != 1 || st.End == nil {
		t.Fatalf("st = %+v, err = %v, want a journal that is lost, with a call and an end", st, err)
	}
	p := NewPrior()
	p.Add(st)
	if k, err := p.Take("a.b", nil); k != nil || err == nil || !tool.AsError(err).Unsent {
		t.Errorf("k = %+v, err = %v, want a call that is refused", k, err)
	}
}
