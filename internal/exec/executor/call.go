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

// call starts a call of the program. Its answer is sent to the guest when it arrives.
func (r *run) call(c *sandbox.GuestCall) error {
	c, asked := r.plain(c)
	n, path, now, err := r.admit(c, asked)
	switch {
	case err != nil:
		return err
	case now != nil && r.history.Told(c.ID):
		return nil
	case now != nil:
		return r.answerNow(c.ID, now)
	}
	if k := r.history.Call(c.ID); k != nil {
		if err := r.restore(n, c, path, k); err != nil {
			return err
		}
		if k.Known() {
			r.state.table.running.Go(func() {
				if !r.history.Told(c.ID) {
					r.answer(c.ID, k.Value, k.Failure)
				}
				r.state.releaseCall(0)
			})
			return nil
		}
	}
	turn := r.state.table.turns.Join() // joined here, in the order in which the program makes its calls
	r.state.table.running.Go(func() {
		value, failure := r.made(n, c, path, turn)
		size := len(value)
		r.answer(c.ID, value, failure)
		r.state.releaseCall(size)
	})
	return nil
}

// plain returns a call in its plain form, in which it is authorized, recorded and made. It also
// returns the digest of the form that the program wrote, empty if both are the same. A call that is
// made again keeps the plain form that it had before.
func (r *run) plain(c *sandbox.GuestCall) (_ *sandbox.GuestCall, asked string) {
	path := journal.PathOf(c)
	if k := r.history.Known(c.ID); k != nil && k.Asked != "" {
		if k.Asked != tool.CallDigest(path, c.Args) {
			return c, "" // it diverged
		}
		return &sandbox.GuestCall{ID: c.ID, Path: k.Tool, Args: k.Arguments, Stack: c.Stack}, k.Asked
	}
	if r.x.cfg.Plain == nil || len(path) > maxPath || strings.HasPrefix(path, tool.Own+".") {
		return c, ""
	}
	to, args := r.x.cfg.Plain(r.principal, path, c.Args)
	if to == path && bytes.Equal(args, c.Args) {
		return c, ""
	}
	return &sandbox.GuestCall{ID: c.ID, Path: to, Args: args, Stack: c.Stack}, tool.CallDigest(path, c.Args)
}

