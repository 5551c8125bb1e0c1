package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

// failedKind is the kind of a ToolError if the tool ran and reported failure. The kinds of package
// tool are for calls that could not be made.
const failedKind = "failed"

const (
	// maxPath is the maximum length of a tool path that is looked up, in bytes: requested paths are
	// recorded.
	maxPath = 1024
)

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
}

// startCall starts a call of the program. Its answer is sent to the guest when it arrives.
func (d *dialog) startCall(c *sandbox.GuestCall) error {
	c, asked := d.calls.simplify(c)
	n, path, now, err := d.calls.addCall(c, asked)
	switch {
	case err != nil:
		return err
	case now != nil && d.history.Told(c.ID):
		return nil
	case now != nil:
		return d.answerNow(c.ID, now)
	}
	if k := d.history.Call(c.ID); k != nil {
		if err := d.calls.restoreCall(n, c, path, k); err != nil {
			return err
		}
		if k.Known() {
			d.state.table.running.Go(func() {
				if !d.history.Told(c.ID) {
					d.sendAnswer(c.ID, k.Value, k.Failure)
				}
				d.state.releaseCall(0)
			})
			return nil
		}
	}
	turn := d.state.table.turns.Join() // joined here, in the order in which the program makes its calls
	d.state.table.running.Go(func() {
		value, failure := d.calls.makeCall(n, c, path, turn)
		size := len(value)
		d.sendAnswer(c.ID, value, failure)
		d.state.releaseCall(size)
	})
	return nil
}

// simplify returns a call in its plain form, in which it is authorized, recorded and made. It also
// returns the digest of the form that the program wrote, empty if both are the same. A call that is
// made again keeps the plain form that it had before.
func (cs *calls) simplify(c *sandbox.GuestCall) (_ *sandbox.GuestCall, asked string) {
	path := journal.PathOf(c)
	if k := cs.history.Known(c.ID); k != nil && k.Asked != "" {
		if k.Asked != tool.CallDigest(path, c.Args) {
			return c, "" // it diverged
		}
		return &sandbox.GuestCall{ID: c.ID, Path: k.Tool, Args: k.Arguments, Stack: c.Stack}, k.Asked
	}
	if cs.x.cfg.Plain == nil || len(path) > maxPath || strings.HasPrefix(path, tool.Own+".") {
		return c, ""
	}
	to, args := cs.x.cfg.Plain(cs.principal, path, c.Args)
	if to == path && bytes.Equal(args, c.Args) {
		return c, ""
	}
	return &sandbox.GuestCall{ID: c.ID, Path: to, Args: args, Stack: c.Stack}, tool.CallDigest(path, c.Args)
}

// addCall registers a call. It returns the call's index if it goes through the gateway, or else a
// function now that answers it. An error ends the program.
func (cs *calls) addCall(c *sandbox.GuestCall, asked string) (n int, path string, now func() (json.RawMessage, error), err error) {
	refuse := func(err *tool.Error) (int, string, func() (json.RawMessage, error), error) {
		return 0, path, func() (json.RawMessage, error) { return nil, err }, nil
	}
	path = journal.PathOf(c)
	if len(path) > maxPath || strings.ContainsFunc(path, unicode.IsControl) {
		return refuse(tool.Errorf(tool.NotFound, "no tool has the name %q: use search to find tools", prose.Cut(path, 80)))
	}
	switch path {
	case tool.ResultPath:
		return 0, path, func() (json.RawMessage, error) { return cs.results.readResult(c.Args) }, nil
	case tool.ExecutePath, tool.ResumePath:
		return refuse(tool.Errorf(tool.Invalid, "a program can't start or resume programs: call the tools directly"))
	}
	lim, refused := cs.x.cfg.Limits, 0
	cs.state.shift(func() {
		if n = len(cs.state.exec.Calls); n >= lim.Calls {
			cs.state.table.refused++
			refused = cs.state.table.refused
			return
		}
		cs.state.exec.Calls = append(cs.state.exec.Calls, execution.Call{Tool: path, Args: cs.short(c.Args), Pending: true, Begun: time.Now(), Note: cs.history.newEntry(n, c, path, asked)})
		cs.state.table.indexes[c.ID] = n
		cs.state.beginCall()
	})
	switch {
	case refused > maxRefused:
		return 0, path, nil, tool.Over(execution.CallsLimit, "the program went on calling tools after its limit of %s", prose.Count(lim.Calls, "call"))
	case refused > 0:
		return refuse(tool.Over(execution.CallsLimit, "this program has made %s, which is the limit for one: do the rest in another program", prose.Count(lim.Calls, "call")))
	}
	return n, path, nil, nil
}

// maxRefused is the number of calls over the limit after which the program is ended.
const maxRefused = 1000

