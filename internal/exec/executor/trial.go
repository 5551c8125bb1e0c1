package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of the calls that a trial makes for real.
const (
	maxLiveReads = 100
	liveReadTime = 2 * time.Minute // all together
)

// tryOther runs another program against the recorded calls of the execution, on behalf of its
// principal. Calls that are not recorded are made on behalf of p, if o permits that.
func (r *replay) tryOther(ctx context.Context, p tool.Principal, o execution.ReplayOptions) error {
	st, out := r.journal, r.out
	r.principal = tool.Principal{ID: st.Record.Principal}
	if st.Begin.Principal.ID != "" {
		r.principal = st.Begin.Principal
	}
	fs, prepared, err := r.compileSource(o.Program)
	r.program = prepared
	var wrong *program.Error
	if errors.As(err, &wrong) {
		out.State, out.Error, out.Value = string(execution.Failed), r.failureOf(err), json.RawMessage("null")
		return nil
	} else if err != nil {
		return err
	}
	if guest.Runtime(st.Record.Language) != prepared.Runtime {
		return tool.Errorf(tool.Invalid, "the program is in another language than the execution's, which ran in %s",
			st.Record.Language)
	}
	first, err := r.play(ctx, 0)
	if err != nil {
		return err
	}
	h := &trialHost{env: r.env, fs: fs, answers: first.Files}
	if o.Reads {
		if h.reads, err = r.permitReads(p, o.Program); err != nil {
			return err
		}
	}
	played, err := r.runTrial(ctx, h)
	if err != nil {
		return err
	}
	r.fillResult(played)
	if played.Differs != "" {
		out.State = "diverged"
	}
	for _, c := range st.Left(played) {
		out.Left = append(out.Left, *c)
	}
	r.compareTrial()
	return nil
}

// compareTrial compares the result of another program with the recorded result.
func (r *replay) compareTrial() {
	st, out := r.journal, r.out
	var then execution.Execution
	if st.End == nil || out.State == "diverged" || json.Unmarshal(st.End.Execution, &then) != nil {
		return
	}
	messageOf := func(f *execution.Failure) string {
		if f == nil {
			return ""
		}
		return f.Message
	}
	for _, c := range []struct {
		name string
		same bool
	}{
		{"state", string(then.State) == out.State},
		{"value", bytes.Equal(tool.CanonicalJSON(then.Value), tool.CanonicalJSON(out.Value))},
		{"error", messageOf(then.Error) == messageOf(out.Error)},
		{"console", slices.Equal(then.Console, out.Console)},
	} {
		if !c.same {
			out.Changes = append(out.Changes, c.name)
		}
	}
}

