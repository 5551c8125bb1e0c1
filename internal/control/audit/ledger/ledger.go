// Package ledger presents the record to users: lists, proofs, checkpoints, exports and evidence.
// Each read is recorded before it is answered.
package ledger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/export"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/control/audit/sink"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures New.
type Config struct {
	Record  *audit.Log
	Version string        // of Biplane
	Every   time.Duration // interval between sent checkpoints; sink.DefaultEvery if 0
	Sinks   []sink.Sink   // where checkpoints are sent
	System  System        // the state for evidence
	Alone   bool          // no one signs in
	Unsent  sink.Recorder // of checkpoints that can't be sent; nil: none
	Log     *slog.Logger
}

// A Ledger presents the record to users. It is safe for concurrent use.
type Ledger struct {
	cfg    Config
	log    *audit.Log
	sender *sink.Sender
	once   sync.Once // inspects the record
}

// New returns a Ledger. It sends no checkpoints until Send is called.
func New(cfg Config) *Ledger {
	l := &Ledger{cfg: cfg, log: cfg.Record}
	l.sender = sink.NewSender(sink.Config{Maker: &maker{ledger: l, turn: make(chan struct{}, 1)}, Every: cfg.Every,
		Sinks: cfg.Sinks, Unsent: cfg.Unsent, Log: cfg.Log})
	return l
}

// Inspect inspects the record on its first call. It is called before the record's state is reported
// or signed, and otherwise shortly after the process has started. Problems appear in the log, in
// the status, in the doctor's report, and in the record itself.
func (l *Ledger) Inspect() {
	l.once.Do(func() {
		// Log.Inspect has already reported conflicts.
		if err := l.log.Inspect(context.Background()); err != nil && tool.AsError(err).Kind != tool.Conflict {
			l.cfg.Log.Error("audit record not readable", "err", err)
		}
	})
}

// Send sends checkpoints until ctx is done.
func (l *Ledger) Send(ctx context.Context) { l.sender.Run(ctx) }

// A maker makes checkpoints of a ledger's record.
type maker struct {
	ledger *Ledger
	turn   chan struct{}   // has capacity 1: its holder may use last
	last   sink.Checkpoint // zero: none yet
}

// MakeCheckpoint returns a checkpoint, or the last one again if the log hasn't grown.
func (m *maker) MakeCheckpoint(ctx context.Context) (sink.Checkpoint, error) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	m.ledger.Inspect()
	log := m.ledger.log
	h, err := log.Head(ctx)
	if err != nil || m.last.Text != "" && h.Size == m.last.Size {
		return m.last, err
	}
	c, err := log.Checkpoint(ctx)
	if err != nil {
		return m.last, err
	}
	m.last = sink.Checkpoint{Origin: c.Origin, Size: c.Size, Text: c.Text}
	return m.last, nil
}

// recordRead records that p reads the record. If that fails, nothing may be read.
func (l *Ledger) recordRead(ctx context.Context, p tool.Principal, action string, detail map[string]string) error {
	if detail == nil {
		detail = map[string]string{}
	}
	detail["action"] = action
	_, err := l.log.Event(ctx, audit.Event{Kind: audit.KindRead, Principal: p, Detail: detail})
	return err
}

// State returns the state of the record.
func (l *Ledger) State(ctx context.Context) (*api.AuditState, error) {
	out := &api.AuditState{Origin: l.log.Origin(), Key: l.log.Public()}
	h, err := l.log.Head(ctx)
	if err == nil {
		out.Size, out.Root = h.Size, h.Root.String()
		l.Inspect()
		err = l.log.Found()
	}
	if err != nil {
		out.Error = tool.AsError(err).Msg
	}
	if done, size := l.log.VerifyProgress(); size > 0 {
		out.Verifying = &api.AuditProgress{Leaves: min(done, size), Size: size}
	}
	out.Sinks, err = l.Sinks()
	if err != nil && out.Error == "" {
		out.Error = tool.AsError(err).Msg
	}
	return out, nil
}

// Sinks returns the states of the sinks, and the error of the last checkpoint, if it couldn't be
// made.
func (l *Ledger) Sinks() ([]api.AuditSink, error) {
	states, err := l.sender.States()
	out := make([]api.AuditSink, len(states))
	for i, s := range states {
		out[i] = api.AuditSink{Name: s.Name, Sent: s.Sent, SentAt: s.SentAt, Waiting: s.Waiting, Failures: s.Failures,
			Error: s.Error}
	}
	return out, err
}

