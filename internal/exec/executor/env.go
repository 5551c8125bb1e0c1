package executor

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An env holds what all parts of an execution need to know about it. It doesn't change once the
// execution has begun.
type env struct {
	x         *Executor
	id        string
	principal tool.Principal
	session   string          // name of its session; empty: none
	digest    string          // of its source
	ctx       context.Context // of the program and its calls
	cancel    context.CancelCauseFunc
	done      chan struct{}       // closed when the execution has ended and its end is recorded
	language  string              // as resolved; a program's source can name it
	began     time.Time           // monotonic
	started   time.Time           // by the wall clock; when its first process began it, if it was recovered
	plan      *planState          // its plan state; nil: none
	function  *execution.Function // the function that it runs; nil: it is an agent's program
}

// causeOf returns the cause of r.ctx if err is its cancellation, or err.
func (v *env) causeOf(err error) error {
	if errors.Is(err, context.Canceled) && v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	return err
}

// recoverPanic is deferred. It converts a panic to an error: a bug triggered by one program must
// not affect the others.
func (v *env) recoverPanic(what string, err *error) {
	if p := recover(); p != nil {
		v.x.cfg.Log.Error(what+" panicked", "execution", v.id, "panic", p, "stack", string(debug.Stack()))
		*err = tool.Errorf(tool.Internal, "%s failed inside biplane: the program was stopped", what)
	}
}

// guard calls f and converts a panic to an error.
func (v *env) guard(what string, f func() error) (err error) {
	defer v.recoverPanic(what, &err)
	return f()
}

// refuse ends the guest with err, and returns err.
func (v *env) refuse(err error) error {
	v.cancel(err)
	return err
}

// failureOf returns the failure of a program that didn't run or didn't finish because of err.
func (v *env) failureOf(err error) *execution.Failure {
	f := execution.Broken(err)
	if f.Kind == string(tool.Internal) {
		v.x.cfg.Log.Error("execution", "execution", v.id, "error", err)
	}
	return f
}

// isPlanning reports whether the run is planned, so that nothing it does may be kept.
func (v *env) isPlanning() bool { return v.plan != nil && v.plan.approved == nil }

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

// hideText hides the personal data in a text.
func (v *env) hideText(text *string) {
	hideTexts(v.ctx, v.x.cfg.Privacy, v.scope(), tool.Texts{Text: []*string{text}})
}

// hideExecution returns an execution as a model may see it.
func (v *env) hideExecution(e *execution.Execution) *execution.Execution {
	return hideExecution(v.ctx, v.x.cfg.Privacy, v.scope(), e)
}

// short returns the beginning of the arguments, for texts.
func (v *env) short(args json.RawMessage) string {
	if v.x.cfg.Privacy == nil || len(args) == 0 {
		return short(args)
	}
	return text.Cut(string(args), maxLonger)
}

// hideArgs hides personal data in the arguments of calls that wait for a person, and then truncates
// them.
func (v *env) hideArgs(calls []heldCall) {
	var texts tool.Texts
	for i := range calls {
		texts.Text = append(texts.Text, &calls[i].args)
	}
	hideTexts(v.ctx, v.x.cfg.Privacy, v.scope(), texts)
	for i := range calls {
		calls[i].args = text.Cut(calls[i].args, maxShort)
	}
}

// now returns the time that the program sees, in milliseconds since the epoch.
func (v *env) now() int64 {
	if v.plan != nil {
		return v.plan.currentTime()
	}
	return v.x.cfg.Clock.Now().UnixMilli()
}

// seed returns the seed of the program's random numbers.
func (v *env) seed() string {
	if v.plan != nil {
		return v.plan.seed
	}
	return newSeed()
}
