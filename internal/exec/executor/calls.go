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
	spared  *spared
	turns   *queue.Turns   // of the calls that may run concurrently
	running sync.WaitGroup // the calls under way
}

// runInTurn calls f in a goroutine of its own. f waits for its turn, which was joined when
// runInTurn was called: turns come in the order in which the program makes its calls.
func (cs *calls) runInTurn(f func(turn chan struct{})) {
	turn := cs.turns.Join()
	cs.running.Go(func() {
		stack.Grow()
		f(turn)
	})
}

// simplify returns a call in its plain form, in which it is authorized, recorded and made. It also
// returns the digest of the form that the program wrote, empty if both are the same. A call that is
// made again keeps its previous plain form.
func (cs *calls) simplify(c *sandbox.GuestCall) (_ *sandbox.GuestCall, asked string) {
	path := journal.PathOf(c)
	if len(c.Flags) > 0 && len(path) <= maxPath {
		c = &sandbox.GuestCall{ID: c.ID, Path: c.Path, Stack: c.Stack,
			Args: cs.x.cfg.Tools.AddFlags(cs.principal, path, c.Args, c.Flags)}
	}
	if k := cs.history.Known(c.ID); k != nil && k.Asked != "" {
		if k.Asked != tool.CallDigest(path, c.Args) {
			return c, "" // it diverged
		}
		return &sandbox.GuestCall{ID: c.ID, Path: k.Tool, Args: k.Arguments, Stack: c.Stack}, k.Asked
	}
	if len(path) > maxPath || strings.HasPrefix(path, tool.Own+".") {
		return c, ""
	}
	to, args := cs.x.cfg.Tools.PlainForm(cs.principal, path, c.Args)
	if to == path && bytes.Equal(args, c.Args) {
		return c, ""
	}
	return &sandbox.GuestCall{ID: c.ID, Path: to, Args: args, Stack: c.Stack}, tool.CallDigest(path, c.Args)
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

// answerLocally returns the result of a local call.
func (cs *calls) answerLocally(p *programCall) (json.RawMessage, error) {
	if p.refusal != nil {
		return nil, p.refusal
	}
	return cs.results.readResult(p.Args)
}

// makeCall makes a call of the program when its turn comes, and returns the outcome. The caller
// calls releaseCall after it has passed the outcome on.
func (cs *calls) makeCall(p *programCall, turn chan struct{}) (json.RawMessage, *sandbox.GuestError) {
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
func (cs *calls) readOutcome(path string, res *tool.Result, err error,
	blocks *[]journal.Block) (value json.RawMessage, _ error) {
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
	err = cs.guard("a result", func() error {
		keep := func(b values.Block, raw json.RawMessage) string {
			h := cs.results.keep("", b, raw)
			*blocks = append(*blocks, journal.Block{Handle: h, Raw: raw})
			return h
		}
		if value, err = values.Of(res, keep); err == nil {
			value, err = values.WithHandles(tool.MethodIn(path), value, keep)
		}
		return err
	})
	return value, err
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
	if takeOver := cs.beforeWrite(p.n); takeOver != nil {
		c.By.Planner = takeOver
	}
	return cs.x.cfg.Door.Call(cs.ctx, c)
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

// newCall returns the n-th call as it is passed to the gateway.
func (cs *calls) newCall(n int, path string, args json.RawMessage) *tool.Call {
	id := callID(cs.id, n+1)
	by := cs.describeProgram()
	by.Again = cs.history.earlierRecord(id)
	return &tool.Call{ID: id, Path: path, Arguments: args, Principal: cs.principal, By: by,
		Labels: cs.taint.labels.All(), Observer: callObserver{calls: cs, n: n}}
}

// carryFrom is taint.carry for the result of the n-th call.
func (cs *calls) carryFrom(n int, labels []string) error {
	cs.state.updateCall(n, func(rec *execution.Call) {
		if rec.Note != nil {
			rec.Note.Labels = tool.JoinLabels(rec.Note.Labels, labels)
		}
	})
	return cs.taint.carry(labels)
}

// beforeWrite returns the function that the gateway calls if the n-th call may write. It is nil if
// the run has nothing to do with a plan.
func (cs *calls) beforeWrite(n int) planner {
	p := cs.plan
	if p == nil {
		return nil
	}
	return func(c *tool.Call, policies string) (*tool.Instead, error) {
		in := &journal.InPlan{Tool: c.Tool.Path(), Definition: c.Tool.Digest(), Policies: policies}
		if cs.x.cfg.Privacy != nil {
			in.Arguments = c.Arguments
		}
		out, err := p.answerWrite(n, in, c)
		if err != nil {
			return nil, err
		}
		cs.state.updateCall(n, func(rec *execution.Call) {
			if rec.Note != nil {
				rec.Note.Plan = in
			}
		})
		return out, nil
	}
}

// reuseCall ends the n-th call with the outcome of an earlier execution's call, or with err if it
// may not be made. The caller then calls releaseCall.
func (cs *calls) reuseCall(n int, k *journal.PriorCall, err error) (json.RawMessage, *sandbox.GuestError) {
	if err == nil {
		data := []string{string(k.Value)}
		for _, b := range k.Blocks {
			data = append(data, string(b.Raw))
		}
		err = cs.bring(k.Session, data...)
	}
	var o callOutcome
	if err != nil {
		o.failure, o.unsent = guestError(err), true
		o.err = execution.NotMade + o.failure.Message
	} else {
		o.value, o.blocks, o.bytes, o.from = k.Value, k.Blocks, k.Bytes, k.Of
		cs.results.keepAgain(k.Blocks)
	}
	cs.history.Outcome(cs.state.endCall(n, &o))
	return o.value, o.failure
}

// restoreCall copies what the journal knows of a call. A call without an outcome that gets here is
// read-only or idempotent (see lost in recover.go), and is made again.
func (cs *calls) restoreCall(p *programCall, k *journal.Call) error {
	if k.Tool != p.path || !k.Is(tool.CallDigest(p.path, p.Args)) {
		return errDiverged
	}
	cs.results.keepAgain(k.Blocks)
	cs.state.updateCall(p.n, func(rec *execution.Call) {
		rec.Note = k
		if !k.Known() {
			return
		}
		rec.MS, rec.Bytes, rec.Error, rec.From = k.MS, k.Bytes, k.Error, k.From
		rec.Unsent, rec.Reads, rec.Pending = k.Unsent, k.ReadOnly, false
		rec.Took = time.Duration(k.MS) * time.Millisecond
	})
	return nil
}

// beforeSend writes the intent of the n-th call to the journal before the gateway sends it. It
// returns a function that waits until the intent is safe: on disk, if the call may write.
func (cs *calls) beforeSend(n int, c *tool.Call, decision string) (confirm func() error) {
	var sent journal.Call
	again := false
	cs.state.updateCall(n, func(rec *execution.Call) {
		rec.Reads = c.Tool != nil && c.Tool.Annotations.Reads()
		if !cs.history.isKept() {
			return
		}
		k := rec.Note
		again = !k.Sent.IsZero()
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
		k.Decision, k.Sent, k.ReadOnly, k.Idempotent = decision, cs.x.cfg.Clock.Now(), false, false
		if c.Tool != nil {
			k.ReadOnly, k.Idempotent = is(c.Tool.Annotations.ReadOnly), is(c.Tool.Annotations.Idempotent)
		}
		sent = *k
	})
	if !cs.history.isKept() {
		return func() error { return nil }
	}
	if !sent.ReadOnly && !sent.Idempotent {
		if err := cs.history.checkCut(false); err != nil {
			return func() error { return cs.refuse(err) }
		}
	}
	p := cs.history.Intent(&sent)
	if again && !sent.ReadOnly && !sent.Idempotent {
		return func() error { return cs.refuse(changedSince(&sent)) }
	}
	switch {
	case !sent.ReadOnly:
		return p.Sync
	case p != nil:
		return p.Safe
	}
	return func() error { return nil }
}

// failedKind is the kind of a ToolError if the tool ran and reported failure. The kinds of package
// tool are for calls that could not be made.
const failedKind = "failed"

const (
	// maxPath is the maximum length of a tool path that is looked up, in bytes: requested paths are
	// recorded.
	maxPath = 1024
)

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
	text.Size(stream.MaxMade))

// maxShort is the number of bytes of a call's arguments that an error text shows.
const maxShort = 160

func short(args json.RawMessage) string {
	if len(args) == 0 {
		return "{}"
	}
	return text.Cut(string(args), maxShort)
}
