package executor

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/text"
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

// hideTexts hides the personal data in texts, unless p is nil.
func hideTexts(ctx context.Context, p Privacy, scope tool.Scope, texts tool.Texts) {
	if p != nil {
		p.HideTexts(ctx, scope, texts)
	}
}

// hideExecution returns an execution as a model may see it: e itself if p is nil.
func hideExecution(ctx context.Context, p Privacy, scope tool.Scope, e *execution.Execution) *execution.Execution {
	if p == nil {
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
	p.HideTexts(ctx, scope, texts)
	for i := range out.Calls {
		out.Calls[i].Args = text.Cut(out.Calls[i].Args, maxShort)
	}
	return &out
}

// maxLonger is the number of bytes of a call's arguments that are kept for display if personal data
// must be hidden in them first.
const maxLonger = 1 << 10

// planShown returns the text of the plan that the program waits for, as a model may see it. It is
// empty if the program waits for no plan.
func (v *env) planShown() string {
	const most = 30
	if !v.isPlanning() {
		return ""
	}
	of := v.plan.proposal()
	if of == nil {
		return ""
	}
	whole := *of
	whole.Writes = slices.Clone(whole.Writes)
	var texts tool.Texts
	for i := range whole.Writes {
		texts.JSON = append(texts.JSON, &whole.Writes[i].Arguments)
	}
	hideTexts(v.ctx, v.x.cfg.Privacy, v.scope(), texts)
	return whole.Text(most)
}