// makeCall makes the n-th call of the program when its turn comes, and returns the outcome. The
// caller calls releaseCall after it has passed the outcome on.
func (cs *calls) makeCall(n int, c *sandbox.GuestCall, path string, turn chan struct{}) (json.RawMessage, *sandbox.GuestError) {
	var res *tool.Result
	var err error
	select {
	case <-turn:
		if err = cs.checkRunning(); err == nil {
			if k, err := cs.prior.Take(path, c.Args); k != nil || err != nil {
				cs.state.table.turns.Leave(turn)
				return cs.reuseCall(n, k, err)
			}
			res, err = cs.sendCall(n, path, c.Args)
			cs.state.addDoubt(path, c.Args, err)
		}
	case <-cs.over:
		err = errNotMade
	case <-cs.ctx.Done():
		err = errNotMade
	}
	cs.state.table.turns.Leave(turn)
	return cs.finishCall(n, path, res, err)
}

// finishCall records the outcome of the n-th call, and returns what the program receives of it.
func (cs *calls) finishCall(n int, path string, res *tool.Result, err error) (json.RawMessage, *sandbox.GuestError) {
	size := 0
	if res != nil {
		size = len(res.Raw)
	}
	unsent := err != nil && tool.AsError(err).Unsent && !errors.Is(err, errChanged)
	var blocks []journal.Block
	var value json.RawMessage
	cs.meter.doWork(size, func() { value, err = cs.readOutcome(res, err, &blocks) })
	cs.state.mu.Lock()
	if over := cs.state.table.addAnswer(path, value); over != nil {
		value, err = nil, over
	}
	var failure *sandbox.GuestError
	if err != nil {
		failure = guestError(err)
		failure.Upstream, failure.Tool, _ = strings.Cut(path, ".")
	}
	rec := &cs.state.exec.Calls[n]
	rec.Took = time.Since(rec.Begun)
	rec.Pending, rec.Unsent, rec.Bytes, rec.MS = false, unsent, size, rec.Took.Milliseconds()
	if failure != nil {
		rec.Error = failure.Message
	}
	if cs.plan.simulated(n) {
		rec.Unsent, rec.Error = true, execution.NotMade+"it is planned, and its answer was simulated"
	} else if unsent {
		rec.Error = execution.NotMade + strings.TrimPrefix(rec.Error, execution.NotMade)
	}
	if res != nil {
		cs.state.spared.addResult(res.Raw)
	}
	k := cs.history.completeEntry(rec, value, failure, blocks)
	cs.state.mu.Unlock()
	if unsent && k != nil {
		cs.plan.back(n, k.Arguments)
	}
	cs.history.Outcome(k)
	cs.state.notifyWatchers()
	return value, failure
}

// releaseCall ends a call whose answer of size bytes has been passed on.
func (s *state) releaseCall(size int) {
	s.shift(func() {
		s.table.removeAnswer(size)
		s.settleCall()
	})
}

// errNotMade is the error of a call that was still waiting for its turn when the program ended.
var errNotMade = &tool.Error{Kind: tool.Canceled, Msg: execution.NotMade + "the program ended before its turn came", Unsent: true}

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

// readOutcome returns the result of a call as seen by the program: a value or an error.
func (cs *calls) readOutcome(res *tool.Result, err error, blocks *[]journal.Block) (value json.RawMessage, _ error) {
	switch {
	case err != nil:
		return nil, err
	case res.IsError:
		return nil, &tool.Error{Kind: failedKind, Msg: values.ErrorText(res)}
	case len(res.Raw) > cs.x.cfg.Limits.Result:
		return nil, tool.Over(execution.ResultLimit, "the result is %s, more than a program can be given (%s): ask the tool for less",
			prose.Size(len(res.Raw)), prose.Size(cs.x.cfg.Limits.Result))
	}
	err = cs.guard("a result", func() error {
		value, err = values.Of(res, func(b values.Block, raw json.RawMessage) string {
			h := cs.results.keep("", b, raw)
			*blocks = append(*blocks, journal.Block{Handle: h, Raw: raw})
			return h
		})
		return err
	})
	return value, err
}

// addDoubt adds a note on the arguments of a call that was made, unless it is already noted.
func (s *state) addDoubt(path string, args json.RawMessage, err error) {
	if s.x.cfg.Doubt == nil || err != nil && tool.AsError(err).Unsent {
		return
	}
	note := s.x.cfg.Doubt(path, args)
	if note == "" {
		return
	}
	s.hideText(&note)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.addDoubt(note)
}

// hasNoted reports whether the check of the program's text already produced this note.
func (s *state) hasNoted(doubt string) bool {
	what, _, _ := strings.Cut(doubt, " is not declared")
	return s.program != nil && slices.ContainsFunc(s.program.Notes, func(n string) bool { return strings.HasPrefix(n, what+" is not declared") })
}

