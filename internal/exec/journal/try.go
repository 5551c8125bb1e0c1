package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Trial runs another program against the calls of a journal. A call with the same tool and
// arguments has the recorded outcome, at whatever place the program makes it. Each recorded call
// answers once, in order. Calls that are not among them are the host's; the first one that it
// refuses ends the trial.
type Trial struct {
	Run  *sandbox.Run // the program, with the journal's Seed
	Host TrialHost
	// Eager answers each call immediately, and fires timers when nothing else is pending. Otherwise
	// answers and timers arrive in the order of their recorded durations. That requires a language
	// whose guests never block on a line.
	Eager bool
	CPU   time.Duration // CPU time limit
}

// A TrialHost is what the program of a Trial finds beside the journal.
type TrialHost interface {
	// AnswerFile answers a file operation.
	AnswerFile(*sandbox.File) *sandbox.Answer
	// PlainForm returns the plain form of a call.
	PlainForm(*sandbox.GuestCall) (path string, args json.RawMessage)
	// MakeCall makes a call that is not recorded, and sets its outcome. An error means that the
	// call was not made, and why.
	MakeCall(ctx context.Context, c *Call) error
}

// Try runs a program against the journal. It touches nothing outside, and its clock is that of the
// journal.
func (s *History) Try(ctx context.Context, box sandbox.Sandbox, t Trial) (*Played, error) {
	_, at := s.Run()
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &trial{Trial: t, ctx: run, recorded: s.byDigest(), at: at, used: map[*Call]bool{}, stop: stop}
	p.ready.L = &p.mu
	defer context.AfterFunc(run, p.wake)()
	first, err := tool.Marshal(sandbox.HostMessage{Run: t.Run, At: at})
	if err != nil {
		return nil, err
	}
	p.lines = append(first, '\n')
	for left := t.CPU; ; {
		cmd := &sandbox.Cmd{Guest: p, Keep: true, Ask: p.ask, CPU: left}
		_, err = box.Run(run, cmd)
		if left -= cmd.Usage.CPU; err == nil && left <= 0 {
			err = tool.Errorf(tool.Limit, "the program took more than %v of CPU time", t.CPU)
		}
		if err != nil || !p.next() {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.Err = err; errors.Is(context.Cause(run), errOver) {
		p.out.Err = nil
	}
	return &p.out, nil
}

// Left returns the calls of the journal that answered none of the program of a Try.
func (s *History) Left(p *Played) (out []*Call) {
	used := map[int]bool{}
	for i := range p.Calls {
		used[p.Calls[i].Replay.Recorded] = true
	}
	for _, c := range s.Calls {
		if !used[c.N] && c.ID != PlanCall {
			out = append(out, c)
		}
	}
	return out
}

// byDigest returns the calls whose outcome is known, in order, by each digest that they have.
func (s *History) byDigest() map[string][]*Call {
	out := map[string][]*Call{}
	for _, k := range s.Calls {
		if !k.Known() {
			continue
		}
		out[k.Digest] = append(out[k.Digest], k)
		if k.Asked != "" && k.Asked != k.Digest {
			out[k.Asked] = append(out[k.Asked], k)
		}
	}
	return out
}

// The maximum number of lines that a program may send in a Try, and of timers that it may wait for.
// Without these limits an endless loop would never end, because no time passes.
const (
	maxMessages = 200_000
	maxTimers   = 20_000
)

// An event is a line that is yet to be sent to the guest.
type event struct {
	at    int64 // due time, in milliseconds since 1970
	timer bool
	a     *sandbox.Answer
}

// A trial is the host's end of the guest stream of a Try.
type trial struct {
	Trial
	ctx      context.Context
	recorded map[string][]*Call // calls with an outcome, by digest
	stop     context.CancelCauseFunc

	mu      sync.Mutex
	ready   sync.Cond
	lines   []byte
	part    []byte
	at      int64 // lower bound of the guest's clock
	pending []event
	used    map[*Call]bool
	over    bool
	out     Played

	messages, timers int
}

func (p *trial) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.ready.Broadcast()
}

// Read returns lines. When none are left, it waits if Eager is set, and otherwise returns io.EOF.
func (p *trial) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.Eager && len(p.lines) == 0 && !p.over {
		p.ready.Wait()
	}
	return readBuffer(&p.lines, b)
}

// Write receives output of the guest.
func (p *trial) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = eachLine(p.part, b, p.line)
	if p.Eager {
		for p.nextLine() {
		}
		p.ready.Broadcast()
	}
	return len(b), nil
}

// next adds the line of the next event, and reports whether there was one.
func (p *trial) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.over && p.nextLine()
}

// nextLine adds the line of the next event, and reports whether there was one. p.mu is held.
func (p *trial) nextLine() bool {
	if len(p.pending) == 0 {
		return false
	}
	i := 0
	for k, e := range p.pending {
		if p.Eager && p.pending[i].timer && !e.timer ||
			e.at < p.pending[i].at && !(p.Eager && e.timer && !p.pending[i].timer) {
			i = k
		}
	}
	e := p.pending[i]
	p.pending = slices.Delete(p.pending, i, i+1)
	p.at = max(p.at, e.at)
	m := sandbox.HostMessage{At: p.at, Answer: e.a}
	if e.timer {
		p.timers++
		m.Wake = &sandbox.Wake{}
	}
	line, err := tool.Marshal(m)
	if err != nil {
		return false
	}
	p.lines = append(append(p.lines, line...), '\n')
	return true
}