// Records returns the records that match q.
func (l *Ledger) Records(ctx context.Context, p tool.Principal, q audit.Query) ([]api.AuditRecord, error) {
	if err := l.recordRead(ctx, p, "list", queryFilters(q)); err != nil {
		return nil, err
	}
	records, err := l.log.Records(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]api.AuditRecord, 0, len(records))
	for i := range records {
		out = append(out, *wireRecord(&records[i]))
	}
	return out, nil
}

// queryFilters returns the filters of a query, for the record of a read.
func queryFilters(q audit.Query) map[string]string {
	out := map[string]string{}
	for k, v := range map[string]string{
		"kind": string(q.Kind), "execution": q.Execution, "tool": q.Tool, "upstream": q.Upstream,
		"principal": q.Principal, "outcome": string(q.Outcome), "effect": q.Effect, "before": q.Before,
	} {
		if v != "" {
			out[k] = v
		}
	}
	for k, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			out[k] = t.UTC().Format(time.RFC3339)
		}
	}
	return out
}

// wireRecord returns a record in the form of the API, without kept data.
func wireRecord(r *audit.Record) *api.AuditRecord {
	s, e := r.Subject, r.End
	out := &api.AuditRecord{
		ID: r.ID, Seq: r.Seq, Kind: string(r.Kind), Time: r.Time, Principal: r.Principal, Client: r.Client,
		Tool: s.Tool, Upstream: s.Upstream,
		Execution: s.Execution, Call: s.Call, Session: s.Session, File: s.File, Name: s.Name,
		AuditDecision: api.AuditDecision{
			Effect: r.Decision.Effect, Policy: r.Decision.Policy, Reason: r.Decision.Reason,
		},
		Outcome: string(e.Outcome), ErrorKind: string(e.ErrorKind),
		Arguments: wirePayload(r.Arguments), Result: wirePayload(e.Result), Error: wirePayload(e.Error),
		Detail:       r.Detail,
		AuditProblem: api.AuditProblem{Problem: r.Problem, Absent: r.Absent},
	}
	switch {
	case e.Outcome == audit.Unfinished:
		out.Outcome = "unfinished"
	case r.Kind == audit.KindCall:
		out.Ended, out.EndSeq, out.Micros = e.Time, e.Seq, e.Duration.Microseconds()
	}
	return out
}

func wirePayload(p retention.Payload) *api.AuditPayload {
	if p.Digest == "" {
		return nil
	}
	return &api.AuditPayload{Digest: p.Digest, Size: p.Size, Whole: p.Kept == p.Digest}
}

