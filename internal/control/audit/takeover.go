package audit

import (
	"context"
	"maps"

	"github.com/biplane-dev/biplane/internal/tool"
)

// begunBefore returns the record of a call that another process began, or nil if there is none.
func (l *Log) begunBefore(ctx context.Context, id string, leaf *content) (*Record, error) {
	if id == "" {
		return nil, nil
	}
	r, err := l.Record(ctx, id)
	switch {
	case err != nil && tool.AsError(err).Kind == tool.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case r.Problem != "":
		return nil, r.CheckIntact()
	case r.Kind != KindCall || r.Subject.Call != leaf.Call || r.Subject.Execution != leaf.Execution ||
		r.Principal != leaf.Principal:
		return nil, nil // the record of another call
	}
	return r, nil
}

// takesUp reports whether the entry continues a record that has no end. It does if leaf describes
// the same call as the record's beginning. Otherwise leaf gets a reference to that record.
func (e *Entry) takesUp(first *Record, leaf *content) bool {
	same := first.Subject.Tool == leaf.Tool && first.Client == leaf.Client &&
		first.Arguments.Digest == leaf.Arguments.toPayload().Digest &&
		first.Decision == Decision{leaf.Effect, leaf.Policy, leaf.Reason} && maps.Equal(first.Detail, leaf.Detail)
	if !same || first.End.Outcome != Unfinished {
		d := map[string]string{againDetail: first.ID}
		maps.Copy(d, leaf.Detail)
		leaf.Detail = boundDetail(d)
		return false
	}
	e.addDetail(takenUpDetail, FormatTime(e.start))
	e.first = &Addition{Record: first.ID, Part: PartBegun, Seq: first.Seq, Time: first.Time}
	e.start = first.Time
	return true
}

// replaceRecord ends the record of a call that e continues in a new record, since it is no longer
// the same call. Nothing depends on it: if the end can't be written, it is written before the next
// call begins.
func (e *Entry) replaceRecord(ctx context.Context, first *Record) {
	if first.End.Outcome != Unfinished {
		return
	}
	old := &Entry{log: e.log, tool: first.Subject.Tool, inner: true, start: first.Time,
		first: &Addition{Record: first.ID, Part: PartBegun, Seq: first.Seq}}
	_ = old.End(ctx, nil, tool.Errorf(tool.Unavailable,
		"biplane exited before the call completed, and the call has changed since: it continues as record %s",
		e.Record()))
}
