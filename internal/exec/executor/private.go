package executor

import (
	"context"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A model sees an execution with tokens in place of personal data. The program, its journal and
// people who inspect them have the data itself. Data is hidden before texts are truncated, since
// half a value would not be recognized.

// Privacy hides personal data from models.
type Privacy interface {
	live.Privacy
	// Bring registers the personal data in data, of one scope of an owner, with another scope. If
	// it returns an error, the data must not be used there.
	Bring(ctx context.Context, from, to tool.Scope, data ...string) error
	// HideTexts hides personal data in texts.
	HideTexts(ctx context.Context, of tool.Scope, texts tool.Texts)
}

func (v *env) scope() tool.Scope {
	return tool.Scope{Owner: v.principal.ID, Session: v.session}
}

// bring registers the personal data in data of another session of the principal with the run's
// session. It must be called before the program receives the data.
func (v *env) bring(session string, data ...string) error {
	if v.x.cfg.Privacy == nil {
		return nil
	}
	return v.x.cfg.Privacy.Bring(v.ctx, tool.Scope{Owner: v.principal.ID, Session: session}, v.scope(), data...)
}

// bringLeftover is env.bring for a leftover. It does nothing if the leftover has been brought
// before.
func (t *taint) bringLeftover(l *leftover) error {
	if t.x.cfg.Privacy == nil || l.session == t.session {
		return nil
	}
	return t.bringOnce(l.handle, func() error {
		data := []string{string(l.value), string(l.block)}
		if raw, err := l.bytes(); err == nil && l.block != nil && utf8.Valid(raw) {
			data = append(data, string(raw))
		}
		return t.bring(l.session, data...)
	})
}

// hideTexts hides the personal data in texts.
func (x *Executor) hideTexts(ctx context.Context, scope tool.Scope, texts tool.Texts) {
	if x.cfg.Privacy != nil {
		x.cfg.Privacy.HideTexts(ctx, scope, texts)
	}
}

// hideText hides the personal data in a text.
func (v *env) hideText(text *string) {
	v.x.hideTexts(v.ctx, v.scope(), tool.Texts{Text: []*string{text}})
}

// hideExecution returns an execution as a model may see it.
func (v *env) hideExecution(e *execution.Execution) *execution.Execution {
	return v.x.hidden(v.ctx, v.scope(), e)
}

func (x *Executor) hidden(ctx context.Context, scope tool.Scope, e *execution.Execution) *execution.Execution {
	if x.cfg.Privacy == nil {
		return e
	}
	out := *e
	out.Real = e.Value
	out.Value, out.Notes = slices.Clone(e.Value), slices.Clone(e.Notes)
	out.Console, out.Calls = slices.Clone(e.Console), slices.Clone(e.Calls)
	texts := tool.Texts{JSON: []*json.RawMessage{&out.Value}}
	for i := range out.Notes {
		texts.Text = append(texts.Text, &out.Notes[i])
	}
	for i := range out.Console {
		texts.Text = append(texts.Text, &out.Console[i].Text)
	}
	for i := range out.Calls {
		c := &out.Calls[i]
		texts.Text = append(texts.Text, &c.Tool, &c.Args, &c.Error)
	}
	if e.Error != nil {
		f := *e.Error
		out.Error = &f
		texts.Text = append(texts.Text, &f.Message, &f.Frame, &f.Hint, &f.Text)
	}
	x.hideTexts(ctx, scope, texts)
	for i := range out.Calls {
		out.Calls[i].Args = prose.Cut(out.Calls[i].Args, maxShort)
	}
	return &out
}

// conceal reduces the execution in memory, which agents receive too, to what a model may see. shown
// is nil if hiding failed. r.state.mu is held.
func (s *state) conceal(shown *execution.Execution) {
	e := &s.exec
	switch {
	case s.x.cfg.Privacy == nil:
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
func (s *state) hiddenBlocks() []json.RawMessage {
	s.mu.Lock()
	out := slices.Clone(s.output.blocks)
	s.mu.Unlock()
	var texts tool.Texts
	for i := range out {
		texts.Blocks = append(texts.Blocks, &out[i])
	}
	s.x.hideTexts(s.ctx, s.scope(), texts)
	return out
}

// maxLonger is the number of bytes of a call's arguments that are kept for display if personal data
// must be hidden in them first.
const maxLonger = 1 << 10

// short returns the beginning of the arguments, for texts.
func (v *env) short(args json.RawMessage) string {
	if v.x.cfg.Privacy == nil || len(args) == 0 {
		return short(args)
	}
	return prose.Cut(string(args), maxLonger)
}

// planShown returns the text of the plan that the program waits for, as a model may see it. It is
// empty if the program waits for no plan.
func (r *run) planShown() string {
	const most = 30
	if !r.isPlanning() {
		return ""
	}
	r.state.mu.Lock()
	of := r.plan.whole
	r.state.mu.Unlock()
	if of == nil {
		return ""
	}
	whole := *of
	whole.Writes = slices.Clone(whole.Writes)
	var texts tool.Texts
	for i := range whole.Writes {
		texts.JSON = append(texts.JSON, &whole.Writes[i].Arguments)
	}
	r.x.hideTexts(r.ctx, r.scope(), texts)
	return whole.Text(most)
}

// hideArgs hides personal data in the arguments of calls that wait for a person, and then truncates
// them.
func (v *env) hideArgs(calls []heldCall) {
	var texts tool.Texts
	for i := range calls {
		texts.Text = append(texts.Text, &calls[i].args)
	}
	v.x.hideTexts(v.ctx, v.scope(), texts)
	for i := range calls {
		calls[i].args = prose.Cut(calls[i].args, maxShort)
	}
}

// addRemark adds a note for the agent about how a call was made.
func (s *state) addRemark(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.exec.Notes) < maxNotes && !slices.Contains(s.exec.Notes, text) {
		s.exec.Notes = append(s.exec.Notes, text)
	}
}
