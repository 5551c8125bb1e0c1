package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAttempts is the maximum number of times that an execution is recovered without making
// progress: its program may be what crashes the process.
const maxAttempts = 3

// Recover resumes the executions that had not ended when the previous process did. Call it after
// the upstreams are configured, and before the first request, since these executions get their
// sessions first. It returns when it is known which of them can continue; they do so in the
// background. The others end as interrupted, with a reason.
func (x *Executor) Recover(ctx context.Context) error {
	if x.cfg.Journal == nil {
		return nil
	}
	open, err := x.cfg.Journal.Open(ctx)
	if err != nil {
		return err
	}
	// Executions that carry out a plan come before executions that wait for them, so that these
	// find them.
	slices.SortStableFunc(open, func(a, b journal.Record) int { return waitsFor(&a) - waitsFor(&b) })
	var errs []error
	for i := range open {
		errs = append(errs, x.recoverExecution(ctx, &open[i]))
	}
	if x.cfg.Copied { // the caller forgets that it is a copy: what ended must not be resumed then
		errs = append(errs, x.unwritten.awaitWrites())
	}
	return errors.Join(errs...)
}

// waitsFor returns 1 for an execution that may wait for another one, and 0 for one that carries out
// a plan.
func waitsFor(r *journal.Record) int {
	if r.After != "" && r.ID == carrierOf(r.After) {
		return 0
	}
	return 1
}

// recoverExecution starts an execution of an earlier process again, or ends it as interrupted if it
// can't continue.
func (x *Executor) recoverExecution(ctx context.Context, rec *journal.Record) error {
	if _, ok := x.runs.get(rec.ID); ok {
		return nil // it belongs to this process
	}
	st, err := loadHistory(ctx, x.cfg.Journal, rec)
	if err != nil || st == nil {
		return err
	}
	a := recordedArguments(st)
	r := x.newRun(context.WithoutCancel(ctx), st.Begin.Principal, a)
	r.resumeFrom(st)
	recorded, err := loadPast(ctx, x.cfg.Control, st)
	if err != nil {
		return err
	}
	r.history.setPast(recorded)
	planErr := r.restorePlan(a, st)
	priorErr := r.restorePrior(ctx, a, st)
	if priorErr != nil && tool.AsError(priorErr).Kind == tool.Internal {
		return priorErr // the store can't be read at the moment
	}
	x.runs.begin(r)
	why := r.history.explainInterruption(st, planErr, priorErr)
	if x.cfg.Copied && why == nil {
		why = errCopied
	}
	if why != nil {
		r.history.stopReplay()
		r.state.addRecorded(st.Calls)
		r.finish(why)
		return nil
	}
	return r.startInBackground(a, st)
}

// loadHistory returns the history of a recorded execution, or only what its record says if its
// journal is damaged. It returns nil if the execution is gone.
func loadHistory(ctx context.Context, from journal.Store, rec *journal.Record) (*journal.History, error) {
	st, err := journal.Load(ctx, from, rec.ID)
	if err != nil && tool.AsError(err).Kind == tool.Conflict { // damaged
		return journal.NewBareHistory(*rec), nil
	}
	return st, err
}

// recordedArguments returns the arguments with which an execution began.
func recordedArguments(st *journal.History) arguments {
	n := recordedNeed(st)
	return arguments{Code: st.Begin.Source, Language: st.Begin.Language, language: st.Record.Language,
		session: st.Begin.Session, after: st.Begin.After, timeout: st.Begin.Timeout, files: st.Begin.Files,
		plan: st.Begin.Mode == planMode, carries: st.Begin.Carries, tier: n.Tier, kind: n.Kind, image: st.Begin.Image}
}

// restorePlan restores the plan of a recovered execution, if it has one.
func (r *run) restorePlan(a arguments, st *journal.History) (err error) {
	if r.plan, err = planFor(a, r.x.cfg.Clock.Now()); r.plan != nil {
		err = r.plan.restore(st)
		r.clock.refillTime() // time stands still in a plan
	}
	return err
}

// restorePrior finds the execution that a recovered one corrects, marks the results that were used,
// and restores its labels.
func (r *run) restorePrior(ctx context.Context, a arguments, st *journal.History) (err error) {
	r.calls.prior, err = r.x.priorOf(ctx, r.principal, a.after, r.id)
	if err != nil && tool.AsError(err).Kind == tool.Internal {
		return err
	}
	r.taint.labels.Add(tool.JoinLabels(r.calls.prior.Labels(), st.Labels()))
	for _, c := range st.Calls {
		if c.From != "" {
			_, _ = r.calls.prior.Take(c.Tool, c.Arguments) // marks it as used: the execution already had it
		}
	}
	return err
}

