package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// This file has the path of a program's call, in order: startCall, registerCall, makeCall, sendCall
// (to the gateway and back), finishCall and sendAnswer. What the gateway asks on the way is in
// observer.go and plan.go, calls that have an outcome already in recall.go, and calls on which the
// guest blocks in dialog.go.

// A calls makes the calls of a program: each is registered in the state, waits for its turn, is
// written to the journal, and passes through the gateway.
type calls struct {
	*env
	state   *state
	history *history
	results *results
	taint   *taint
	meter   *meter
	prior   *journal.Prior // results of the execution that it corrects; nil: none
	over    chan struct{}  // closed when the program has ended: no more calls are started
	spared  *savings
	turns   *queue.Turns   // of the calls that may run concurrently
	running sync.WaitGroup // the calls under way
}

// startCall starts a call of the program. Its answer is sent to the guest when it arrives.
func (d *dialog) startCall(c *sandbox.GuestCall) error {
	p, err := d.calls.registerCall(c)
	switch {
	case err != nil:
		return err
	case p.local && d.history.IsAnswered(c.ID):
		return nil
	case p.local:
		return d.answerNow(p)
	case p.recorded != nil:
		d.calls.running.Go(func() {
			if !d.history.IsAnswered(c.ID) {
				_ = d.sendAnswer(&sandbox.Answer{ID: c.ID, Value: p.recorded.Value, Error: p.recorded.Failure}, true)
			}
			d.state.releaseCall(0)
		})
		return nil
	}
	turn := d.calls.turns.Join() // here, as turns come in the order in which the program makes its calls
	d.calls.running.Go(func() {
		value, failure := d.calls.makeCall(p, turn)
		_ = d.sendAnswer(&sandbox.Answer{ID: c.ID, Value: value, Error: failure}, true)
		d.state.releaseCall(len(value))
	})
	return nil
}

// A programCall is a call of the program, in its plain form.
type programCall struct {
	*sandbox.GuestCall
	path     string
	n        int           // its index, unless local is set
	local    bool          // it is answered here, and doesn't go through the gateway
	refusal  error         // why a local call is refused; nil: it isn't
	recorded *journal.Call // the call and its outcome from before this process; nil: it has none
}

// registerCall registers a call of the program. An error ends the program.
func (cs *calls) registerCall(c *sandbox.GuestCall) (*programCall, error) {
	c, asked := cs.simplify(c)
	p := &programCall{GuestCall: c, path: journal.PathOf(c)}
	if p.local, p.refusal = checkLocal(p.path); p.local {
		return p, nil
	}
	most := cs.x.cfg.Limits.Calls
	n, refused := cs.state.addCall(c, p.path, asked, most)
	switch {
	case refused > maxRefused:
		return nil, tool.Over(execution.CallsLimit, "the program went on calling tools after its limit of %s",
			text.Count(most, "call"))
	case refused > 0:
		p.local, p.refusal = true, tool.Over(execution.CallsLimit,
			"this program has made %s, which is the limit for one: do the rest in another program",
			text.Count(most, "call"))
		return p, nil
	}
	p.n = n
	k := cs.history.Call(c.ID)
	if k == nil {
		return p, nil
	}
	if k.Known() {
		p.recorded = k
	}
	return p, cs.restoreCall(p, k)
}

// simplify returns a call in its plain form, in which it is authorized, recorded and made. It also
// returns the digest of the form that the program wrote, empty if both are the same. A call that is
// made again keeps its previous plain form.
func (cs *calls) simplify(c *sandbox.GuestCall) (_ *sandbox.GuestCall, asked string) {
	path := journal.PathOf(c)
	if len(c.Flags) > 0 && len(path) <= maxPath {
		c = &sandbox.GuestCall{ID: c.ID, Path: c.Path, Stack: c.Stack, Args: cs.argumentsOf(c)}
	}
	if k := cs.history.Known(c.ID); k != nil && k.Asked != "" {
		if k.Asked != tool.CallDigest(path, c.Args) {
			return c, "" // it diverged
		}
		return &sandbox.GuestCall{ID: c.ID, Path: k.Tool, Args: k.Arguments, Stack: c.Stack}, k.Asked
	}
	to, args := cs.plainForm(path, c.Args)
	if to == path && bytes.Equal(args, c.Args) {
		return c, ""
	}
	return &sandbox.GuestCall{ID: c.ID, Path: to, Args: args, Stack: c.Stack}, tool.CallDigest(path, c.Args)
}

