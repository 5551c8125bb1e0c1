package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

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
	if o.Until > 0 && o.Program != "" {
		return nil, tool.Errorf(tool.Invalid,
			"a replay stops at a call, or runs another program: leave out until or program")
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
		return r.out, r.tryOther(ctx, o)
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
	out.Calls = append(out.Calls, played.Calls...)
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

// tryOther runs another program against the recorded calls of the execution, on behalf of its
// principal.
func (r *replay) tryOther(ctx context.Context, o execution.ReplayOptions) error {
	st, out := r.journal, r.out
	r.principal = tool.Principal{ID: st.Record.Principal}
	if st.Begin.Principal.ID != "" {
		r.principal = st.Begin.Principal
	}
	fs, p, err := r.compileSource(o.Program)
	r.program = p
	var wrong *program.Error
	if errors.As(err, &wrong) {
		out.State, out.Error, out.Value = string(execution.Failed), r.failureOf(err), json.RawMessage("null")
		return nil
	} else if err != nil {
		return err
	}
	if guest.Runtime(st.Record.Language) != r.program.Runtime {
		return tool.Errorf(tool.Invalid, "the program is in another language than the execution's, which ran in %s",
			st.Record.Language)
	}
	first, err := r.play(ctx, 0)
	if err != nil {
		return err
	}
	box, err := r.x.recordedGuest(ctx, st)
	if err != nil {
		return err
	}
	defer box.Close()
	begun, _ := st.Run()
	if begun == nil {
		return tool.Errorf(tool.Conflict, "execution %s can't be replayed: its journal does not begin with a program",
			st.Record.ID)
	}
	t := journal.Trial{Host: &formerHost{r.env, fs, first.Files}, Eager: r.program.Runtime == "python",
		CPU: r.x.cfg.Limits.CPU}
	t.Run = &sandbox.Run{Code: r.program.Code, Name: r.program.Name, Line: r.program.Line,
		Namespaces: mergeNamespaces(r.program, st.Prepared),
		Aliases:    r.program.Aliases, Whole: r.program.Whole, Seed: begun.Seed, Session: begun.Session}
	played, err := st.Try(ctx, box, t)
	if err != nil {
		return err
	}
	r.fillResult(played)
	if played.Differs != "" {
		out.State = "diverged"
		return nil
	}
	if left := st.Left(played); len(left) > 0 {
		var names []string
		for _, c := range left[:min(len(left), 5)] {
			names = append(names, fmt.Sprintf("%s (call %d)", text.Cut(c.Tool, 100), c.N))
		}
		out.Notes = append(out.Notes, fmt.Sprintf("it did not make %s of the execution: %s",
			text.Count(len(left), "call"), strings.Join(names, ", ")))
	}
	return nil
}

// mergeNamespaces returns the upstreams that a program can use: the current ones, and the ones of
// the program that it replaces, which may no longer exist.
func mergeNamespaces(p *program.Program, was *journal.Prepared) map[string][]string {
	all := maps.Clone(was.Namespaces)
	if all == nil {
		all = map[string][]string{}
	}
	maps.Copy(all, p.Namespaces)
	return all
}

// A formerHost is the host of a program that replaces another in its journal.
type formerHost struct {
	*env
	fs      *vfs.FS
	answers map[string][]*sandbox.Answer // recorded answers to file operations, by journal.FileKey
}

// AnswerFile answers a file operation with its recorded answer, and others from the program's
// files, which are initially empty.
func (h *formerHost) AnswerFile(f *sandbox.File) *sandbox.Answer {
	a := &sandbox.Answer{ID: f.ID}
	v, err := h.fs.Do(f, func(handle string) ([]byte, error) {
		return nil, tool.Errorf(tool.NotFound, "what a tool gave under the handle %q is not here in a replay",
			text.Cut(handle, 80))
	})
	if a.Value = v; err != nil {
		a.Value, a.Error = nil, fileError(err)
	}
	key := journal.FileKey(*f)
	if of := h.answers[key]; len(of) > 0 {
		h.answers[key] = of[1:]
		a.Value, a.Error = of[0].Value, of[0].Error
	}
	return a
}

// PlainForm returns the plain form of a call.
func (h *formerHost) PlainForm(path string, args json.RawMessage) (string, json.RawMessage) {
	return h.x.cfg.Tools.PlainForm(h.principal, path, args)
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
