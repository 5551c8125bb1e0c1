package daemon

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An eventRecorder records events.
type eventRecorder interface {
	noteQuarantine(upstream, name string)
	event(ctx context.Context, e audit.Event) error
}

// event writes e to the record. Errors have already been logged.
func (d *Daemon) event(ctx context.Context, e audit.Event) error {
	_, err := d.audit.Event(ctx, e)
	return err
}

// withError sets the outcome of an event if err is not nil.
func withError(e audit.Event, err error) audit.Event {
	if err != nil {
		e.Outcome, e.ErrorKind = audit.Failed, tool.AsError(err).Kind
	}
	return e
}

// RecordStart tells clients of a new execution.
func (d supervisor) RecordStart(id string, p tool.Principal) {
	people(d).addEvent(api.EventExecution, id, api.StateRunning, p.ID)
}

// RecordEnd records the end of a program, unless it continues in another process.
func (d supervisor) RecordEnd(e *execution.Execution) {
	people(d).addEvent(api.EventExecution, e.ID, string(e.State), e.Principal.ID)
	if e.Session != "" {
		people(d).addEvent(api.EventSession, e.Session, "", e.Principal.ID)
	}
	d.meters.usage.AddRun(e.Principal, e.CPU(), !e.GoesOn)
	if e.GoesOn {
		return
	}
	d.meters.metrics.CountExecution(e)
	ev := audit.Event{
		Kind: audit.KindExecution, Principal: e.Principal, Subject: audit.Subject{Execution: e.ID, Session: e.Session},
		Detail: map[string]string{
			"state": string(e.State), "calls": strconv.Itoa(len(e.Calls)), "ms": strconv.FormatInt(e.MS, 10),
			"tier": e.Tier.String(),
		},
	}
	if len(e.Missing) > 0 {
		ev.Detail["not_armed"] = strconv.Itoa(len(e.Missing))
	}
	if e.Error != nil {
		ev.Outcome, ev.Detail["error"] = audit.ToolError, e.Error.Kind
	}
	_ = d.event(context.Background(), ev) // the program has run; the error has been logged
	// One of its calls may wait for approval and not have been repeated since.
	if len(e.Calls) > 0 || e.State == execution.Interrupted {
		d.withdrawRequests(e.ID)
	}
}

// onRecord wraps the parts of the HTTP API that change something, so that these changes are
// recorded.
func (d assembly) onRecord(c httpapi.Config) httpapi.Config {
	c.Audit, c.Sessions, c.Skills, c.Journals = d.keeper.ledger, recordedSessions{d.executor.Sessions(), d.Daemon},
		recordedSkills{d.executor.Skills(), d.Daemon}, recordedExecutions{d.executor, d.Daemon}
	return c
}

// recordedExecutions records who stops an execution.
type recordedExecutions struct {
	*executor.Executor
	d *Daemon
}

// Stop stops an execution. It first records the intent, and does nothing if that fails. The end of
// the program is recorded as usual.
func (x recordedExecutions) Stop(ctx context.Context, p tool.Principal, id string) error {
	// Otherwise there is nothing to stop, and Executor.Stop returns the error.
	if e, ok := x.Execution(id); ok && e.Principal.ID == p.ID && !journal.State(e.State).Ended() {
		err := x.d.event(ctx, audit.Event{
			Kind: audit.KindExecution, Principal: p, Subject: audit.Subject{Execution: id, Session: e.Session},
			Intent: true,
			Detail: map[string]string{"action": "stop", "part": "intent"},
		})
		if err != nil {
			return err
		}
	}
	return x.Executor.Stop(ctx, p, id)
}

// recordedSessions records when a session is deleted, imported, exported or forked.
type recordedSessions struct {
	*live.Sessions
	d *Daemon
}

// record runs do between a record of the intent and one of the outcome. If the intent can't be
// recorded, do is not run.
func (s recordedSessions) record(ctx context.Context, p tool.Principal, session, action string, do func() error) error {
	e := audit.Event{Kind: audit.KindSession, Principal: p, Subject: audit.Subject{Session: session},
		Detail: map[string]string{"action": action, "part": "intent"}}
	if err := s.d.event(ctx, e); err != nil {
		return err
	}
	err := do()
	e.Detail = map[string]string{"action": action}
	_ = s.d.event(ctx, withError(e, err)) // the change is made; the error has been logged
	return err
}

// End ends a session.
func (s recordedSessions) End(ctx context.Context, p tool.Principal, name string) error {
	return s.record(ctx, p, name, "end", func() error { return s.Sessions.End(ctx, p, name) })
}

// Export writes a session as one file.
func (s recordedSessions) Export(ctx context.Context, p tool.Principal, name string, w io.Writer,
	passphrase string) error {
	return s.record(ctx, p, name, "export", func() error { return s.Sessions.Export(ctx, p, name, w, passphrase) })
}

// Import creates a session from an exported file.
func (s recordedSessions) Import(ctx context.Context, p tool.Principal, name string, r io.Reader,
	passphrase string) (info *live.Info, err error) {
	err = s.record(ctx, p, name, "import", func() (err error) {
		info, err = s.Sessions.Import(ctx, p, name, r, passphrase)
		return err
	})
	return info, err
}