// argumentsOf returns the arguments of a call, with its flags.
func (v *env) argumentsOf(c *sandbox.GuestCall) json.RawMessage {
	path := journal.PathOf(c)
	if len(c.Flags) == 0 || len(path) > maxPath {
		return c.Args
	}
	return v.x.cfg.Tools.AddFlags(v.principal, path, c.Args, c.Flags)
}

// plainForm returns the plain form of a call: the path and arguments of the tool that the program
// means. Biplane's own tools have no other form.
func (v *env) plainForm(path string, args json.RawMessage) (string, json.RawMessage) {
	if len(path) > maxPath || strings.HasPrefix(path, tool.Own+".") {
		return path, args
	}
	return v.x.cfg.Tools.PlainForm(v.principal, path, args)
}

// checkLocal reports whether calls of a path are answered here, and why they are refused if they
// are.
func checkLocal(path string) (local bool, refusal error) {
	if len(path) > maxPath || strings.ContainsFunc(path, unicode.IsControl) {
		return true, tool.Errorf(tool.NotFound, "no tool has the name %q: use search to find tools", text.Cut(path, 80))
	}
	switch path {
	case tool.ResultPath:
		return true, nil
	case tool.ExecutePath, tool.ResumePath:
		return true, tool.Errorf(tool.Invalid, "a program can't start or resume programs: call the tools directly")
	}
	return false, nil
}

// addCall registers a call of the program, and returns its index. If the program has made most
// calls already, it returns how many were refused.
func (s *state) addCall(c *sandbox.GuestCall, path, asked string, most int) (n, refused int) {
	s.shift(func() {
		if n = len(s.exec.Calls); n >= most {
			refused = s.table.refuseCall()
			return
		}
		s.exec.Calls = append(s.exec.Calls, execution.Call{Tool: path, Args: s.short(c.Args), Pending: true,
			Begun: time.Now(), Note: s.history.newEntry(n, c, path, asked)})
		s.table.indexes[c.ID] = n
		s.beginCall()
	})
	return n, refused
}

// beginCall counts an outstanding call, and stops the program's own clock. It is called by shift.
func (s *state) beginCall() {
	s.table.outstanding++
	s.suspension.watchCalls()
	s.clock.pauseTiming()
}

// newEntry returns a new journal entry for the n-th call.
func (h *history) newEntry(n int, c *sandbox.GuestCall, path, asked string) *journal.Call {
	if h.Log == nil {
		return nil
	}
	return &journal.Call{N: n + 1, ID: c.ID, Tool: path, Arguments: c.Args, Asked: asked}
}

// makeCall makes a call of the program when its turn comes, and returns the outcome. It runs on a
// goroutine of its own. The caller calls releaseCall after it has passed the outcome on.
func (cs *calls) makeCall(p *programCall, turn chan struct{}) (json.RawMessage, *sandbox.GuestError) {
	stack.Grow()
	var res *tool.Result
	var err error
	select {
	case <-turn:
		if err = cs.checkRunning(); err == nil {
			if k, err := cs.prior.Take(p.path, p.Args); k != nil || err != nil {
				cs.turns.Leave(turn)
				return cs.reuseCall(p.n, k, err)
			}
			res, err = cs.sendCall(p)
			cs.state.addDoubt(p.path, p.Args, err)
		}
	case <-cs.over:
		err = errNotMade
	case <-cs.ctx.Done():
		err = errNotMade
	}
	cs.turns.Leave(turn)
	return cs.finishCall(p.n, p.path, res, err)
}

// checkRunning returns an error if the program has ended before the turn of a call came: no one
// would receive its result.
func (cs *calls) checkRunning() error {
	select {
	case <-cs.over:
		return errNotMade
	default:
		return nil
	}
}

// sendCall makes a call through the gateway. A panic there must not affect other programs.
func (cs *calls) sendCall(p *programCall) (res *tool.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			cs.x.cfg.Log.Error("a call panicked", "execution", cs.id, "tool", p.path, "panic", v, "stack",
				string(debug.Stack()))
			res, err = nil, tool.Errorf(tool.Internal,
				"the call failed inside biplane: whether it took effect is not known")
		}
	}()
	c := cs.newCall(p.n, p.path, p.Args)
	if cs.plan != nil {
		c.By.Planner = callPlanner{calls: cs, n: p.n}
	}
	return cs.x.cfg.Door.Call(cs.ctx, c)
}