// sendCall makes the n-th call through the gateway. A panic there must not affect other programs.
func (cs *calls) sendCall(n int, path string, args json.RawMessage) (res *tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			cs.x.cfg.Log.Error("a call panicked", "execution", cs.id, "tool", path, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, tool.Errorf(tool.Internal, "the call failed inside biplane: whether it took effect is not known")
		}
	}()
	c := cs.newCall(n, path, args)
	if takeOver := cs.beforeWrite(n); takeOver != nil {
		c.By.Planner = takeOver
	}
	return cs.x.cfg.Door().Call(cs.ctx, c)
}

// describeProgram returns what all calls of the program have in common.
func (cs *calls) describeProgram() *tool.Program {
	return &tool.Program{Execution: cs.id, Digest: cs.digest, Language: cs.language, Session: cs.session,
		Tier: cs.state.exec.Tier}
}

// newCall returns the n-th call as it is passed to the gateway.
func (cs *calls) newCall(n int, path string, args json.RawMessage) *tool.Call {
	id := callID(cs.id, n+1)
	by := cs.describeProgram()
	by.Again = cs.history.earlierRecord(id)
	return &tool.Call{ID: id, Path: path, Arguments: args, Principal: cs.principal, By: by,
		Labels: cs.taint.labels.All(), Observer: callObserver{calls: cs, n: n}}
}

// setReport stores the progress reported by the tool of the n-th call.
func (s *state) setReport(n int, p tool.Progress) {
	s.hideText(&p.Message)
	text := reportText(p)
	s.mu.Lock()
	s.exec.Calls[n].Report = text
	s.mu.Unlock()
}

func guestError(err error) *sandbox.GuestError {
	e := tool.AsError(err)
	return &sandbox.GuestError{Kind: string(e.Kind), Message: prose.Cut(execution.GuestText(e), values.MaxErrorText)}
}

// errUnread is the error for a program that requests more than it reads.
var errUnread = tool.Over(execution.FanOutLimit, "%s are waiting to be read by the program already: await each part before asking for the next", prose.Size(stream.MaxMade))

// answerNow answers a call that needs no waiting.
func (d *dialog) answerNow(id int64, f func() (json.RawMessage, error)) error {
	var v json.RawMessage
	err := error(errUnread)
	if !d.stream.Full() { // the goroutine that reads the guest's messages can't wait for the guest to read
		v, err = f()
	}
	if err != nil {
		return d.sendMessage(&sandbox.Answer{ID: id, Error: ownError(err)}, false, false)
	}
	return d.sendMessage(&sandbox.Answer{ID: id, Value: v}, false, false)
}

// sendAnswer sends an answer to the guest. If the guest is gone, the answer is kept only if its
// session continues.
func (d *dialog) sendAnswer(id int64, value json.RawMessage, failure *sandbox.GuestError) {
	a := &sandbox.Answer{ID: id, Value: value, Error: failure}
	err := d.sendMessage(a, true, true)
	if err != nil && d.session != "" {
		d.history.keepLate(a)
	}
	if err != nil {
		d.x.cfg.Log.Debug("answer to a guest", "execution", d.id, "error", err)
	}
}

// sendMessage sends an answer. made reports whether it is the outcome of a call that was made.
func (d *dialog) sendMessage(a *sandbox.Answer, made, wait bool) error {
	what := about{at: d.now()}
	if made {
		what.call = a.ID
	}
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: what.at})
	if err != nil {
		return err
	}
	d.state.mu.Lock()
	d.state.suspension.active = time.Now()
	d.state.mu.Unlock()
	return d.stream.Send(line, what, wait)
}

// keep stores a content block for emit and readResult, and returns its handle: the given one, or a
// new one if handle is empty.
func (s *results) keep(handle string, b values.Block, raw json.RawMessage) string {
	l := &leftover{handle: handle, principal: s.principal.ID, session: s.session, labels: s.taint.labels.All(), block: raw, data: b.Data}
	if b.Resource != nil {
		if l.data = b.Resource.Blob; b.Resource.Text != nil {
			l.data, l.text = *b.Resource.Text, true
		}
	}
	return s.x.left.keep(l)
}

// keepAgain stores content blocks under their previous handles.
func (s *results) keepAgain(blocks []journal.Block) {
	for _, b := range blocks {
		var content values.Block
		if json.Unmarshal(b.Raw, &content) == nil {
			s.keep(b.Handle, content, b.Raw)
		}
	}
}

// maxShort is the number of bytes of a call's arguments that an error text shows.
const maxShort = 160

func short(args json.RawMessage) string {
	if len(args) == 0 {
		return "{}"
	}
	return prose.Cut(string(args), maxShort)
}