// explainInterruption returns why a recovered execution can't continue, or nil if it can. planErr
// and priorErr are the errors of restorePlan and restorePrior.
func (h *history) explainInterruption(st *journal.History, planErr, priorErr error) error {
	if why := checkContinuable(st); why != nil {
		return why
	}
	if why := h.checkCut(true); why != nil {
		return why
	}
	switch {
	case priorErr != nil:
		return errInterrupted("what it corrects is not known any more, and could be done twice: %s",
			tool.AsError(priorErr).Msg)
	case planErr != nil:
		return errInterrupted("its plan can't be read: %s", tool.AsError(planErr).Msg)
	}
	return nil
}

// startInBackground continues a recovered execution in the background. Executions get their session
// in the order of these calls.
func (r *run) startInBackground(a arguments, st *journal.History) (err error) {
	if st.Planned != nil { // its program has ended
		r.history.stopReplay()
		r.state.addRecorded(st.Calls)
		a.session = ""
	}
	var wait func(context.Context) (*live.Hold, error)
	if a.session != "" {
		if wait, err = r.x.live.Join(r.principal.ID, a.session); err != nil {
			return err
		}
	}
	if a.carries == nil { // a plan's carrier counts as part of the planned execution
		r.onEnd = r.x.cfg.Supervisor.ReadmitExecution(r.originalCall(a))
	}
	if !r.x.start(func() { r.resumeToEnd(a, wait) }) {
		return errClosing
	}
	return nil
}

// originalCall rebuilds the execute call that started r, without its files.
func (r *run) originalCall(a arguments) *tool.Call {
	args := struct {
		After    string  `json:"after,omitempty"`
		Code     string  `json:"code"`
		Image    string  `json:"image,omitempty"`
		Language string  `json:"language,omitempty"`
		Mode     string  `json:"mode,omitempty"`
		Session  string  `json:"session,omitempty"`
		Tier     string  `json:"tier,omitempty"`
		Seconds  float64 `json:"timeout_seconds"`
	}{After: a.after, Code: a.Code, Image: a.image, Language: a.Language, Session: a.session,
		Seconds: a.timeout.Seconds()}
	if r.machine.moves {
		args.Tier = a.tier.String()
	}
	if a.plan {
		args.Mode = "plan"
	}
	c := &tool.Call{Path: tool.ExecutePath, Principal: r.principal, Labels: r.taint.labels.All()}
	c.Grant.Tier = a.tier
	c.Arguments, _ = tool.Marshal(args) // never fails: the values are strings and a number
	return c
}

// checkContinuable returns why an execution can't continue by its journal, or nil if it can.
func checkContinuable(st *journal.History) error {
	unknown := st.Unknown()
	switch {
	case len(unknown) > 0:
		var names []string
		for _, c := range unknown {
			// the arguments are encrypted; the name is not
			names = append(names, fmt.Sprintf("call %d, %s", c.N, text.Cut(c.Tool, 100)))
		}
		return errInterrupted("%s, had been sent, and whether it took effect is unknown. Look, before anything is "+
			"sent again", strings.Join(names, "; "))
	case st.Record.Lost != "":
		return errInterrupted("%s", st.Record.Lost)
	case st.Begin.Source == "":
		return errInterrupted("its journal can't be read")
	case st.Planned == nil && st.Record.Attempts >= maxAttempts && st.Record.State != journal.Waiting:
		return errInterrupted("biplane ended %d times while it did", maxAttempts)
	}
	return nil
}

// resumeFrom turns a new run into the execution that st describes.
func (r *run) resumeFrom(st *journal.History) {
	r.id, r.principal, r.started = st.Record.ID, st.Begin.Principal, st.Record.Started
	if r.principal.ID == "" { // its Begin can't be read
		r.principal = tool.Principal{ID: st.Record.Principal, Client: st.Record.Client}
	}
	r.state.identify(st.Record.Tier)
	r.history.resume(st)
	r.began = r.began.Add(-st.RunTime())
	r.clock.chargeTime(st.Own())
}

// resumeToEnd is like runToEnd, for a recovered run. wait waits for its turn in its session; nil:
// it has none.
func (r *run) resumeToEnd(a arguments, wait func(context.Context) (*live.Hold, error)) {
	r.history.RecordResume()
	r.history.Update(func(rec *journal.Record) {
		if rec.Attempts++; rec.State == journal.Waiting { // it was idle when the process ended
			rec.Attempts = 0
		}
		rec.State = journal.Running
	}, true)
	r.place.wait = wait
	r.runToEnd(a)
}