// Record returns a record with its leaves and kept data.
func (l *Ledger) Record(ctx context.Context, p tool.Principal, id string) (*api.AuditRecord, error) {
	r, err := l.log.Record(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := l.recordRead(ctx, p, "show", map[string]string{"record": r.ID}); err != nil {
		return nil, err
	}
	out := wireRecord(r)
	if r.Problem != "" { // what it says about kept data can't be trusted
		return out, nil
	}
	for _, p := range []struct {
		to   *api.AuditPayload
		seq  int64
		from retention.Payload
	}{{out.Arguments, r.Seq, r.Arguments}, {out.Result, r.End.Seq, r.End.Result}, {out.Error, r.End.Seq, r.End.Error}} {
		if err := l.addKept(ctx, p.to, p.seq, p.from); err != nil {
			return nil, err
		}
	}
	leaves, err := l.log.Leaves(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, leaf := range leaves {
		out.Leaves = append(out.Leaves, api.AuditLeaf{Seq: leaf.Seq, Leaf: string(leaf.Data)})
	}
	return out, nil
}

// addKept adds the data kept for a payload.
func (l *Ledger) addKept(ctx context.Context, to *api.AuditPayload, seq int64, from retention.Payload) error {
	if to == nil || from.Kept == "" {
		return nil
	}
	data, err := l.log.Kept(ctx, seq, from.Kept)
	if err != nil {
		return err
	}
	to.Gone = data == nil
	to.Text = string(bytes.ToValidUTF8(data, []byte(string(utf8.RuneError))))
	return nil
}

// Prove returns the proof that a record is in the log.
func (l *Ledger) Prove(ctx context.Context, p tool.Principal, id, at string) (*api.AuditProof, error) {
	if _, err := l.log.Record(ctx, id); err != nil {
		return nil, err
	}
	if err := l.recordRead(ctx, p, "prove", map[string]string{"record": id}); err != nil {
		return nil, err
	}
	text, err := l.log.Prove(ctx, id, at)
	return &api.AuditProof{Proof: text}, err
}

// Verify verifies the whole record, and records any faults. It works even if the record is so
// damaged that nothing can be added to it.
func (l *Ledger) Verify(ctx context.Context, p tool.Principal, outside []string) (*api.AuditReport, error) {
	l.Inspect()
	unread := l.recordRead(ctx, p, "verify", nil)
	if unread != nil && l.log.Found() == nil {
		return nil, unread
	}
	out, err := l.verifyRecord(ctx, p, outside)
	if err == nil && out.OK && unread != nil {
		return nil, unread
	}
	return out, err
}

func (l *Ledger) verifyRecord(ctx context.Context, p tool.Principal, outside []string) (*api.AuditReport, error) {
	r, err := l.log.Verify(ctx, outside...)
	if err != nil {
		return nil, err
	}
	out := &api.AuditReport{
		OK: r.OK(), Origin: l.log.Origin(), Size: r.Size, Root: r.Root.String(), Records: r.Records,
		Unfinished:  r.Unfinished,
		Checkpoints: r.Checkpoints, Covered: r.Covered, Payloads: r.Payloads, Segments: r.Segments,
		Absent: r.Absent, Faults: []api.AuditFault{}, More: r.More,
	}
	for _, f := range r.Faults {
		out.Faults = append(out.Faults, api.AuditFault{What: f.What, Seq: f.Seq, Last: f.Last, Record: f.Record,
			Message: f.Msg})
	}
	for _, o := range r.Outside {
		out.Outside = append(out.Outside, api.AuditOutside{Size: o.Size, OK: o.OK})
	}
	if !out.OK {
		first := r.Faults[0]
		kind := tool.Conflict
		if r.LacksOnlySegments() {
			kind = tool.NotFound
			l.cfg.Log.Error("segments of the audit record are missing", "segments", len(r.Faults), "first", first.Msg)
		} else {
			l.cfg.Log.Error("the audit record was changed", "faults", len(r.Faults), "first", first.Msg)
		}
		// If nothing can be appended, the faults are still reported.
		_, _ = l.log.Event(ctx, audit.Event{Kind: audit.KindRecord, Principal: p, Outcome: audit.Failed,
			ErrorKind: kind, Detail: map[string]string{
				"action": "verify", "faults": strconv.Itoa(len(r.Faults)), "first": first.What + " at leaf " +
					strconv.FormatInt(first.Seq, 10),
			}})
	}
	return out, nil
}

// Checkpoint signs the record and sends the checkpoint to all sinks.
func (l *Ledger) Checkpoint(ctx context.Context) (*api.AuditCheckpoint, error) {
	c, err := l.sender.SendNow(ctx)
	if err != nil {
		return nil, err
	}
	out, err := l.parseCheckpoint(c.Text)
	if err != nil {
		return nil, err
	}
	out.Sinks, err = l.Sinks()
	return out, err
}

func (l *Ledger) parseCheckpoint(text string) (*api.AuditCheckpoint, error) {
	c, err := proof.ParseCheckpoint(text, l.log.Public())
	if err != nil {
		return nil, err
	}
	return &api.AuditCheckpoint{Origin: c.Origin, Size: c.Size, Root: c.Root.String(), Checkpoint: c.Text}, nil
}

// mostCheckpoints is the maximum length of a list of checkpoints: more than a year of hourly ones.
const mostCheckpoints = 10_000

// Checkpoints returns the stored checkpoints. If there are too many, it omits the oldest.
func (l *Ledger) Checkpoints(ctx context.Context) ([]api.AuditCheckpoint, error) {
	out := []api.AuditCheckpoint{}
	err := l.log.Checkpoints(ctx, func(c *proof.Checkpoint) error {
		if len(out) == mostCheckpoints {
			out = append(out[:0], out[mostCheckpoints/10:]...)
		}
		out = append(out, api.AuditCheckpoint{Origin: c.Origin, Size: c.Size, Root: c.Root.String(),
			Checkpoint: c.Text})
		return nil
	})
	return out, err
}

// Consistency returns the proof that the record only grew since an older checkpoint.
func (l *Ledger) Consistency(ctx context.Context, p tool.Principal, older string) (*api.AuditProof, error) {
	if err := l.recordRead(ctx, p, "prove", map[string]string{"since": "a checkpoint"}); err != nil {
		return nil, err
	}
	text, err := l.log.ProveConsistency(ctx, older)
	return &api.AuditProof{Proof: text}, err
}

// Export writes the records of a period.
func (l *Ledger) Export(ctx context.Context, p tool.Principal, w io.Writer, format string, from, to time.Time) error {
	detail := queryFilters(audit.Query{Since: from, Until: to})
	detail["format"] = format
	if err := l.recordRead(ctx, p, "export", detail); err != nil {
		return err
	}
	flaws := 0
	_, err := export.Write(ctx, w, format, l.aboutExport(), countRecords(l.recordsBetween(ctx, from, to), &flaws))
	if err == nil && flaws > 0 {
		err = &audit.FlawError{Msg: fmt.Sprintf("%d of the records were changed after they were recorded, or are in "+
			"missing segments (see their problem): run biplane audit verify, and keep a copy of the data folder",
			flaws)}
	}
	return err
}

// countRecords counts the records that are not what was recorded.
func countRecords(records export.Records, flaws *int) export.Records {
	return func(yield func(*audit.Record, error) bool) {
		for r, err := range records {
			if err == nil && r.Problem != "" {
				*flaws++
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (l *Ledger) aboutExport() export.About {
	return export.About{Origin: l.log.Origin(), Version: l.cfg.Version}
}

// recordsBetween returns the records of a period whose kind is in kinds, oldest first, and all
// records with a Problem. It reads one page at a time. Without kinds it returns all records.
func (l *Ledger) recordsBetween(ctx context.Context, from, to time.Time,
	kinds ...audit.Kind) iter.Seq2[*audit.Record, error] {
	wanted := map[audit.Kind]bool{}
	for _, k := range kinds {
		wanted[k] = true
	}
	q := audit.Query{Since: from, Until: to, After: audit.FirstID(from), Limit: 1000}
	if len(kinds) == 1 {
		q.Kind = kinds[0]
	}
	return func(yield func(*audit.Record, error) bool) {
		for {
			page, err := l.log.Records(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if (len(wanted) == 0 || wanted[page[i].Kind] || page[i].Problem != "") && !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < q.Limit {
				return
			}
			q.After = page[len(page)-1].ID
		}
	}
}

// SplitCheckpoints returns the checkpoints in a text of concatenated ones.
func SplitCheckpoints(text string) []string { return sink.SplitNotes(text) }

// Proved is the statement of a proof.
type Proved struct {
	Origin string          `json:"origin"`
	Size   int64           `json:"size"`            // number of leaves signed by the checkpoint
	Leaves []api.AuditLeaf `json:"leaves"`          // leaves proved to be in the log
	Older  *int64          `json:"older,omitempty"` // for a consistency proof: number of leaves of the older checkpoint
	Held   bool            `json:"held"`            // the checkpoint is one of the given ones
}

// CheckProof checks a proof of a record, or of consistency, with only the public key. If held has
// checkpoints, the proof must be for one of them.
func CheckProof(text, public string, held []string) (*Proved, error) {
	out := &Proved{Leaves: []api.AuditLeaf{}}
	var of *proof.Checkpoint
	if older, newer, err := proof.CheckConsistency(text, public); err == nil {
		of, out.Older = newer, &older.Size
		if len(held) > 0 && !isHeld(older, held, public) && !isHeld(newer, held, public) {
			return nil, tool.Errorf(tool.Conflict,
				"neither of the proof's checkpoints, of %d and %d leaves, is among the given ones",
				older.Size, newer.Size)
		}
	} else if proof.IsConsistency(text) {
		return nil, err
	} else {
		proofs, err := proof.CheckInclusion(text, public)
		if err != nil {
			return nil, err
		}
		for _, p := range proofs {
			of = p.Checkpoint
			if len(held) > 0 && !isHeld(of, held, public) {
				return nil, tool.Errorf(tool.Conflict,
					"the proof's checkpoint, of %d leaves, is not among the given ones", of.Size)
			}
			out.Leaves = append(out.Leaves, api.AuditLeaf{Seq: p.Seq, Leaf: string(p.Leaf)})
		}
	}
	out.Origin, out.Size, out.Held = of.Origin, of.Size, len(held) > 0
	return out, nil
}

func isHeld(c *proof.Checkpoint, held []string, public string) bool {
	for _, text := range held {
		if h, err := proof.ParseCheckpoint(text, public); err == nil && h.Head == c.Head {
			return true
		}
	}
	return false
}