// admit registers a call. It returns the call's index if it goes through the gateway, or else a
// function now that answers it. An error ends the program.
func (r *run) admit(c *sandbox.GuestCall, asked string) (n int, path string, now func() (json.RawMessage, error), err error) {
	refuse := func(err *tool.Error) (int, string, func() (json.RawMessage, error), error) {
		return 0, path, func() (json.RawMessage, error) { return nil, err }, nil
	}
	path = journal.PathOf(c)
	if len(path) > maxPath || strings.ContainsFunc(path, unicode.IsControl) {
		return refuse(tool.Errorf(tool.NotFound, "no tool has the name %q: use search to find tools", prose.Cut(path, 80)))
	}
	switch path {
	case tool.ResultPath:
		return 0, path, func() (json.RawMessage, error) { return r.results.readResult(c.Args) }, nil
	case tool.ExecutePath, tool.ResumePath:
		return refuse(tool.Errorf(tool.Invalid, "a program can't start or resume programs: call the tools directly"))
	}
	lim, refused := r.x.cfg.Limits, 0
	r.state.shift(func() {
		if n = len(r.state.exec.Calls); n >= lim.Calls {
			r.state.table.refused++
			refused = r.state.table.refused
			return
		}
		r.state.exec.Calls = append(r.state.exec.Calls, execution.Call{Tool: path, Args: r.short(c.Args), Pending: true, Begun: time.Now(), Note: r.history.newEntry(n, c, path, asked)})
		r.state.table.indexes[c.ID] = n
		r.state.beginCall()
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

// made makes the n-th call of the program when its turn comes, and returns the outcome. The caller
// calls unhold after it has passed the outcome on.
func (r *run) made(n int, c *sandbox.GuestCall, path string, turn chan struct{}) (json.RawMessage, *sandbox.GuestError) {
	var res *tool.Result
	var err error
	select {
	case <-turn:
		if err = r.begun(); err == nil {
			if k, err := r.prior.Take(path, c.Args); k != nil || err != nil {
				r.state.table.turns.Leave(turn)
				return r.reuse(n, k, err)
			}
			res, err = r.through(n, path, c.Args)
			r.state.addDoubt(path, c.Args, err)
		}
	case <-r.over:
		err = errNotMade
	case <-r.ctx.Done():
		err = errNotMade
	}
	r.state.table.turns.Leave(turn)
	return r.came(n, path, res, err)
}

// came records the outcome of the n-th call, and returns what the program receives of it.
func (r *run) came(n int, path string, res *tool.Result, err error) (json.RawMessage, *sandbox.GuestError) {
	size := 0
	if res != nil {
		size = len(res.Raw)
	}
	unsent := err != nil && tool.AsError(err).Unsent && !errors.Is(err, errChanged)
	var blocks []journal.Block
	var value json.RawMessage
	r.meter.doWork(size, func() { value, err = r.outcome(res, err, &blocks) })
	r.state.mu.Lock()
	if over := r.state.table.addAnswer(path, value); over != nil {
		value, err = nil, over
	}
	var failure *sandbox.GuestError
	if err != nil {
		failure = guestError(err)
		failure.Upstream, failure.Tool, _ = strings.Cut(path, ".")
	}
	rec := &r.state.exec.Calls[n]
	rec.Took = time.Since(rec.Begun)
	rec.Pending, rec.Unsent, rec.Bytes, rec.MS = false, unsent, size, rec.Took.Milliseconds()
	if failure != nil {
		rec.Error = failure.Message
	}
	if r.plan.simulated(n) {
		rec.Unsent, rec.Error = true, execution.NotMade+"it is planned, and its answer was simulated"
	} else if unsent {
		rec.Error = execution.NotMade + strings.TrimPrefix(rec.Error, execution.NotMade)
	}
	if res != nil {
		r.state.spared.addResult(res.Raw)
	}
	k := r.history.completeEntry(rec, value, failure, blocks)
	r.state.mu.Unlock()
	if unsent && k != nil {
		r.plan.back(n, k.Arguments)
	}
	r.history.Outcome(k)
	r.state.notifyWatchers()
	return value, failure
}

// unhold ends a call whose answer of size bytes has been passed on.
func (s *state) releaseCall(size int) {
	s.shift(func() {
		s.table.removeAnswer(size)
		s.settleCall()
	})
}

// errNotMade is the error of a call that was still waiting for its turn when the program ended.
var errNotMade = &tool.Error{Kind: tool.Canceled, Msg: execution.NotMade + "the program ended before its turn came", Unsent: true}

// begun returns an error if the program has ended before the turn of a call came: no one would
// receive its result.
func (r *run) begun() error {
	select {
	case <-r.over:
		return errNotMade
	default:
		return nil
	}
}

// outcome returns the result of a call as seen by the program: a value or an error.
func (r *run) outcome(res *tool.Result, err error, blocks *[]journal.Block) (value json.RawMessage, _ error) {
	switch {
	case err != nil:
		return nil, err
	case res.IsError:
		return nil, &tool.Error{Kind: failedKind, Msg: values.ErrorText(res)}
	case len(res.Raw) > r.x.cfg.Limits.Result:
		return nil, tool.Over(execution.ResultLimit, "the result is %s, more than a program can be given (%s): ask the tool for less",
			prose.Size(len(res.Raw)), prose.Size(r.x.cfg.Limits.Result))
	}
	err = r.guard("a result", func() error {
		value, err = values.Of(res, func(b values.Block, raw json.RawMessage) string {
			h := r.results.keep("", b, raw)
			*blocks = append(*blocks, journal.Block{Handle: h, Raw: raw})
			return h
		})
		return err
	})
	return value, err
}

// doubt adds a note on the arguments of a call that was made, unless it is already noted.
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

// isNoted reports whether the check of the program's text already produced this note.
func (s *state) hasNoted(doubt string) bool {
	what, _, _ := strings.Cut(doubt, " is not declared")
	return s.program != nil && slices.ContainsFunc(s.program.Notes, func(n string) bool { return strings.HasPrefix(n, what+" is not declared") })
}

// through makes the n-th call through the gateway. A panic there must not affect other programs.
func (r *run) through(n int, path string, args json.RawMessage) (res *tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.x.cfg.Log.Error("a call panicked", "execution", r.id, "tool", path, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, tool.Errorf(tool.Internal, "the call failed inside biplane: whether it took effect is not known")
		}
	}()
	c := r.callOf(n, path, args)
	if takeOver := r.writing(n); takeOver != nil {
		c.By.Planner = takeOver
	}
	return r.x.cfg.Door().Call(r.ctx, c)
}

// programOf returns what all calls of r have in common.
func programOf(r *run) *tool.Program {
	return &tool.Program{Execution: r.id, Digest: r.digest, Language: r.language, Session: r.session,
		Tier: r.state.exec.Tier}
}

// callOf returns the n-th call as it is passed to the gateway.
func (r *run) callOf(n int, path string, args json.RawMessage) *tool.Call {
	id := callID(r.id, n+1)
	by := programOf(r)
	by.Again = r.history.earlierRecord(id)
	return &tool.Call{ID: id, Path: path, Arguments: args, Principal: r.principal, By: by,
		Labels: r.taint.labels.All(), Observer: callObserver{r: r, n: n}}
}

// reported stores the progress reported by the tool of the n-th call.
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
func (r *run) answerNow(id int64, f func() (json.RawMessage, error)) error {
	var v json.RawMessage
	err := error(errUnread)
	if !r.stream.Full() { // the goroutine that reads the guest's messages can't wait for the guest to read
		v, err = f()
	}
	if err != nil {
		return r.post(&sandbox.Answer{ID: id, Error: ownError(err)}, false, false)
	}
	return r.post(&sandbox.Answer{ID: id, Value: v}, false, false)
}

// answer sends an answer to the guest. If the guest is gone, the answer is kept only if its session
// continues.
func (r *run) answer(id int64, value json.RawMessage, failure *sandbox.GuestError) {
	a := &sandbox.Answer{ID: id, Value: value, Error: failure}
	err := r.post(a, true, true)
	if err != nil && r.hold != nil {
		r.history.keepLate(a)
	}
	if err != nil {
		r.x.cfg.Log.Debug("answer to a guest", "execution", r.id, "error", err)
	}
}

// post sends an answer. made reports whether it is the outcome of a call that was made.
func (r *run) post(a *sandbox.Answer, made, wait bool) error {
	what := about{at: r.now()}
	if made {
		what.call = a.ID
	}
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: what.at})
	if err != nil {
		return err
	}
	r.state.mu.Lock()
	r.state.suspension.active = time.Now()
	r.state.mu.Unlock()
	return r.stream.Send(line, what, wait)
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
