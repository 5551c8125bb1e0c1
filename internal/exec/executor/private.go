package executor

import (
	"context"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/exec/execution"
)

// A model sees an execution with tokens in place of personal data. The program, its journal and
// people who inspect them have the data itself. Data is hidden before texts are truncated, since
// half a value would not be recognized.

func (r *run) scope() privacy.Scope {
	return privacy.Scope{Owner: r.principal.ID, Session: r.exec.Session}
}

// bring registers the personal data in data of another session of the principal with the run's
// session. It must be called before the program receives the data.
func (r *run) bring(session string, data ...string) error {
	return r.x.cfg.Privacy.Bring(r.ctx, privacy.Scope{Owner: r.principal.ID, Session: session}, r.scope(), data...)
}

// broughtOnce is bring for a leftover. It does nothing if the leftover has been brought before.
func (r *run) broughtOnce(l *leftover) error {
	r.mu.Lock()
	known := r.brought[l.handle]
	r.mu.Unlock()
	if known || r.x.cfg.Privacy == nil || l.session == r.exec.Session {
		return nil
	}
	data := []string{string(l.value), string(l.block)}
	if raw, err := l.bytes(); err == nil && l.block != nil && utf8.Valid(raw) {
		data = append(data, string(raw))
	}
	if err := r.bring(l.session, data...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.brought == nil {
		r.brought = map[string]bool{}
	}
	r.brought[l.handle] = true
	return nil
}

// hideText hides the personal data in a text.
func (r *run) hideText(text *string) {
	s := r.x.cfg.Privacy.Sheet(r.ctx, r.scope())
	s.Text(text)
	s.Hide(r.ctx)
}

// hidden returns the execution as a model may see it.
func (r *run) hidden(e *execution.Execution) *execution.Execution {
	return r.x.hidden(r.ctx, r.scope(), e)
}

func (x *Executor) hidden(ctx context.Context, scope privacy.Scope, e *execution.Execution) *execution.Execution {
	s := x.cfg.Privacy.Sheet(ctx, scope)
	if s == nil {
		return e
	}
	out := *e
	out.Real = e.Value
	out.Value, out.Notes = slices.Clone(e.Value), slices.Clone(e.Notes)
	out.Console, out.Calls = slices.Clone(e.Console), slices.Clone(e.Calls)
	s.JSON(&out.Value)
	for i := range out.Notes {
		s.Text(&out.Notes[i])
	}
	for i := range out.Console {
		s.Text(&out.Console[i].Text)
	}
	for i := range out.Calls {
		c := &out.Calls[i]
		s.Text(&c.Tool)
		s.Text(&c.Args)
		s.Text(&c.Error)
	}
	if e.Error != nil {
		f := *e.Error
		out.Error = &f
		for _, t := range []*string{&f.Message, &f.Frame, &f.Hint, &f.Text} {
			s.Text(t)
		}
	}
	s.Hide(ctx)
	for i := range out.Calls {
		out.Calls[i].Args = prose.Cut(out.Calls[i].Args, maxShort)
	}
	return &out
}

// conceal reduces the execution in memory, which agents receive too, to what a model may see. shown
// is nil if hiding failed. r.mu is held.
func (r *run) conceal(shown *execution.Execution) {
	e := &r.exec
	switch {
	case r.x.cfg.Privacy == nil:
	case shown == nil:
		e.Value, e.Console, e.Notes, e.Error = json.RawMessage("null"), nil, nil, nil
		for i := range e.Calls {
			e.Calls[i].Args, e.Calls[i].Error = "", ""
		}
	default:
		e.Value, e.Console, e.Notes, e.Error, e.Calls = shown.Value, shown.Console, shown.Notes, shown.Error, shown.Calls
	}
}

// hiddenBlocks returns the content blocks that the program emitted, as a model may see them.
func (r *run) hiddenBlocks() []json.RawMessage {
	r.mu.Lock()
	out := slices.Clone(r.emitted)
	r.mu.Unlock()
	s := r.x.cfg.Privacy.Sheet(r.ctx, r.scope())
	for i := range out {
		s.Block(&out[i])
	}
	s.Hide(r.ctx)
	return out
}

// maxLonger is the number of bytes of a call's arguments that are kept for display if personal data
// must be hidden in them first.
const maxLonger = 1 << 10

// short returns the beginning of the arguments, for texts.
func (r *run) short(args json.RawMessage) string {
	if r.x.cfg.Privacy == nil || len(args) == 0 {
		return short(args)
	}
	return prose.Cut(string(args), maxLonger)
}

// planShown returns the text of the plan that the program waits for, as a model may see it. It is
// empty if the program waits for no plan.
func (r *run) planShown() string {
	const most = 30
	if !r.planning() {
		return ""
	}
	r.mu.Lock()
	of := r.plan.whole
	r.mu.Unlock()
	if of == nil {
		return ""
	}
	whole := *of
	whole.Writes = slices.Clone(whole.Writes)
	s := r.x.cfg.Privacy.Sheet(r.ctx, r.scope())
	for i := range whole.Writes {
		s.JSON(&whole.Writes[i].Arguments)
	}
	s.Hide(r.ctx)
	return whole.Text(most)
}

// hideArgs hides personal data in the arguments of calls that wait for a person, and then truncates
// them.
func (r *run) hideArgs(calls []heldCall) {
	s := r.x.cfg.Privacy.Sheet(r.ctx, r.scope())
	for i := range calls {
		s.Text(&calls[i].args)
	}
	s.Hide(r.ctx)
	for i := range calls {
		calls[i].args = prose.Cut(calls[i].args, maxShort)
	}
}

// remark adds a note for the agent about how a call was made.
func (r *run) remark(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exec.Notes) < maxNotes && !slices.Contains(r.exec.Notes, text) {
		r.exec.Notes = append(r.exec.Notes, text)
	}
}
