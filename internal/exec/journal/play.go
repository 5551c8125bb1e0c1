package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/biplane-dev/biplane/internal/tool"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A Played is the behavior of a guest that was replayed from a journal.
type Played struct {
	Calls   []Call // in the order in which the program made them, with their outcomes
	Console []sandbox.Console
	End     *sandbox.GuestMessage        // Done or Fail; nil: it did not end
	Files   map[string][]*sandbox.Answer // answers to its file operations, by FileKey, in order
	Said    string                       // digest of its output (OutputDigest)
	Stopped bool                         // it was stopped at the requested call, the last of Calls
	Differs string                       // where it first differed from the journal; empty: nowhere
	Err     error                        // why the sandbox ended it; nil if it did not

	lines int // of Console, without notes
}

// addLine adds a line of the program's console, or a note.
func (p *Played) addLine(c *sandbox.Console) {
	p.Console = append(p.Console, *c)
	if c.Level != sandbox.NoteLevel {
		p.lines++
	}
}

// errOver ends a guest that is no longer needed.
var errOver = errors.New("no more output is needed from the guest")

// Play replays the journal to a guest in box, which must be in the state that the program started
// from. It stops at the program's until-th call (from 1), or at its end if until is 0. The same
// build of the engine does exactly the same again, to the last byte. The only errors are those of
// ctx.
func (s *History) Play(ctx context.Context, box sandbox.Sandbox, until int) (*Played, error) {
	p := &player{story: s, until: until, voice: NewOutputDigest(), byCall: map[int64][]byte{},
		out: Played{Files: map[string][]*sandbox.Answer{}}}
	for _, h := range s.Inputs {
		if h.Question {
			p.answers = append(p.answers, h.Text)
			continue
		}
		p.lines = append(append(p.lines, h.Text...), '\n')
		p.byCall[h.Answers] = h.Text
	}
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.stop = stop
	_, err := box.Run(run, &sandbox.Cmd{Guest: p, Keep: true, Ask: p.ask})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.Err = err; errors.Is(context.Cause(run), errOver) {
		p.out.Err = nil
	}
	p.out.Said = p.voice.Sum()
	return &p.out, nil
}

// A player is the host's end of the guest stream during a replay.
type player struct {
	story  *History
	until  int
	lines  []byte // used by Read only
	stop   context.CancelCauseFunc
	byCall map[int64][]byte // lines, by the ID that they answer

	mu      sync.Mutex // guards the following, which the stream and questions share
	part    []byte
	answers [][]byte
	over    bool
	voice   *OutputDigest
	out     Played
}

// Read returns the lines, then io.EOF.
func (p *player) Read(b []byte) (int, error) { return readBuffer(&p.lines, b) }

// Write receives output of the guest.
func (p *player) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = eachLine(p.part, b, p.line)
	return len(b), nil
}

func (p *player) line(text []byte) {
	var m sandbox.GuestMessage
	if p.over || json.Unmarshal(text, &m) != nil {
		return
	}
	last := m.Done != nil || m.Fail != nil
	p.voice.Line(text, last)
	switch {
	case last:
		p.out.End, p.over = &m, true
		p.stop(errOver)
	case m.Console != nil:
		p.out.addLine(m.Console)
	case m.File != nil:
		p.file(m.File, p.byCall[m.File.ID])
	case m.Call != nil:
		p.call(m.Call)
	}
}

// FileKey returns a key that identifies a file operation by everything in it except the ID.
func FileKey(f sandbox.File) string {
	f.ID = 0
	key, err := json.Marshal(f)
	if err != nil {
		return "" // can't happen: every field can be encoded
	}
	return string(key)
}

func (p *player) file(f *sandbox.File, answer []byte) {
	var m sandbox.HostMessage
	if answer != nil && json.Unmarshal(answer, &m) == nil && m.Answer != nil {
		key := FileKey(*f)
		p.out.Files[key] = append(p.out.Files[key], m.Answer)
	}
}

func (p *player) ask(_ context.Context, question []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var m sandbox.GuestMessage
	if p.over || json.Unmarshal(question, &m) != nil {
		return nil
	}
	p.voice.Question(question)
	if m.Call != nil {
		p.call(m.Call)
	}
	if p.over || len(p.answers) == 0 {
		p.over = true // the journal ends here
		p.stop(errOver)
		return nil
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	if m.File != nil {
		p.file(m.File, a)
	}
	return a
}

// call handles a call that the guest repeats.
func (p *player) call(c *sandbox.GuestCall) {
	path := PathOf(c)
	k := p.story.Call(c.ID)
	if k == nil && p.byCall[c.ID] != nil {
		return // it was answered without being made, because there were too many calls
	}
	here := Call{N: len(p.out.Calls) + 1, ID: c.ID, Tool: path, Arguments: c.Args,
		Digest: tool.CallDigest(path, c.Args)}
	switch {
	case k != nil && k.Is(here.Digest):
		n := here.N
		here = *k
		here.N, here.Replay.Recorded = n, k.N
	case k != nil && p.out.Differs == "":
		p.out.Differs = fmt.Sprintf("call %d is %s, and was %s", here.N, brief(&here), brief(k))
	}
	here.Replay.Stack, here.Replay.Lines = c.Stack, p.out.lines
	p.out.Calls = append(p.out.Calls, here)
	if here.N == p.until {
		p.out.Stopped, p.over = true, true
		p.stop(errOver)
	}
}
