package audit

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Everything read from the record is checked before it is shown. Each leaf is checked against its
// own hash, its index and the record under which it was found; its hash is checked against the
// sealed head of the tree. A record that fails a check is still shown, with Problem set, because an
// auditor has to see it.

// A reading is the result of reading the leaves of a pair.
type reading struct {
	record  *Record // nil if err is not nil
	err     error   // why the leaves can't be decoded
	problem string  // the result of Check
	absent  string  // the segment that has one of the leaves, if its file is missing
}

// readLeaves decodes the leaves of a pair once, and checks them. The pair must not change
// afterwards.
func (p *Pair) readLeaves() *reading {
	if p.reading != nil {
		return p.reading
	}
	begun, ended := p.Begun.decodeOnce(), decodedLeaf{}
	if p.Ended.Data != nil {
		ended = p.Ended.decodeOnce()
	}
	r := &reading{problem: p.checkDecoded(begun, ended)}
	if r.problem == "" {
		r.absent = cmp.Or(p.Begun.Absent, p.Ended.Absent)
	}
	switch {
	case r.absent != "":
		r.record = &Record{ID: p.Record, Seq: p.Begun.Seq}
		if begun.err == nil {
			r.record = p.toRecord(begun.content, nil)
		}
	case begun.err != nil:
		r.err = unreadableError(p.Begun.Seq, begun.err)
	case ended.err != nil:
		r.err = unreadableError(p.Ended.Seq, ended.err)
	default:
		r.record = p.toRecord(begun.content, ended.content)
	}
	p.reading = r
	return r
}

func unreadableError(seq int64, err error) error {
	return tool.Errorf(tool.Unavailable, "audit record at index %d can't be read: run biplane audit verify: %w", seq,
		err)
}

// Check describes the fault of the leaves of a pair, as far as can be told from the pair alone,
// or "".
func (p *Pair) Check() string { return p.readLeaves().problem }

func (p *Pair) checkDecoded(begun, ended decodedLeaf) string {
	if p.Doubt != "" {
		return p.Doubt
	}
	if p.Begun.Absent != "" {
		return ""
	}
	if p.Begun.Data == nil {
		return fmt.Sprintf("leaf %d was removed, or does not begin this record", p.Begun.Seq)
	}
	c, problem := p.Begun.checkContent(begun)
	switch {
	case problem != "":
		return problem
	case c.Part != PartBegun && c.Part != PartEvent:
		return fmt.Sprintf("leaf %d does not begin a record", p.Begun.Seq)
	case p.Record != "" && c.Record != p.Record:
		return fmt.Sprintf("leaf %d belongs to record %s: the index of records was changed", p.Begun.Seq, c.Record)
	case !p.Ends || p.Ended.Absent != "":
		return ""
	case p.Ended.Data == nil:
		return fmt.Sprintf("leaf %d was removed, or does not end this record", p.Ended.Seq)
	}
	e, problem := p.Ended.checkContent(ended)
	switch {
	case problem != "":
		return problem
	case e.Part != PartEnded || c.Part != PartBegun || e.Record != c.Record ||
		e.Begun != nil && *e.Begun != p.Begun.Seq:
		return fmt.Sprintf("leaf %d does not end record %s: the index of records was changed", p.Ended.Seq, c.Record)
	}
	return ""
}

// A decodedLeaf is the result of decode for a leaf.
type decodedLeaf struct {
	content *content
	err     error
}

func (l *Leaf) decodeOnce() (d decodedLeaf) {
	d.content, d.err = decodeLeaf(l.Data)
	return d
}

// checkContent returns the content of a leaf that was decoded, or what is wrong with the leaf.
func (l *Leaf) checkContent(d decodedLeaf) (*content, string) {
	switch {
	case len(l.Hashes) == 0 || l.Hashes[0] != tlog.RecordHash(l.Data):
		return nil, fmt.Sprintf("leaf %d was changed: its bytes differ from the recorded ones", l.Seq)
	case d.err != nil:
		return nil, fmt.Sprintf("biplane did not write leaf %d: %v", l.Seq, d.err)
	case d.content.Seq != l.Seq:
		return nil, fmt.Sprintf("leaf %d is in the wrong place: it belongs at %d", l.Seq, d.content.Seq)
	}
	return d.content, ""
}

// MatchesPair reports whether q matches a pair, ignoring the page. A pair that fails its check, or
// of which a leaf is absent, always matches, because its original contents are unknown.
func (q Query) MatchesPair(p *Pair) bool {
	r := p.readLeaves()
	return r.problem != "" || r.err != nil || r.absent != "" || q.matchesRecord(r.record)
}

