package executor

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// arguments are the arguments of execute.
type arguments struct {
	Code     string
	Language string
	language string // the resolved language: "typescript", "python", "bash", "go", "rust" or "java"
	session  string // empty: none
	after    string // id of the execution that it corrects; empty: none
	timeout  time.Duration
	files    []journal.File   // files to write to ./workspace
	plan     bool             // plan only: nothing is written until a person has reviewed all writes
	carries  *journal.Planned // the plan that this program carries out; nil: none
	tier     tool.Tier        // the weakest tier that policy allows and the caller accepts
	kind     string           // the kind of sandbox that it must run in; empty: any
	image    string           // image of its sandbox; empty: as its imports need
}

// Execute returns the tool execute: {code, language?, session?, timeout_seconds?, tier?}. Its
// answer consists of text blocks: the value as compact JSON, or the error text; the console lines;
// one line about the calls. The blocks that the program emitted follow. Result.IsError is set if
// the program failed. Errors are about the request, and mean that the program didn't run.
func (x *Executor) Execute() tool.Caller { return tool.CallerFunc(x.execute) }

func (x *Executor) execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.FromProgram().Execution != "" {
		return nil, tool.Errorf(tool.Invalid, "a program can't start programs: call the tools directly")
	}
	a, err := x.parseArguments(c.Arguments)
	if err != nil {
		return nil, err
	}
	a.tier = max(a.tier, c.Grant.Tier)
	r := x.newRun(ctx, c.Principal, a)
	if r.plan, err = planFor(a, x.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	if r.calls.prior, err = x.priorOf(ctx, c.Principal, a.after, r.id); err != nil {
		return nil, err
	}
	r.taint.labels.Add(tool.JoinLabels(r.calls.prior.Labels(), c.Labels))
	if r.onEnd, err = x.cfg.Supervisor.AdmitExecution(ctx, c); err != nil {
		return nil, err
	}
	r.history.beginLog(a, r.taint.labels.All())
	x.runs.begin(r)
	x.cfg.Supervisor.RecordStart(r.id, c.Principal)
	if a.session != "" && c.Place != nil {
		r.place.come, r.place.leave = c.Place.Come, c.Place.Take()
	}
	if !x.start(func() { r.runToEnd(a) }) {
		r.place.releaseNext()
		r.finish(errClosing)
		return nil, errClosing
	}
	c.Observe().OnExecution(r.id)
	res, err := x.await(ctx, r, c, r.peopleSignal)
	if err != nil { // the caller is gone: cancel the program
		r.cancel(err)
		<-r.done
		return nil, err
	}
	return res, nil
}

// Resume returns the tool resume: {execution}. It waits for an execution that was still running
// when execute answered. As long as the execution is kept, it returns the same answer each time.
func (x *Executor) Resume() tool.Caller { return tool.CallerFunc(x.resume) }

func (x *Executor) resume(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.FromProgram().Execution != "" {
		return nil, tool.Errorf(tool.Invalid, "a program can't resume programs")
	}
	fields, err := parseFields(c.Arguments, "resume", "execution")
	if err != nil {
		return nil, err
	}
	var id string
	if err := decodeField(fields, "execution", &id, "a string: the id that execute gave"); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, tool.Errorf(tool.Invalid, "resume: execution is missing: give the id that execute answered with")
	}
	r, ok := x.runs.get(id)
	if !ok || r.principal.ID != c.Principal.ID {
		return x.answerOf(ctx, c, id)
	}
	var held <-chan struct{}
	if c.InPlace {
		held = r.peopleSignal
	}
	return x.await(ctx, r, c, held)
}

// unknownExecution is the error text for an id that belongs to no execution of the caller. It
// doesn't suggest running the program again, since that would repeat its writes.
const unknownExecution = "no execution %q: the id is in the answer of execute, and a finished execution is kept for " +
	"%s. Don't run the program again " +
	"before you know what it changed: look with tools that read, or ask the user, whose command biplane executions " +
	"list shows all executions"