// Fork copies a session.
func (s recordedSessions) Fork(ctx context.Context, p tool.Principal, from, to string) (*live.Info, error) {
	info, err := s.Sessions.Fork(ctx, p, from, to)
	_ = s.d.event(ctx, withError(audit.Event{
		Kind: audit.KindSession, Principal: p, Subject: audit.Subject{Session: to},
		Detail: map[string]string{"action": "fork", "from": from},
	}, err))
	return info, err
}

// recordedSkills records when a skill is shared with others.
type recordedSkills struct {
	*skill.Shelf
	d *Daemon
}

// Share allows other principals to import a skill, or no longer allows it.
func (s recordedSkills) Share(ctx context.Context, p tool.Principal, name string, shared bool) error {
	err := s.Shelf.Share(ctx, p, name, shared)
	action := "share"
	if !shared {
		action = "unshare"
	}
	_ = s.d.event(ctx, withError(audit.Event{
		Kind: audit.KindSession, Principal: p, Subject: audit.Subject{Name: name},
		Detail: map[string]string{"action": action + " skill"},
	}, err))
	return err
}

// recordInForce records the configuration and the policies in effect if they differ from those last
// recorded.
func (r *reloader) recordInForce(ctx context.Context) {
	d := r.d
	last, err := d.audit.Newest(ctx, audit.KindConfiguration, audit.KindPolicy)
	if err == nil {
		err = r.recordConfiguration(ctx, last[audit.KindConfiguration])
	}
	if err != nil {
		d.log.Error("configuration not recorded", "err", err)
	}
	observer{d}.recordPolicyAfter(ctx, last[audit.KindPolicy], d.policies.engine.Load(), nil)
}

// recordConfiguration records the configuration in effect, with the names of the parts that
// changed, if it differs from was, the last one recorded. The parts are stored as shortened keyed
// digests, for comparison with the next configuration. They are in the details "p0", "p1" and so
// on, each with the form "name=digest name=digest".
func (r *reloader) recordConfiguration(ctx context.Context, was *audit.Record) error {
	now, s := r.digestParts(), r.settings.Load()
	detail := map[string]string{"action": "load", "sum": s.Sum, "version": r.d.cfg.Version,
		"changed": "all: it is the first"}
	if was != nil {
		if was.Detail["sum"] == s.Sum && was.Subject.File == s.File &&
			was.Detail["version"] == r.d.cfg.Version {
			return nil
		}
		detail["changed"] = changes(unpackParts(was.Detail), now)
	}
	if state := r.state.Load(); state != nil {
		detail["action"] = "reload"
		if len(state.Restart) > 0 {
			detail["restart"] = strings.Join(state.Restart, " ")
		}
	}
	packParts(detail, now)
	_, err := r.d.audit.Event(ctx, audit.Event{
		Kind: audit.KindConfiguration, Principal: identity.LocalUser(),
		Subject: audit.Subject{File: s.File}, Detail: detail,
	})
	return err
}

// digestParts returns the keyed digests of the parts of the configuration, by name.
func (r *reloader) digestParts() map[string]string {
	out := map[string]string{}
	for name, sum := range r.settings.Load().Parts {
		mac := r.key.MAC("configuration", sum[:])
		out[name] = hex.EncodeToString(mac[:6])
	}
	return out
}

// Limits on the parts in a record, which has at most 32 entries of 512 bytes.
const (
	partsEntries = 26
	partsBytes   = 500
)

// packParts adds parts to a detail. Parts that don't fit are omitted, and "left_out" says so.
func packParts(detail, parts map[string]string) {
	line, n := "", 0
	flush := func() {
		if line != "" && n < partsEntries {
			detail["p"+strconv.Itoa(n)] = line
		}
		line, n = "", n+1
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part := strings.ReplaceAll(name, " ", "_") + "=" + parts[name]
		if len(part) > partsBytes {
			continue
		}
		if len(line)+len(part)+1 > partsBytes {
			flush()
		}
		line = strings.TrimSpace(line + " " + part)
	}
	flush()
	if n > partsEntries {
		detail["left_out"] = "parts beyond " + strconv.Itoa(partsEntries*partsBytes) + " bytes of names"
	}
}

func unpackParts(detail map[string]string) map[string]string {
	out := map[string]string{}
	for n := range partsEntries {
		for part := range strings.FieldsSeq(detail["p"+strconv.Itoa(n)]) {
			if i := strings.LastIndexByte(part, '='); i > 0 {
				out[part[:i]] = part[i+1:]
			}
		}
	}
	return out
}

// changes describes what was added, changed and removed.
func changes(was, now map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		plain := strings.ReplaceAll(name, " ", "_")
		switch old, ok := was[plain]; {
		case !ok:
			out = append(out, "+"+plain)
		case old != now[name]:
			out = append(out, "~"+plain)
		}
		delete(was, plain)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		out = append(out, "-"+name)
	}
	if len(out) == 0 {
		return "nothing that has a name: comments, order, the file's place, or biplane's version"
	}
	text := strings.Join(out, " ")
	if len(text) > partsBytes {
		text = text[:strings.LastIndexByte(text[:partsBytes-20], ' ')] + " and more"
	}
	return strings.ToValidUTF8(text, "?")
}
