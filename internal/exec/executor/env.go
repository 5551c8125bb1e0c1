package executor

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An env is what all parts of an execution know of it. It doesn't change once the execution has
// begun.
type env struct {
	x         *Executor
	id        string
	principal tool.Principal
	session   string          // name of its session; empty: none
	digest    string          // of its source
	ctx       context.Context // of the program and its calls
	cancel    context.CancelCauseFunc
	language  string    // "typescript" or "python"; a program's source can name it
	began     time.Time // monotonic
	plan      *planned  // its plan state; nil: none
}

// why returns the cause of r.ctx if err is its cancellation, or err.
func (v *env) why(err error) error {
	if errors.Is(err, context.Canceled) && v.ctx.Err() != nil {
		return context.Cause(v.ctx)
	}
	return err
}

// guard calls f and converts a panic to an error: a bug triggered by one program must not affect
// the others.
func (v *env) guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			v.x.cfg.Log.Error(what+" panicked", "execution", v.id, "panic", p, "stack", string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "%s failed inside biplane: the program was stopped", what)
		}
	}()
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
