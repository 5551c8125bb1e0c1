package executor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Replay runs an execution of p again from its journal, offline, in its own sandbox. It makes no
// calls, and changes neither sessions nor their files.
func (x *Executor) Replay(ctx context.Context, p tool.Principal, id string, o execution.ReplayOptions) (
	*execution.Replayed, error) {
	st, err := x.readJournalFor(ctx, p, id)
	switch {
	case err != nil:
		return nil, err
	case st.Record.Lost != "":
		return nil, tool.Errorf(tool.Conflict, "execution %s can't be replayed: %s", id, st.Record.Lost)
	case st.Prepared == nil || len(st.Inputs) == 0:
		return nil, tool.Errorf(tool.Conflict, "execution %s can't be replayed: its program never ran", id)
	}
	switch {
	case o.Until > 0 && o.Program != "":
		return nil, tool.Errorf(tool.Invalid,
			"a replay stops at a call, or runs another program: leave out until or program")
	case o.Reads && o.Program == "":
		return nil, tool.Errorf(tool.Invalid, "a replay makes calls only for another program: leave out reads")
	}
	if n := len(st.Calls); o.Until > n {
		return nil, tool.Errorf(tool.NotFound, "execution %s has no call %d to stop at: it made %s", id, o.Until,
			text.Count(n, "call"))
	}
	_, caps, err := x.recordedSource(x.ctx, st)
	if err != nil {
		return nil, err
	}
	if caps.Ephemeral {
		return nil, tool.Errorf(tool.Conflict, "execution %s can't be replayed: it ran in a sandbox of tier %s, "+
			"whose programs don't do the same each time", id, caps.Tier)
	}
	r := &replay{env: &env{x: x, id: id, principal: p}, journal: st,
		out: &execution.Replayed{Execution: id, Console: []execution.Line{}, Calls: []journal.Call{}}}
	if now := guest.Build(caps, st.Record.Language); now != st.Record.Build {
		r.out.Notes = append(r.out.Notes,
			fmt.Sprintf("the execution ran on another build of the engine (%s, this one is %s): the same bytes can't "+
				"be promised", st.Record.Build, now))
	}
	if err := x.queue.Enter(ctx, p.ID); err != nil {
		return nil, err
	}
	defer x.queue.Leave(p.ID)
	if o.Program != "" {
		return r.out, r.tryOther(ctx, p, o)
	}
	played, err := r.play(ctx, o.Until)
	if err != nil {
		return nil, err
	}
	r.recompileProgram()
	r.fillResult(played)
	r.compareResult(played)
	return r.out, nil
}

// A replay is a run of an execution's program from its journal.
type replay struct {
	*env
	journal *journal.History
	program *program.Program
	out     *execution.Replayed
}

// play runs the program of the journal again.
func (r *replay) play(ctx context.Context, until int) (*journal.Played, error) {
	box, err := r.x.recordedGuest(ctx, r.journal)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	return r.journal.Play(ctx, box, until)
}

// recompileProgram sets the program as the guest received it, with source positions if the agent's
// text still compiles to the same code.
func (r *replay) recompileProgram() {
	_, now, err := r.compileSource(r.journal.Begin.Source)
	if err != nil {
		now = nil
	}
	r.program = recordedProgram(r.journal, now)
}

// compileSource compiles source as a replacement for the program of the journal. It also returns
// the files of the new program.
func (r *replay) compileSource(source string) (*vfs.FS, *program.Program, error) {
	tree, _, err := r.x.live.FS(context.Background(), r.principal, nil)
	if err != nil {
		return nil, nil, err
	}
	was := r.journal.Prepared
	f := &files{env: r.env, taint: &taint{env: r.env}, fs: tree}
	p, err := f.compileText(program.Request{Source: source, Principal: r.principal,
		Language: r.journal.Begin.Language, Session: was.InSession, Declared: was.Known, Unchecked: true})
	return tree, p, err
}

// fillResult fills in the result from a guest that ran the program.
func (r *replay) fillResult(played *journal.Played) {
	out := r.out
	for _, c := range played.Console {
		if c.Level == sandbox.NoteLevel {
			continue
		}
		out.Console = append(out.Console, execution.Line{Level: c.Level, Text: rewriteFrames(r.program, c.Text)})
	}
	for _, c := range played.Calls {
		if r.program != nil {
			c.Replay.Line, _, _ = r.program.Locate(c.Replay.Stack)
		}
		out.Calls = append(out.Calls, c)
	}
	out.Differs, out.Value = played.Differs, json.RawMessage("null")
	switch end := played.End; {
	case played.Stopped:
		out.State = "stopped"
	case end != nil && end.Done != nil:
		out.State = string(execution.Done)
		if len(end.Done.Value) > 0 {
			out.Value = json.RawMessage(rewriteFrames(r.program, string(end.Done.Value)))
		}
	case end != nil:
		out.State, out.Error = string(execution.Failed), execution.Thrown(r.program, &end.Fail.Error)
	case played.Err != nil:
		out.State, out.Error = string(execution.Failed), r.failureOf(played.Err)
	default:
		out.State = "cut"
	}
}

// compareResult checks whether the replay had the same result as the execution.
func (r *replay) compareResult(played *journal.Played) {
	st, out := r.journal, r.out
	if played.Stopped || st.End == nil {
		return
	}
	if st.End.Said == "" { // it was ended from outside, so only the guest's output up to that point can be compared
		if out.Differs == "" {
			was := "ended from outside"
			if st.Record.State == journal.Interrupted {
				was = "interrupted"
			}
			out.Notes = append(out.Notes, "the execution was "+was+": its journal ends there")
		}
		return
	}
	if out.Same = played.Said == st.End.Said; out.Same || out.Differs != "" {
		return
	}
	var then execution.Execution
	if json.Unmarshal(st.End.Execution, &then) != nil {
		return
	}
	switch {
	case len(then.Calls) != len(out.Calls):
		out.Differs = fmt.Sprintf("it made %s, and had made %d", text.Count(len(out.Calls), "call"), len(then.Calls))
	case string(then.State) != out.State:
		out.Differs = "it " + out.State + ", and had " + string(then.State)
	case string(then.Value) != string(out.Value):
		out.Differs = "its value is another"
	default:
		out.Differs = "what it logged, or the text of its error, is another"
		for i := range min(len(then.Console), len(out.Console)) {
			if then.Console[i] != out.Console[i] {
				out.Differs = fmt.Sprintf("line %d of its console is another", i+1)
				break
			}
		}
	}
}

// recordedGuest returns a guest in the state in which the program began. For a program in a
// session, it reruns the session's earlier programs; otherwise the guest is fresh.
func (x *Executor) recordedGuest(ctx context.Context, st *journal.History) (sandbox.Sandbox, error) {
	var journals []*session.Journal
	var err error
	for range 3 { // a program of the session may be saved at the same time
		if journals, err = x.live.Journals(ctx, st.Record.Principal, st.Record.Session, st.Prepared.Session,
			st.Prepared.Programs); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	src, _, err := x.recordedSource(ctx, st)
	if err != nil {
		return nil, err
	}
	return src.Rerun(ctx, st.Record.Principal, st.Record.Language, journals)
}