// newCall returns the n-th call as it is passed to the gateway.
func (cs *calls) newCall(n int, path string, args json.RawMessage) *tool.Call {
	id := callID(cs.id, n+1)
	by := cs.describeProgram()
	by.Again = cs.history.earlierRecord(id)
	return &tool.Call{ID: id, Path: path, Arguments: args, Principal: cs.principal, By: by,
		Labels: cs.taint.labels.All(), Observer: callObserver{calls: cs, n: n}}
}

// describeProgram returns the fields that all calls of the program share.
func (cs *calls) describeProgram() *tool.Program {
	now := cs.state.current()
	by := &tool.Program{Execution: cs.id, Digest: cs.digest, Language: cs.language, Session: cs.session,
		Tier: now.tier, Findings: now.findings}
	if cs.function != nil {
		by.Serving = &cs.function.Serving
		if cs.function.ReadOnly {
			by.Planner = refuseWrites{cs.function.Serving.Tools}
		}
	}
	return by
}

// finishCall records the outcome of the n-th call, and returns the value or error for the program.
func (cs *calls) finishCall(n int, path string, res *tool.Result, err error) (json.RawMessage, *sandbox.GuestError) {
	size := 0
	if res != nil {
		size = len(res.Raw)
	}
	unsent := err != nil && tool.AsError(err).Unsent && !errors.Is(err, errChanged)
	var blocks []journal.Block
	var value json.RawMessage
	cs.meter.doWork(size, func() { value, err = cs.readOutcome(path, res, err, &blocks) })
	if over := cs.state.addAnswer(path, value); over != nil {
		value, err = nil, over
	}
	o := callOutcome{value: value, blocks: blocks, bytes: size, unsent: unsent}
	if err != nil {
		o.failure = guestError(err)
		o.failure.Upstream, o.failure.Tool, _ = strings.Cut(path, ".")
		o.err = o.failure.Message
		if res != nil && res.IsError {
			o.failure.Data = values.ErrorData(res)
		}
	}
	if cs.plan.isSimulated(n) {
		o.unsent, o.err = true, execution.NotMade+"it is planned, and its answer was simulated"
	} else if unsent {
		o.err = execution.NotMade + strings.TrimPrefix(o.err, execution.NotMade)
	}
	if res != nil {
		cs.spared.addResult(res.Raw)
	}
	k := cs.state.endCall(n, &o)
	if unsent && k != nil {
		cs.plan.returnCall(n, k.Arguments)
	}
	cs.history.Outcome(k)
	cs.state.watchers.notifyAll()
	return value, o.failure
}

// readOutcome returns the result of a call as seen by the program: a value or an error.
func (cs *calls) readOutcome(path string, res *tool.Result, err error,
	blocks *[]journal.Block) (value json.RawMessage, failure error) {
	defer cs.recoverPanic("a result", &failure)
	switch {
	case err != nil:
		return nil, err
	case res.IsError:
		return nil, &tool.Error{Kind: failedKind, Msg: values.ErrorText(res)}
	case len(res.Raw) > cs.x.cfg.Limits.Result:
		return nil, tool.Over(execution.ResultLimit,
			"the result is %s, more than a program can be given (%s): ask the tool for less",
			text.Size(len(res.Raw)), text.Size(cs.x.cfg.Limits.Result))
	}
	keep := func(b values.Block, raw json.RawMessage) string {
		h := cs.results.keep("", b, raw)
		*blocks = append(*blocks, journal.Block{Handle: h, Raw: raw})
		return h
	}
	return values.Of(tool.MethodIn(path), res, keep)
}

// addAnswer counts the value of a tool's call until releaseCall is called. It returns an error if
// the program would have too much to read.
func (s *state) addAnswer(path string, value json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.addAnswer(path, value)
}

// A callOutcome is the outcome of a call.
type callOutcome struct {
	value   json.RawMessage
	failure *sandbox.GuestError
	blocks  []journal.Block // that the value refers to
	bytes   int             // size of the result
	err     string          // for the report; empty: none
	unsent  bool            // it certainly had no effect
	from    string          // ID of the execution whose journal has its result; empty: it was made
}

// endCall records how the n-th call ended. It returns the call's journal entry, nil if there is no
// journal.
func (s *state) endCall(n int, o *callOutcome) *journal.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := &s.exec.Calls[n]
	rec.Took = time.Since(rec.Begun)
	rec.Pending, rec.Unsent, rec.Bytes, rec.MS = false, o.unsent, o.bytes, rec.Took.Milliseconds()
	rec.Error, rec.From = o.err, o.from
	if o.from != "" { // otherwise addAnswer has counted it
		s.table.unread += len(o.value)
	}
	return s.history.completeEntry(rec, o.value, o.failure, o.blocks)
}

