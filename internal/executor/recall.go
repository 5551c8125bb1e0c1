package executor

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A recall is what a run heard before this process began. Its guest hears it once more, and so does again what it did: calls
// that it makes again are not made, files that it changes again are changed in memory. What it has not heard goes on from
// there. A nil recall is that of a run which began in this process.
type recall struct {
	story *journal.Story
	saved bool // what the program left is stored already: it only has to come to its end again
	lines []journal.Heard

	mu      sync.Mutex
	answers []journal.Heard  // to questions, which the guest has yet to ask
	heard   map[int64][]byte // the lines that answer, by what they answer
	unseen  map[int64]bool   // calls that the guest has yet to make again
}

func newRecall(st *journal.Story) *recall {
	c := &recall{story: st, heard: map[int64][]byte{}, unseen: map[int64]bool{}}
	for _, h := range st.Heard {
		if h.Question {
			c.answers = append(c.answers, h)
			continue
		}
		c.lines = append(c.lines, h)
		if h.Answers != 0 {
			c.heard[h.Answers] = h.Text
		}
	}
	for _, k := range st.Calls {
		c.unseen[k.ID] = true
	}
	return c
}

// told reports whether the guest hears the answer to this call or file operation among what it heard before.
func (c *recall) told(id int64) bool { return c != nil && c.heard[id] != nil }

// call gives the call of the guest's as it was made before; nil: it never was.
func (c *recall) call(id int64) *journal.Call {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, id)
	return c.story.Call(id)
}

// left gives the calls that the guest has not made again, in their order.
func (c *recall) left() (out []*journal.Call) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.story.Calls {
		if c.unseen[k.ID] {
			out = append(out, k)
		}
	}
	return out
}

// answer gives the next answer that the guest heard before; nil: it heard no more.
func (c *recall) answer() *journal.Heard {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 {
		return nil
	}
	h := c.answers[0]
	c.answers = c.answers[1:]
	return &h
}

// behind is how long ago the guest last heard something, as far as its timers are concerned. They are set again at once.
func (c *recall) behind(now int64) time.Duration {
	if c == nil || len(c.lines) == 0 {
		return 0
	}
	return time.Duration(max(now-c.lines[len(c.lines)-1].At, 0)) * time.Millisecond
}

// done reports whether what the program left is stored.
func (c *recall) done() bool { return c != nil && c.saved }

// whole is an error where the program came to its end without what it did before.
func (c *recall) whole() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unseen) > 0 || len(c.answers) > 0 {
		return errDiverged
	}
	return nil
}

// program puts what the guest was given in the place of what the text comes to now, where that is something else.
func (c *recall) program(p **program.Program) {
	if c == nil || *p != nil && (*p).Code == c.story.Prepared.Code {
		return
	}
	was := c.story.Prepared
	*p = &program.Program{Runtime: was.Runtime, Code: was.Code, Name: was.Name, Line: was.Line, Source: c.story.Begin.Source,
		Namespaces: was.Namespaces, Declared: was.Declared, Notes: was.Notes, Remark: was.Remark}
}

// sameState is an error where the run can't begin as it did.
func (c *recall) sameState(r *run, caps sandbox.Capabilities) error {
	if c == nil {
		return nil
	}
	if b := guest.Build(caps, r.language); b != c.story.Record.Build {
		return interrupted("it ran on another build of the engine (%s, this one is %s), which may do something else", c.story.Record.Build, b)
	}
	if r.hold == nil {
		return nil
	}
	switch now, then := r.hold.Revision(), c.story.Prepared.Revision; now {
	case then:
	case then + 1:
		c.saved = true
	default:
		return interrupted("its session is not as it was")
	}
	return nil
}

// sendAgain sends what the guest heard before.
func (r *run) sendAgain() error {
	for _, h := range r.recall.lines {
		if err := r.stream.Send(h.Text, about{at: h.At, recorded: true}, false); err != nil {
			return err
		}
	}
	return nil
}

// answerAgain answers a question as it was answered before.
func (r *run) answerAgain(question []byte, h *journal.Heard) []byte {
	var m sandbox.GuestMessage
	err := r.guard("a question of the program", func() error {
		if err := json.Unmarshal(question, &m); err != nil {
			return &tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err}
		}
		r.recorder.Said(&m, true)
		r.mu.Lock()
		r.messages++
		r.voice.Question(question)
		r.mu.Unlock()
		switch {
		case m.Call != nil:
			return r.callAgain(m.Call)
		case m.File != nil:
			r.fileAgain(m.File, h.Text)
		}
		return nil
	})
	if err != nil {
		_ = r.refuse(err)
		return nil
	}
	r.recorder.Heard(session.Answer, h.Text)
	return h.Text
}

func (r *run) callAgain(c *sandbox.GuestCall) error {
	n, path, now, err := r.admit(c)
	if err != nil || now != nil {
		return err
	}
	k := r.recall.call(c.ID)
	if k == nil || !k.Known() {
		return errDiverged
	}
	if err := r.restore(n, c, path, k); err != nil {
		return err
	}
	r.unhold(0)
	return nil
}

// restore notes of the n-th call what the journal knows of it. Where its outcome is not known the call is made again.
func (r *run) restore(n int, c *sandbox.GuestCall, path string, k *journal.Call) error {
	if k.Tool != path || k.Digest != journal.DigestOf(path, c.Args) {
		return errDiverged
	}
	r.keepAgain(k.Blocks)
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := &r.exec.Calls[n]
	rec.Note = k
	if !k.Known() {
		return nil
	}
	rec.MS, rec.Bytes, rec.Error, rec.From, rec.Unsent, rec.Pending = k.MS, k.Bytes, k.Error, k.From, k.Unsent, false
	rec.Took = time.Duration(k.MS) * time.Millisecond
	return nil
}

// interruptedKind is the kind of the error of an execution that could not go on.
const interruptedKind = tool.Kind(execution.Interrupted)

func interrupted(format string, a ...any) error {
	e := tool.Errorf(interruptedKind, format, a...)
	e.Msg = "biplane ended while this program ran, and it can't go on: " + e.Msg
	return e
}

var errDiverged = interrupted("run again, it did something else than before")

// errChanged is why a call is not made again that was sent as one which changes nothing.
var errChanged = errors.New("its tool says now that it may write")

func changedSince(k *journal.Call) error {
	return interrupted("call %d, %s, had been sent, and whether it took effect is unknown: %w. Look, before anything is sent again", k.N, prose.Cut(k.Tool, 100), errChanged)
}

func isInterruption(err error) bool {
	e := tool.AsError(err)
	return e != nil && e.Kind == interruptedKind
}
