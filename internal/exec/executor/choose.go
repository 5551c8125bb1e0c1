package executor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An isolation is the kind of sandbox that was chosen for a run. It never changes.
type isolation struct {
	guests *guest.Source // nil: not chosen yet
	engine string        // name of the engine, for display
	build  string        // identity of the engine's build
	// process means that guests are only kept as processes
	process bool
}

// chooseSandbox chooses the kind of sandbox in which r runs: the cheapest that its grant allows and
// that runs its language. A session stays in the kind in which it began. A recovered execution, or
// the execution that carries out a plan, stays in the kind of the original.
func chooseSandbox(r *run, a arguments) (sandbox.Capabilities, error) {
	n := guest.Need{Tier: a.tier, Language: r.language, Kind: a.kind, Image: a.image}
	if n.Kind == "" && r.machine.hold != nil && !needsMove(r, n, a.Code) {
		if n.Kind = guest.StateKind(r.machine.hold.State()); n.Kind != "" {
			if err := useSessionImage(r, &n); err != nil {
				return sandbox.Capabilities{}, err
			}
		}
	}
	if n.Kind == "" {
		n.Imports, n.Requires = r.foreignImports(a.Code)
	}
	src, caps, err := r.x.guests.ChooseSource(r.x.ctx, n)
	var crash *sandbox.CrashError
	switch {
	case errors.As(err, &crash): // temporary
		return caps, err
	case err != nil && r.history.isReplayed():
		return caps, errInterrupted("it can't continue in the kind of sandbox in which it began: %s",
			tool.AsError(err).Msg)
	case err != nil && a.kind == "" && n.Kind != "":
		return caps, refusedBySession(r, n, err)
	case err != nil:
		return caps, err
	case caps.Ephemeral && r.machine.hold != nil && r.plan != nil:
		return caps, tool.Errorf(tool.Unavailable, "a program can't be planned in session %q: its sandbox is of "+
			"tier %s, and what the program does in memory there can't be undone. Leave session or mode out",
			r.machine.hold.Name(), caps.Tier)
	case caps.Ephemeral && r.history.isReplayed():
		return caps, errInterrupted("it ran in a sandbox of tier %s, which ended with biplane. Its finished calls are "+
			"listed. Write a program for the rest, with after: %q, which doesn't repeat them", caps.Tier, r.id)
	}
	if err := admitImage(r, a, src.ImageName()); err != nil {
		return caps, err
	}
	if err := admitMove(r, a, caps.Tier); err != nil {
		return caps, err
	}
	r.machine.isolation = isolation{guests: src, engine: guest.Engine(caps, r.language),
		build: guest.Build(caps, r.language), process: caps.Ephemeral}
	r.files.setTier(caps.Tier)
	r.state.setTier(caps.Tier, src.ImageName())
	return caps, nil
}

// needsMove reports whether the session of a program moves to processes: it began in a kind of
// sandbox that keeps snapshots, and this program can only run in a kind that has processes.
func needsMove(r *run, n guest.Need, code string) bool {
	kind := guest.StateKind(r.machine.hold.State())
	if kind == "" || r.machine.hold.State().HasProcess() || r.plan != nil || r.history.isReplayed() {
		return false
	}
	n.Imports, n.Requires = r.foreignImports(code)
	src, caps, err := r.x.guests.ChooseSource(r.x.ctx, n)
	r.machine.moves = err == nil && caps.Ephemeral && src.KindName() != kind
	for _, g := range r.machine.hold.State().Guests {
		r.machine.moves = r.machine.moves && slices.Contains(caps.Runtimes, guest.Runtime(g.Language))
	}
	return r.machine.moves
}

// admitMove returns an error if policy forbids that the session moves. The call then names the
// tier, as if the agent had chosen it.
func admitMove(r *run, a arguments, tier tool.Tier) error {
	if !r.machine.moves {
		return nil
	}
	a.tier = max(a.tier, tier)
	return r.x.cfg.Supervisor.AdmitMove(r.originalCall(a), r.id, r.machine.hold.Name())
}

