package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Calls that wait for people may be decided by the person at the client. Up to 2025-11-25 the
// client is asked while its call waits (elicitation/create). In 2026-07-28 the call is answered
// with input_required, and repeated with the completed form (basic/patterns/mrtr). A form.Desk
// determines which calls these are, and who decides.

const (
	formKey = "approval" // key of the input request
	// formTime is how long a form stays open if the client receives progress, and so knows that a
	// person is deciding. Otherwise a call is answered within Limits.Answer.
	formTime   = 10 * time.Minute
	formLeast  = 5 * time.Second // a form that would close sooner isn't shown
	formTick   = time.Second     // interval for checking whether someone else has decided
	formRounds = 50              // maximum number of forms in one call
)

// showsForms reports whether the client of a request shows forms to its user. Revisions before
// 2025-11-25 supported only forms, declared with an empty object.
func showsForms(req *mcp.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// A formCall is a call whose client can show forms.
type formCall struct {
	s      *Server
	req    *mcp.CallToolRequest
	call   form.Call // as made by the client
	notify *notifier
	modern bool
	began  time.Time
}

// inPlace makes a call, and asks its client to decide what waits for people. It returns the result,
// or the form that the client must answer in the next call. If relayed is set, the caller shows the
// form itself.
func (s *Server) inPlace(ctx context.Context, req *mcp.CallToolRequest, c *tool.Call, notify *notifier,
	relayed bool) (*tool.Result, *form.Form, error) {
	sent := req.Params.RequestState
	if s.cfg.Desk == nil || !showsForms(req) {
		if sent != "" { // continuing would make the call a second time
			return nil, nil, tool.Errorf(tool.Invalid, "no question is pending for this requestState: nothing was "+
				"called; omit requestState to make a new call")
		}
		res, err := s.cfg.Door.Call(ctx, c)
		return res, nil, err
	}
	a := &formCall{
		s: s, req: req, notify: notify, modern: relayed || isModern(req.ProtocolVersion()), began: time.Now(),
		call: form.Call{Principal: c.Principal, Tool: c.Path, Arguments: c.Arguments},
	}
	id := s.builtin.resumedExecution(c)
	switch {
	case sent == "":
	case !a.modern:
		return nil, nil, tool.Errorf(tool.Invalid,
			"requestState requires protocol revision %s or later: nothing was called", firstModern)
	default:
		execution, f, out, err := a.handleAnswer(ctx, sent)
		switch {
		case err != nil || f != nil:
			return nil, f, err
		case execution != "":
			return a.resumeAndAsk(ctx, c, execution, out)
		}
	}
	if id != "" {
		return a.resumeAndAsk(ctx, c, id, nil)
	}
	c.InPlace = true
	res, f, err := a.callWithForm(ctx, c)
	if err != nil || f != nil {
		return nil, f, err
	}
	if id = s.builtin.executionIn(c, res, waiting); id == "" {
		return res, nil, nil
	}
	return a.askAboutExecution(ctx, c, id, res)
}

// handleAnswer handles an answer that the client sends with a form's state. If there is no answer,
// f is the same form again.
func (a *formCall) handleAnswer(ctx context.Context,
	sent string) (execution string, f *form.Form, out *form.Outcome, err error) {
	r, ok := a.req.Params.InputResponses[formKey].(*mcp.ElicitResult)
	if !ok {
		f, execution, err = a.s.cfg.Desk.Again(ctx, a.call, sent)
		return execution, f, nil, err
	}
	out, err = a.s.cfg.Desk.Answer(ctx, a.call, sent, form.Answer{Action: r.Action, Content: r.Content})
	if err != nil {
		return "", nil, nil, err
	}
	switch {
	case out.Execution != "":
	case out.Denied > 0:
		return "", nil, nil, tool.Errorf(tool.Denied,
			"%s was denied at the client: don't try it again unless they change their mind", a.call.Tool)
	case out.Late != nil:
		return "", nil, nil, out.Late
	case out.Decided == 0 && r.Action != "accept":
		return "", nil, nil, undecidedError(a.call.Tool)
	}
	return out.Execution, nil, out, nil
}

// undecidedError returns the error of a call that a person was asked about but did not decide.
func undecidedError(path string) error {
	return tool.Errorf(tool.Unavailable, "%s waits for approval, and the person asked here has not decided: once it "+
		"is approved (biplane approvals), make the same call again", path)
}

// resumeAndAsk resumes an execution for the call c, and asks about the decisions that it waits for.
// Without an outcome of an earlier form, it asks first.
func (a *formCall) resumeAndAsk(ctx context.Context, c *tool.Call, id string,
	out *form.Outcome) (*tool.Result, *form.Form, error) {
	c = a.s.builtin.newResume(c, id)
	if out == nil {
		return a.askAboutExecution(ctx, c, id, nil)
	}
	c.InPlace = true
	res, err := a.s.cfg.Door.Call(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if id = a.s.builtin.executionIn(c, res, waiting); id == "" {
		return res, nil, nil
	}
	return a.askAboutExecution(ctx, c, id, res)
}

// askAboutExecution asks about the decisions that an execution waits for, and resumes it, until it
// no longer waits or no one decides. res is its answer so far, nil if it has not been asked for one
// yet.
func (a *formCall) askAboutExecution(ctx context.Context, c *tool.Call, id string,
	res *tool.Result) (*tool.Result, *form.Form, error) {
	for range formRounds {
		var decided bool
		f, n, err := a.s.cfg.Desk.Execution(ctx, a.call, id)
		switch {
		case err != nil:
			return nil, nil, err
		case f != nil && a.modern:
			return nil, f, nil
		case f != nil:
			decided = a.elicitDecisions(ctx, f)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
		default:
			// others decide, or it was asked about here and left; or someone has just decided
			// everything, or nothing waits yet
			decided = n == 0
		}
		if !decided && res != nil {
			return res, nil, nil
		}
		c = a.s.builtin.newResume(c, id)
		c.InPlace = decided || f != nil // otherwise it waits as it does for clients that can't show forms
		res, err = a.resume(ctx, c, id)
		if err != nil || !decided {
			return res, nil, err
		}
		// A new id may name the execution that carries out a plan.
		if id = a.s.builtin.executionIn(c, res, waiting); id == "" {
			return res, nil, nil
		}
	}
	return res, nil, nil
}

// resume makes the call c that resumes an execution. Before the client would time out, it answers
// that the execution continues.
func (a *formCall) resume(ctx context.Context, c *tool.Call, id string) (*tool.Result, error) {
	if a.modern || a.notify.token != nil {
		return a.s.cfg.Door.Call(ctx, c)
	}
	bounded, cancel := context.WithDeadline(ctx, a.began.Add(a.s.cfg.Limits.Answer))
	defer cancel()
	res, err := a.s.cfg.Door.Call(bounded, c)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return tool.Text(false, "The program goes on. Call resume with {\"execution\": \""+id+
			"\"} to wait for its result; don't run it again."), nil
	}
	return res, err
}

// callWithForm makes a call, and shows a form about it while the call waits.
func (a *formCall) callWithForm(ctx context.Context, c *tool.Call) (*tool.Result, *form.Form, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asking, stop := context.WithCancel(ctx) // ends before the call does when someone else decides
	defer stop()
	// mu guards against a race: someone else's decision ends asking, and a person who leaves the
	// form at the client ends the call. The first of these wins.
	var mu sync.Mutex
	var forms sync.WaitGroup
	var next *form.Form
	hold := func(h *tool.Hold) {
		if h == nil {
			mu.Lock()
			defer mu.Unlock()
			stop()
			return
		}
		f, err := a.s.cfg.Desk.Request(ctx, a.call, h.Request)
		switch {
		case err != nil:
			a.s.log.Warn("form not shown at the client", "request", h.Request, "err", err)
		case f == nil:
		case a.modern:
			next = f
			cancel(&tool.Error{Kind: tool.Unavailable, Msg: "the client's user is asked first", Err: errNext})
		default:
			forms.Go(func() {
				if a.showForm(asking, f) != wasLeft {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if asking.Err() == nil { // otherwise someone has decided, and the call is under way
					cancel(undecidedError(c.Path))
				}
			})
		}
	}
	held := *c
	held.Observer = holdObserver{c.Observe(), hold}
	res, err := a.s.cfg.Door.Call(ctx, &held)
	stop()
	forms.Wait()
	if errors.Is(err, errNext) {
		return nil, next, nil
	}
	return res, nil, err
}

// errNext ends a call that will be repeated with an answer. Its kind leaves the request pending.
var errNext = errors.New("the call is made again with an answer")

// An answerKind is the kind of answer to a form.
type answerKind int

const (
	notAsked answerKind = iota // the client couldn't show it, or gave up
	wasLeft                    // the person saw it and did not decide
	wasDecided
)

// elicitDecisions shows a form about an execution for as long as the client waits for its answer.
// It reports whether anything on the form was decided, here or elsewhere.
func (a *formCall) elicitDecisions(ctx context.Context, f *form.Form) bool {
	patience := time.Until(a.began.Add(a.s.cfg.Limits.Answer))
	if a.notify.token != nil {
		patience = formTime
	}
	if patience < min(formLeast, a.s.cfg.Limits.Answer/2) {
		return false // resume asks
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return a.showForm(bounded, f) == wasDecided || !a.s.cfg.Desk.Untouched(ctx, f)
}

// showForm shows a form until it is answered, ctx is done, or everything on it has been decided
// elsewhere. Each connection has at most one form open at a time.
func (a *formCall) showForm(ctx context.Context, f *form.Form) answerKind {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c := clientOf(ctx); c != nil {
		select {
		case c.form <- struct{}{}:
			defer func() { <-c.form }()
		case <-ctx.Done():
			return notAsked
		}
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { a.watchForm(ctx, f, cancel) })
	r, err := a.req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: f.Message, RequestedSchema: f.Schema})
	if err != nil {
		if ctx.Err() == nil {
			a.s.log.Info("the client did not answer the question", "err", err)
		}
		return notAsked
	}
	out, err := a.s.cfg.Desk.Answer(context.WithoutCancel(ctx), a.call, f.State,
		form.Answer{Action: r.Action, Content: r.Content})
	switch {
	case err != nil:
		a.s.log.Warn("the answer to a form was rejected", "principal", a.call.Principal.ID, "err", err)
		return notAsked
	case out.Decided == 0:
		return wasLeft
	}
	return wasDecided
}

// watchForm sends progress to the client, and closes a form that has nothing left to decide.
func (a *formCall) watchForm(ctx context.Context, f *form.Form, cancel func()) {
	tick := time.NewTicker(formTick)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !a.s.cfg.Desk.Open(ctx, f) && ctx.Err() == nil {
			cancel()
			return
		}
		if n%5 == 0 && a.notify.token != nil {
			a.notify.add(func() {
				a.notify.progress(tool.Progress{Done: time.Since(a.began).Seconds(),
					Message: "waiting for your decision"})
			})
		}
	}
}

// formParams are the parameters of the request that shows a form.
type formParams struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
}

// askInput returns the result that asks the client to show a form, and to repeat the call with
// the answer and the state.
func askInput(f *form.Form) (mcp.Result, error) {
	type request struct {
		Method string     `json:"method"`
		Params formParams `json:"params"`
	}
	raw, err := tool.Marshal(struct {
		Type     string             `json:"resultType"`
		Requests map[string]request `json:"inputRequests"`
		State    string             `json:"requestState"`
	}{"input_required", map[string]request{formKey: {"elicitation/create", formParams{"form", f.Message, f.Schema}}},
		f.State})
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw, modern: true}, nil
}