// completeEntry returns the journal entry for a call that has ended, before the program receives
// the outcome. The caller owns rec.
func (h *history) completeEntry(rec *execution.Call, value json.RawMessage, failure *sandbox.GuestError,
	blocks []journal.Block) *journal.Call {
	k := rec.Note
	if k == nil {
		return nil
	}
	if k.Digest == "" {
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
	}
	k.Value, k.Failure, k.Blocks, k.Unsent = value, failure, blocks, rec.Unsent
	k.MS, k.Bytes, k.Error, k.From, k.Ended = rec.MS, rec.Bytes, rec.Error, rec.From, h.x.cfg.Clock.Now()
	if failure != nil {
		k.Kind = failure.Kind
	}
	out := *k
	k.Value, k.Failure, k.Blocks = nil, nil, nil // the journal has them
	return &out
}

// sendAnswer sends an answer to the guest. If it is the outcome of a call that was made, it waits
// while the guest has much to read, logs an error, and keeps the answer for the next program of the
// session if the guest is gone.
func (d *dialog) sendAnswer(a *sandbox.Answer, made bool) error {
	what := about{at: d.now()}
	if made {
		what.call = a.ID
	}
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: what.at})
	if err == nil {
		d.pauses.markActive()
		err = d.stream.Send(line, what, made)
	}
	if err != nil && made {
		d.x.cfg.Log.Debug("answer not sent to the guest", "execution", d.id, "error", err)
		if d.session != "" {
			d.history.keepLate(a)
		}
	}
	return err
}

// releaseCall ends a call whose answer of size bytes has been passed on.
func (s *state) releaseCall(size int) {
	s.shift(func() {
		s.table.removeAnswer(size)
		s.settleCall()
	})
}

// settleCall records that a call was answered. It is called by shift.
func (s *state) settleCall() {
	if s.table.endCall() && s.end == nil {
		s.clock.resumeTiming()
	}
}

// answerLocally returns the result of a local call.
func (cs *calls) answerLocally(p *programCall) (json.RawMessage, error) {
	if p.refusal != nil {
		return nil, p.refusal
	}
	return cs.results.readResult(p.Args)
}

// answerNow answers a local call.
func (d *dialog) answerNow(p *programCall) error {
	var v json.RawMessage
	err := error(errUnread)
	if !d.stream.Full() { // the goroutine that reads the guest's messages can't wait for the guest to read
		v, err = d.calls.answerLocally(p)
	}
	if err != nil {
		return d.sendAnswer(&sandbox.Answer{ID: p.ID, Error: ownError(err)}, false)
	}
	return d.sendAnswer(&sandbox.Answer{ID: p.ID, Value: v}, false)
}

// failedKind is the kind of a ToolError if the tool ran and reported failure. The kinds of package
// tool are for calls that could not be made.
const failedKind = "failed"

// maxPath is the maximum length of a tool path that is looked up, in bytes: requested paths are
// recorded.
const maxPath = 1024

// maxRefused is the number of calls over the limit after which the program is ended.
const maxRefused = 1000

// errNotMade is the error of a call that was still waiting for its turn when the program ended.
var errNotMade = &tool.Error{Kind: tool.Canceled, Msg: execution.NotMade + "the program ended before its turn came",
	Unsent: true}

func guestError(err error) *sandbox.GuestError {
	e := tool.AsError(err)
	return &sandbox.GuestError{Kind: string(e.Kind), Message: text.Cut(execution.GuestText(e), values.MaxErrorText)}
}

// errUnread is the error for a program that requests more than it reads.
var errUnread = tool.Over(execution.FanOutLimit,
	"%s are waiting to be read by the program already: await each part before asking for the next",
	text.Size(stream.MaxBuffered))

// maxShort is the number of bytes of a call's arguments that an error text shows.
const maxShort = 160

func short(args json.RawMessage) string {
	if len(args) == 0 {
		return "{}"
	}
	return text.Cut(string(args), maxShort)
}

// addDoubt adds a note on the arguments of a call that was made, unless it is already noted.
func (s *state) addDoubt(path string, args json.RawMessage, err error) {
	if err != nil && tool.AsError(err).Unsent {
		return
	}
	note := s.x.cfg.Tools.DescribeDoubt(path, args)
	if note == "" {
		return
	}
	s.hideText(&note)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.addDoubt(note)
}