// useSessionImage sets the image of a need to that of the session, in which the program's state is.
func useSessionImage(r *run, n *guest.Need) error {
	has := r.machine.hold.State().Image
	if n.Image == "" || n.Image == has {
		n.Image = has
		return nil
	}
	began := "without an image"
	if has != "" {
		began = "with image " + has
	}
	return tool.Errorf(tool.Conflict, "session %q began %s, and stays so: leave image out, use another session, or "+
		"drop this one (biplane sessions end %s)", r.machine.hold.Name(), began, r.machine.hold.Name())
}

// admitImage returns an error if policy forbids an image that was chosen for the program's imports.
// An image that the call names was decided on with the call.
func admitImage(r *run, a arguments, image string) error {
	if image == a.image || r.function != nil || r.history.isReplayed() {
		return nil
	}
	a.image = image
	return r.x.cfg.Supervisor.AdmitImage(r.originalCall(a), r.id, image)
}

// foreignImports returns the modules that a program imports, without its own, skills and tools, and
// the modules that it loads with require.
func (r *run) foreignImports(code string) (out, requires []string) {
	if r.language == "typescript" {
		p := r.program
		return program.ForeignModules(slices.Concat(p.Imports, p.Loads)), program.ForeignModules(p.Requires)
	}
	if r.language != "python" {
		return nil, nil
	}
	for _, name := range program.ImportsOf(code) {
		if _, isTool := r.program.Namespaces[name]; isTool || r.program.Aliases[name] != "" || name == "skills" {
			continue
		}
		_, noFile := r.files.fs.Stat("workspace/" + name + ".py")
		_, noFolder := r.files.fs.Stat("workspace/" + name)
		if noFile != nil && noFolder != nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// explainImports adds a hint to the failure of a program that imported a module which its sandbox
// lacks: what a person can do about it. f may be nil.
func explainImports(r *run, f *execution.Failure) {
	if f == nil || r.program == nil || !lacksModule(f.Message) {
		return
	}
	n := guest.Need{Language: r.language}
	n.Imports, n.Requires = r.foreignImports(r.program.Source)
	if hint := r.x.guests.ExplainImports(r.x.ctx, n, r.machine.hold != nil); hint != "" {
		f.Hint = hint
	}
}

// lacksModule reports whether an error text says that a program's module is missing.
func lacksModule(message string) bool {
	switch {
	case strings.HasPrefix(message, "ModuleNotFoundError"):
		return !strings.Contains(message, "no network")
	case strings.HasPrefix(message, "Error: cannot import \""):
		return true
	}
	return strings.HasPrefix(message, "ReferenceError: ") && strings.Contains(message, "require")
}

// refusedBySession returns the error of a program that can't run in the sandbox of its session. It
// is err, unless the program could run outside of the session.
func refusedBySession(r *run, n guest.Need, err error) error {
	kind := n.Kind
	n.Kind = ""
	if _, _, elsewhere := r.x.guests.ChooseSource(r.x.ctx, n); elsewhere != nil {
		return err
	}
	name := r.machine.hold.Name()
	return tool.Errorf(tool.Conflict, "session %q stays in the kind of sandbox in which it began (%s), "+
		"which can't run this program: it needs tier %s or stronger, for %s. "+
		"Use another session, or leave session out (to drop this one: biplane sessions end %s)",
		name, kind, n.Tier, n.Language, name)
}

// recordedNeed returns the requirements of an execution on its sandbox when it is recovered or
// replayed. Once its program has been prepared, that includes the kind in which it ran.
func recordedNeed(st *journal.History) guest.Need {
	n := guest.Need{Tier: max(st.Begin.Tier, st.Record.Tier), Language: st.Record.Language, Kind: st.Begin.Sandbox}
	if st.Prepared != nil {
		n.Kind = sandbox.KindOrDefault(st.Prepared.Sandbox)
	}
	return n
}

// recordedSource returns the source of the kind of sandbox in which an execution ran.
func (x *Executor) recordedSource(
	ctx context.Context, st *journal.History,
) (*guest.Source, sandbox.Capabilities, error) {
	return x.guests.ChooseSource(ctx, recordedNeed(st))
}