// runTrial runs the program against the recorded calls.
func (r *replay) runTrial(ctx context.Context, h *trialHost) (*journal.Played, error) {
	st, p := r.journal, r.program
	box, err := r.x.recordedGuest(ctx, st)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	begun, _ := st.Run()
	if begun == nil {
		return nil, tool.Errorf(tool.Conflict,
			"execution %s can't be replayed: its journal does not begin with a program", st.Record.ID)
	}
	return st.Try(ctx, box, journal.Trial{Host: h, Eager: p.Runtime == "python", CPU: r.x.cfg.Limits.CPU,
		Run: &sandbox.Run{Code: p.Code, Name: p.Name, Line: p.Line, Namespaces: mergeNamespaces(p, st.Prepared),
			Aliases: p.Aliases, Whole: p.Whole, Seed: begun.Seed, Session: begun.Session}})
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

// A trialHost is the host of a program that replaces another in its journal.
type trialHost struct {
	*env
	fs      *vfs.FS
	answers map[string][]*sandbox.Answer // recorded answers to file operations, by journal.FileKey
	reads   *liveReads                   // nil: no calls are made
}

// AnswerFile answers a file operation with its recorded answer, and others from the program's
// files, which are initially empty.
func (h *trialHost) AnswerFile(f *sandbox.File) *sandbox.Answer {
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
func (h *trialHost) PlainForm(c *sandbox.GuestCall) (string, json.RawMessage) {
	path := journal.PathOf(c)
	return h.plainForm(path, h.argumentsOf(c))
}

// MakeCall makes a call for real if it only reads and the user asked for that.
func (h *trialHost) MakeCall(ctx context.Context, k *journal.Call) error {
	if h.reads == nil {
		return journal.ErrOffline
	}
	return h.reads.makeCall(ctx, k)
}

// permitReads returns the calls for real of a trial of source by p. Only the principal of the
// execution may make some: its recorded data may be in their arguments.
func (r *replay) permitReads(p tool.Principal, source string) (*liveReads, error) {
	st := r.journal
	switch {
	case p.ID != st.Record.Principal:
		return nil, tool.Errorf(tool.Denied, "execution %s is of another principal, who alone can have calls made in "+
			"its replay: leave out reads", st.Record.ID)
	case !st.Record.State.Ended():
		return nil, tool.Errorf(tool.Conflict, "execution %s has not ended: leave out reads, or wait for its end",
			st.Record.ID)
	}
	l := &liveReads{env: r.env, principal: p, ends: time.Now().Add(liveReadTime)}
	l.labels.Add(st.Labels())
	l.by = &tool.Program{Execution: st.Record.ID, Digest: programDigest(source), Language: st.Record.Language,
		Session: st.Record.Session, Tier: st.Record.Tier, Findings: r.program.Findings, Planner: onlyReads{},
		Unattended: true}
	c := &tool.Call{Path: tool.ExecutePath, Principal: p, Labels: l.labels.All()}
	c.Grant.Tier = st.Begin.Tier
	var err error
	if c.Arguments, err = tool.Marshal(map[string]string{"code": source, "language": st.Record.Language}); err != nil {
		return nil, err
	}
	return l, r.x.cfg.Supervisor.AdmitTrial(c, st.Record.ID, r.program.Findings)
}

// liveReads are the calls that a trial makes for real. Policy decides on each, and each is on the
// record; the journal is not changed. A trial makes one call at a time.
type liveReads struct {
	*env
	principal tool.Principal
	by        *tool.Program
	labels    tool.Labels // of the recorded data, and of what was read since
	ends      time.Time
	made      int
}

// makeCall makes a call and sets its outcome. It returns an error if the call was not sent.
func (l *liveReads) makeCall(ctx context.Context, k *journal.Call) error {
	if local, refusal := checkLocal(k.Tool); local {
		if refusal == nil {
			refusal = tool.Errorf(tool.Unavailable, "results of other executions are not available in a replay")
		}
		return refusal
	}
	if l.made++; l.made > maxLiveReads {
		return tool.Errorf(tool.Limit, "a replay makes at most %d calls", maxLiveReads)
	}
	ctx, cancel := context.WithDeadline(ctx, l.ends)
	defer cancel()
	began := time.Now()
	res, err := l.x.cfg.Door.Call(ctx, &tool.Call{Path: k.Tool, Arguments: k.Arguments, Principal: l.principal,
		Labels: l.labels.All(), By: l.by, Observer: trialObserver{of: l}})
	if err != nil && tool.AsError(err).Unsent {
		return err
	}
	var value json.RawMessage
	err = l.guard("a result", func() error {
		switch {
		case err != nil:
			return err
		case res.IsError:
			return &tool.Error{Kind: failedKind, Msg: values.ErrorText(res)}
		case len(res.Raw) > l.x.cfg.Limits.Result:
			return tool.Over(execution.ResultLimit, "the result is %s, more than a program can be given",
				text.Size(len(res.Raw)))
		}
		var err error
		value, err = values.Of(tool.MethodIn(k.Tool), res, func(values.Block, json.RawMessage) string {
			return fmt.Sprintf("replay_%d", k.N) // an unknown handle
		})
		return err
	})
	k.MS, k.Value, k.ReadOnly, k.Ended = time.Since(began).Milliseconds(), value, true, l.x.cfg.Clock.Now()
	if res != nil {
		k.Bytes = len(res.Raw)
	}
	if err != nil {
		k.Failure = guestError(err)
		k.Error, k.Kind = k.Failure.Message, k.Failure.Kind
	}
	return nil
}

// A trialObserver follows a call that a trial makes.
type trialObserver struct {
	tool.NoObserver
	of *liveReads
}

// OnLabels adds the labels to those of the trial's later calls.
func (o trialObserver) OnLabels(labels []string) error {
	o.of.labels.Add(labels)
	return nil
}

// onlyReads is the Planner of a trial: it rejects all calls that may write.
type onlyReads struct{}

// TakeOver returns an error.
func (onlyReads) TakeOver(*tool.Call, string) (*tool.Instead, error) {
	return nil, tool.NotSent(tool.Errorf(tool.Denied,
		"it may change something, and a replay makes only calls that read"))
}