// answerOf returns the answer of an execution that only the journal still has.
func (x *Executor) answerOf(ctx context.Context, c *tool.Call, id string) (*tool.Result, error) {
	kept := x.cfg.Limits.KeptFor
	if x.cfg.Journal != nil {
		kept = x.cfg.Limits.Journal.Keep
		st, err := x.story(ctx, c.Principal, id)
		switch {
		case err == nil && st.End != nil && st.End.Answer != nil:
			if err := tells(c, st.Labels()); err != nil {
				return nil, err
			}
			return tool.ParseResult(st.End.Answer)
		case err == nil:
			return nil, tool.Errorf(tool.Conflict, "execution %q is %s, and there is no answer of it here",
				text.Cut(id, 80), st.Record.State)
		case tool.AsError(err).Kind != tool.NotFound:
			return nil, err
		}
	}
	return nil, tool.Errorf(tool.NotFound, unknownExecution, text.Cut(id, 80), text.Span(kept))
}

const (
	// progressEvery is the minimum interval between progress notifications.
	progressEvery = 500 * time.Millisecond
	// progressAtLeast is the interval after which a notification is sent even without progress:
	// clients time out when a call is silent, and extend the timeout otherwise.
	progressAtLeast = 5 * time.Second
)

// await waits for the end of r, until Config.AnswerWithin has passed or held has received a token.
// It returns an error if ctx ends, or if the caller of c can't carry the program's labels.
func (x *Executor) await(ctx context.Context, r *run, c *tool.Call, held <-chan struct{}) (*tool.Result, error) {
	err := x.awaitEnd(ctx, r, c, held)
	c.Observe().OnFindings(r.state.current().findings)
	if err != nil {
		return nil, err
	}
	var res *tool.Result
	if f := r.state.result(); f != nil {
		res = f.answer
	} else {
		r = r.reporter()
		if res, err = r.interimAnswer(); err != nil {
			return nil, err
		}
	}
	if err := tells(c, r.taint.labels.All()); err != nil {
		return nil, err
	}
	return res, nil
}

// awaitEnd waits until r has ended, or the caller of c stops waiting.
func (x *Executor) awaitEnd(ctx context.Context, r *run, c *tool.Call, held <-chan struct{}) error {
	answerBy := time.NewTimer(x.cfg.AnswerWithin)
	defer answerBy.Stop()
	var tick <-chan time.Time
	if c.Observe().WantsProgress() {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		tick = t.C
	}
	var last tool.Progress
	var settled <-chan time.Time
	if held != nil && r.state.current().heldOnly { // the token may have been consumed before
		settled = time.After(heldPatience)
	}
	took := false
	defer func() {
		if took { // others may wait for the same token
			r.peopleSignal.send()
		}
	}()
	for {
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			select {
			case <-r.done: // at the same moment
				return nil
			default:
				return context.Cause(ctx)
			}
		case <-answerBy.C:
			return nil
		case <-held:
			took, settled = true, time.After(heldPatience)
		case <-settled:
			if r.state.current().heldOnly { // otherwise some calls were decided meanwhile, and are under way
				return nil
			}
		case <-tick:
			p := r.progress()
			if news := p.Message != last.Message ||
				p.Done-last.Done >= progressAtLeast.Seconds(); news && p.Done > last.Done {
				if err := tells(c, r.taint.labels.All()); err != nil {
					return err
				}
				c.Observe().OnProgress(ctx, p)
				last = p
			}
		}
	}
}

// progress returns the progress of the calls. Done is the number of seconds since the execution
// began: it must increase each time (MCP, basic/utilities/progress), and the total number of calls
// is unknown.
func (r *run) progress() tool.Progress {
	p := describeProgress(r.state.snapshot(), time.Since(r.began))
	r.hideText(&p.Message)
	return p
}

