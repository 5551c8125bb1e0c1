package executor

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// RunFunction runs a function for the principal of c until it ends, or ctx is done. It starts with
// the labels of c, and passes the labels of what it reads to the caller of c before it returns. An
// error means that the function did not run to its end.
func (x *Executor) RunFunction(ctx context.Context, c *tool.Call,
	f *execution.Function) (*execution.FunctionResult, error) {
	a := arguments{Code: f.Program.Source, Language: f.Language, language: f.Language, timeout: f.Timeout,
		tier: max(f.Tier, c.Grant.Tier)}
	if a.timeout <= 0 {
		a.timeout = x.cfg.Limits.Timeout
	}
	r := x.newRun(ctx, c.Principal, a)
	r.function = f
	r.taint.labels.Add(c.Labels)
	r.state.setOuter(c.Observe())
	x.runs.begin(r)
	if !x.start(func() { r.runToEnd(a) }) {
		r.finish(errClosing)
		return nil, tool.NotSent(errClosing)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.cancel(context.Cause(ctx))
		<-r.done
		return nil, tool.AsError(context.Cause(ctx))
	}
	if err := tells(c, r.taint.labels.All()); err != nil {
		return nil, err
	}
	end := r.state.result()
	out := &execution.FunctionResult{Value: end.Value, Undefined: end.Undefined, Failure: end.Error,
		Console: end.Console, Blocks: end.blocks}
	if values.HandleOf(out.Value) != "" && len(out.Blocks) > 0 { // the value is one of the blocks
		out.Value, out.Undefined = json.RawMessage("null"), true
	}
	return out, nil
}

// openFiles sets the files that the program sees.
func (r *run) openFiles() error {
	if r.function != nil {
		r.files.setTree(vfs.New(vfs.Config{Workspace: r.function.Files, Clock: r.x.cfg.Clock}), nil)
		return nil
	}
	fs, skills, err := r.x.live.FS(r.ctx, r.principal, r.machine.hold)
	if err != nil {
		return err
	}
	r.files.setTree(fs, skills)
	return nil
}

// refuseWrites is the Planner of a function whose tool claims to be read-only: it rejects all calls
// that may write.
type refuseWrites struct{ tools []string }

// TakeOver returns an error.
func (w refuseWrites) TakeOver(c *tool.Call, _ string) (*tool.Instead, error) {
	return nil, tool.NotSent(tool.Errorf(tool.Denied,
		"%s says that it is read-only, so it can't call %s, which may change something: remove that hint, or the call",
		w.tools[len(w.tools)-1], c.Tool.Path()))
}