func (p *trial) line(text []byte) {
	var m sandbox.GuestMessage
	if p.messages++; (p.messages > maxMessages || p.timers > maxTimers) && !p.over {
		p.over = true
		p.out.Differs = "its output exceeded the limit, and it did not complete"
		p.stop(errOver)
	}
	if p.over || json.Unmarshal(text, &m) != nil {
		return
	}
	switch {
	case m.Done != nil, m.Fail != nil:
		p.out.End, p.over = &m, true
		p.stop(errOver)
	case m.Console != nil:
		p.out.addLine(m.Console)
	case m.Timer != nil:
		p.pending = slices.DeleteFunc(p.pending, func(e event) bool { return e.timer })
		if m.Timer.MS >= 0 {
			p.pending = append(p.pending, event{at: p.at + int64(m.Timer.MS), timer: true})
		}
	case m.File != nil:
		p.pending = append(p.pending, event{at: p.at, a: p.Host.AnswerFile(m.File)})
	case m.Call != nil:
		if a, took := p.call(m.Call); a != nil {
			p.pending = append(p.pending, event{at: p.at + took, a: a})
		}
	}
}

func (p *trial) ask(_ context.Context, question []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var m sandbox.GuestMessage
	if p.over || json.Unmarshal(question, &m) != nil {
		return nil
	}
	a := &sandbox.Answer{}
	switch {
	case m.File != nil:
		a = p.Host.AnswerFile(m.File)
	case m.Sleep != nil:
		p.at += int64(m.Sleep.MS)
	case m.Call != nil:
		var took int64
		if a, took = p.call(m.Call); a == nil {
			return nil
		}
		p.at += took
	}
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: p.at})
	if err != nil {
		return nil
	}
	return line
}

// call returns the answer to a call and its duration in milliseconds, or nil if it ends the trial.
func (p *trial) call(c *sandbox.GuestCall) (*sandbox.Answer, int64) {
	path, args := p.Host.PlainForm(c)
	here := Call{N: len(p.out.Calls) + 1, ID: c.ID, Tool: path, Arguments: args, Digest: tool.CallDigest(path, args)}
	at := InReplay{Stack: c.Stack, Lines: p.out.lines}
	if k := p.takeAnswer(here.Digest); k != nil {
		n := here.N
		here, at.Recorded = *k, k.N
		here.N, here.ID, here.Replay = n, c.ID, at
		p.out.Calls = append(p.out.Calls, here)
		took := k.MS
		if !k.at.IsZero() && !k.Sent.IsZero() {
			took = k.at.Sub(k.Sent).Milliseconds()
		}
		return &sandbox.Answer{ID: c.ID, Value: k.Value, Error: k.Failure}, max(took, 0)
	}
	err := p.Host.MakeCall(p.ctx, &here)
	at.Live = err == nil
	here.Replay = at
	p.out.Calls = append(p.out.Calls, here)
	if err == nil {
		return &sandbox.Answer{ID: c.ID, Value: here.Value, Error: here.Failure}, max(here.MS, 0)
	}
	p.out.Differs = fmt.Sprintf("call %d, %s, is not among the calls of the execution", here.N, brief(&here))
	if !errors.Is(err, ErrOffline) {
		p.out.Differs += ", and was not made: " + tool.AsError(err).Msg
	}
	p.over = true
	p.stop(errOver)
	return nil, 0
}

// takeAnswer returns the next recorded call with a digest, or nil if there is none. It answers no
// other call.
func (p *trial) takeAnswer(digest string) *Call {
	all := p.recorded[digest]
	for len(all) > 0 && p.used[all[0]] {
		all = all[1:]
	}
	if p.recorded[digest] = all; len(all) == 0 {
		return nil
	}
	p.used[all[0]] = true
	return all[0]
}

// ErrOffline is the error of a TrialHost that makes no calls.
var ErrOffline = errors.New("no calls are made in a replay")

// PathOf returns the path of a call as named by the program.
func PathOf(c *sandbox.GuestCall) string { return strings.TrimPrefix(c.Path, "tools.") }

// brief returns a one-line description of a call.
func brief(c *Call) string {
	const most = 160
	args := string(c.Arguments)
	if args == "" {
		args = "{}"
	}
	if len(args) > most {
		args = strings.ToValidUTF8(args[:most], "") + "…"
	}
	return c.Tool + " " + args
}

// readBuffer moves bytes from a buffer to b.
func readBuffer(from *[]byte, b []byte) (int, error) {
	if len(*from) == 0 {
		return 0, io.EOF
	}
	n := copy(b, *from)
	*from = (*from)[n:]
	return n, nil
}

// eachLine calls f with each complete line of part and b, and returns the rest.
func eachLine(part, b []byte, f func([]byte)) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return append(part, b...)
		}
		f(append(part, b[:i]...))
		part, b = nil, b[i+1:]
	}
}