// describeProgress returns the progress of an execution that began some time ago.
func describeProgress(e *execution.Execution, elapsed time.Duration) tool.Progress {
	p := tool.Progress{Done: elapsed.Seconds()}
	if e.State == execution.Queued {
		p.Message = "waiting for its turn"
		return p
	}
	var done int
	var pending []string
	for i := range e.Calls {
		if c := &e.Calls[i]; !c.Pending {
			done++
		} else if len(pending) < 3 {
			name := c.Tool
			if c.Report != "" {
				name += ": " + c.Report
			}
			pending = append(pending, name)
		}
	}
	msg := text.Count(done, "call") + " done"
	if n := len(e.Calls) - done; n > 0 {
		msg += fmt.Sprintf(", %d running: %s", n, strings.Join(pending, ", "))
		if n > len(pending) {
			msg += ", …"
		}
	}
	p.Message = msg
	return p
}

// maxReport is the maximum length of a tool's progress message that is passed on, in bytes.
const maxReport = 200

// reportText formats a tool's progress as one line, without control characters.
func reportText(p tool.Progress) string {
	s := strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text.Cut(p.Message, maxReport)))
	far := ""
	switch {
	case p.Total > 0:
		far = fmt.Sprintf("%.10g of %.10g", p.Done, p.Total)
	case p.Done > 0:
		far = fmt.Sprintf("%.10g", p.Done)
	}
	switch {
	case s == "":
		return far
	case p.Total > 0 && !strings.Contains(s, far):
		return s + " (" + far + ")"
	}
	return s
}

// interimAnswer returns the answer for an execution that is still running or waiting when its
// caller stops waiting.
func (r *run) interimAnswer() (*tool.Result, error) {
	state := r.state.current().state
	if state != execution.Queued {
		state = execution.Running // it may have ended a moment ago
	}
	if text := r.waitingText(); text != "" {
		return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: text}}, r.meta(execution.Waiting, nil), false)
	}
	msg := fmt.Sprintf("The program is still running after %s: %s. It goes on. Call resume with {\"execution\": %q} "+
		"to wait for its result; don't run it again.",
		text.Duration(r.x.cfg.Clock.Now().Sub(r.started)), r.progress().Message, r.id)
	return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: msg}}, r.meta(state, nil), false)
}

// resultMeta is the metadata of an answer of execute or resume. The HTTP API and the tests of the
// sandbox read it, too.
type resultMeta struct {
	Execution executionMeta `json:"biplane.dev/execution"`
}

type executionMeta struct {
	Error   *errorMeta      `json:"error,omitempty"`
	ID      string          `json:"id"`
	Session *sessionMeta    `json:"session,omitempty"`
	State   execution.State `json:"state"`
	Tier    tool.Tier       `json:"tier,omitzero"` // omitted for WASM
	Image   string          `json:"image,omitempty"`
}

type errorMeta struct {
	Kind  string `json:"kind"`
	Limit string `json:"limit,omitempty"`
}

type sessionMeta struct {
	From             string   `json:"from,omitempty"` // where its guest came from
	Milliseconds     *float64 `json:"ms,omitempty"`   // how long that took; nil if From is empty
	Name             string   `json:"name"`
	SaveMilliseconds float64  `json:"save_ms,omitempty"`
}

// meta returns the metadata of an answer. f is the failure of an execution that has ended; nil:
// none.
func (r *run) meta(s execution.State, f *execution.Failure) resultMeta {
	now := r.state.current()
	m := executionMeta{ID: r.id, State: s, Tier: max(now.tier, tool.WASM), Image: now.image}
	if r.session != "" {
		m.Session = &sessionMeta{Name: r.session}
		if r.machine.origin.From != "" {
			took := float64(r.machine.origin.Took.Microseconds()) / 1e3
			m.Session.From, m.Session.Milliseconds = r.machine.origin.From, &took
		}
		if r.saveTime > 0 {
			m.Session.SaveMilliseconds = float64(r.saveTime.Microseconds()) / 1e3
		}
	}
	if f != nil {
		m.Error = &errorMeta{Kind: f.Kind, Limit: f.Limit}
	}
	return resultMeta{m}
}