// matchesRecord reports whether q matches r, ignoring the page.
func (q Query) matchesRecord(r *Record) bool {
	s := r.Subject
	for _, f := range [][2]string{
		{q.ID, r.ID}, {string(q.Kind), string(r.Kind)}, {q.Execution, s.Execution}, {q.Tool, s.Tool},
		{q.Upstream, s.Upstream},
		{q.Principal, r.Principal}, {string(q.Outcome), string(r.End.Outcome)}, {q.Effect, r.Decision.Effect},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return (q.Since.IsZero() || !r.Time.Before(q.Since)) && (q.Until.IsZero() || r.Time.Before(q.Until))
}

// checkPairs returns the records of pairs, each with its Problem.
func (l *Log) checkPairs(v View, pairs []Pair) ([]Record, error) {
	head, err := trustedHead(v)
	if err != nil {
		return nil, err
	}
	outside, err := notIn(v, head, pairs)
	if err != nil {
		return nil, err
	}
	segments := l.newSignedSegments(v)
	out := make([]Record, 0, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		found := p.readLeaves()
		r := Record{ID: p.Record, Seq: p.Begun.Seq}
		if found.err == nil {
			r = *found.record
		}
		if r.Problem = found.problem; r.Problem == "" && found.err != nil {
			r.Problem = fmt.Sprintf("leaf %d can't be read", p.Begun.Seq)
		}
		for _, l := range []*Leaf{&p.Begun, &p.Ended} {
			if r.Problem == "" && outside[l.Seq] && l.Data != nil {
				r.Problem = fmt.Sprintf("leaf %d differs from the sealed record", l.Seq)
			}
		}
		switch {
		case r.Problem != "" || found.absent == "":
		case !segments.hasSegment(found.absent):
			r.Problem = "it was removed: there is no segment " + found.absent
		default:
			r.Absent, r.Problem = found.absent, "it was archived, and the segment "+found.absent+" is not there"
		}
		out = append(out, r)
	}
	return out, nil
}

// trustedHead returns the sealed head, or the head computed from the stored hashes if there is no
// sealed one.
func trustedHead(v View) (proof.Head, error) {
	sealed, err := v.SealedHead()
	switch {
	case err != nil:
		return proof.Head{}, brokenError(err)
	case sealed != nil:
		return *sealed, nil
	}
	return v.Head()
}

// notIn returns the indexes of leaves in pairs that the tree of a head doesn't have at their index.
// It skips pairs that fail their Check.
func notIn(v View, head proof.Head, pairs []Pair) (map[int64]bool, error) {
	out := map[int64]bool{}
	var leaves []*Leaf
	for i := range pairs {
		p := &pairs[i]
		if p.Check() != "" {
			continue
		}
		for _, l := range []*Leaf{&p.Begun, &p.Ended} {
			switch {
			case l.Data == nil || l.Absent != "":
			case l.Seq < 0 || l.Seq >= head.Size:
				out[l.Seq] = true
			default:
				leaves = append(leaves, l)
			}
		}
	}
	return out, addOutside(v, head, leaves, out)
}

// addOutside adds to out the leaves that the tree of a head doesn't have at their index.
func addOutside(v View, head proof.Head, leaves []*Leaf, out map[int64]bool) error {
	if len(leaves) == 0 {
		return nil
	}
	switch all, err := hasLeaves(v, head, leaves); {
	case all || err != nil:
		return err
	case len(leaves) == 1:
		out[leaves[0].Seq] = true
		return nil
	}
	half := len(leaves) / 2
	if err := addOutside(v, head, leaves[:half], out); err != nil {
		return err
	}
	return addOutside(v, head, leaves[half:], out)
}

func brokenError(err error) error {
	return tool.Errorf(tool.Conflict,
		"the audit record was changed: %w: run biplane audit verify, and keep a copy of the data folder", err)
}

// A FlawError means that the output is complete, and that parts of it are not what was recorded.
type FlawError struct{ Msg string }

// Error returns the message.
func (e *FlawError) Error() string { return e.Msg }

// absentError is the error about a record whose segment is missing.
func absentError(id, name string) error {
	return tool.Errorf(tool.NotFound, "audit record %s was archived in the segment %s, whose file is missing: put it "+
		"back into the folder %s of the data folder", id, name, segment.Folder)
}

// CheckIntact returns an error if a record is not what was recorded, or if its segment is missing.
func (r *Record) CheckIntact() error {
	if r.Problem == "" {
		return nil
	}
	if r.Absent != "" {
		return absentError(r.ID, r.Absent)
	}
	return tool.Errorf(tool.Conflict, "audit record %s was changed after it was recorded: %s: run biplane audit "+
		"verify, and keep a copy of the data folder", r.ID, r.Problem)
}

// Doubt stores a problem found with the record: no call begins from now on. The first problem is
// recorded, if that is still possible.
func (l *Log) Doubt(ctx context.Context, action string, found error) {
	if !l.storeDoubt(found) {
		return
	}
	_, _ = l.Event(ctx, Event{Kind: KindRecord, Outcome: Failed, ErrorKind: tool.Conflict,
		Detail: map[string]string{"action": action, "found": found.Error()}})
}

// storeDoubt is Doubt without recording the problem. It reports whether it is the first one.
func (l *Log) storeDoubt(found error) bool {
	l.problems.mu.Lock()
	first := l.problems.found == nil
	if first {
		l.problems.found = found
	}
	l.problems.mu.Unlock()
	if first {
		l.log.Error("the audit record was changed: no more calls are made", "err", found)
	}
	return first
}

// Found returns the first problem with the record that this Log found, in Inspect, in Verify or
// while reading, or nil. No call begins once there is one.
func (l *Log) Found() error {
	l.problems.mu.Lock()
	defer l.problems.mu.Unlock()
	return l.problems.found
}
