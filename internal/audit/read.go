package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/tool"
)

// What is read from the record is checked before it is shown: each leaf against its own hash, its index and the record under which it was found,
// and its hash against the sealed head of the tree. A record that fails a check is shown all the same, with Problem set, since an auditor has
// to see it.

// Check returns what is wrong with the leaves of a pair, as far as they tell it themselves; "": nothing.
func (p *Pair) Check() string {
	if p.Doubt != "" {
		return p.Doubt
	}
	if p.Begun.Data == nil {
		return fmt.Sprintf("leaf %d was removed, or is not that of the record's beginning", p.Begun.Seq)
	}
	c, problem := p.Begun.check()
	switch {
	case problem != "":
		return problem
	case c.Part != PartBegun && c.Part != PartEvent:
		return fmt.Sprintf("leaf %d does not begin a record", p.Begun.Seq)
	case p.Record != "" && c.Record != p.Record:
		return fmt.Sprintf("leaf %d is of record %s: what finds records was changed", p.Begun.Seq, c.Record)
	case !p.Ends:
		return ""
	case p.Ended.Data == nil:
		return fmt.Sprintf("leaf %d was removed, or is not that of the record's end", p.Ended.Seq)
	}
	e, problem := p.Ended.check()
	switch {
	case problem != "":
		return problem
	case e.Part != PartEnded || c.Part != PartBegun || e.Record != c.Record || e.Begun != nil && *e.Begun != p.Begun.Seq:
		return fmt.Sprintf("leaf %d is not the end of record %s: what finds records was changed", p.Ended.Seq, c.Record)
	}
	return ""
}

// check decodes a leaf, and returns what is wrong with it.
func (l *Leaf) check() (*content, string) {
	if len(l.Hashes) == 0 || l.Hashes[0] != tlog.RecordHash(l.Data) {
		return nil, fmt.Sprintf("leaf %d was changed: its bytes are not those that were recorded", l.Seq)
	}
	c, err := decode(l.Data)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("leaf %d is nothing that biplane wrote: %v", l.Seq, err)
	case c.Seq != l.Seq:
		return nil, fmt.Sprintf("leaf %d stands at another place than its own, which is %d", l.Seq, c.Seq)
	}
	return c, ""
}

// Picks reports whether q picks a pair, its page aside. A pair that fails its check is picked whatever q asks for: what it was can't be told.
func (q Query) Picks(p *Pair) bool {
	if p.Check() != "" {
		return true
	}
	r, err := p.record()
	return err != nil || q.picks(r)
}

// checked makes records of pairs, each with what is wrong with it.
func checked(v View, pairs []Pair) ([]Record, error) {
	head, err := trusted(v)
	if err != nil {
		return nil, err
	}
	outside, err := notIn(v, head, pairs)
	if err != nil {
		return nil, err
	}
	out := make([]Record, 0, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		r, err := p.record()
		if err != nil {
			r = &Record{ID: p.Record, Seq: p.Begun.Seq}
		}
		if r.Problem = p.Check(); r.Problem == "" && err != nil {
			r.Problem = fmt.Sprintf("leaf %d can't be read", p.Begun.Seq)
		}
		for _, l := range []*Leaf{&p.Begun, &p.Ended} {
			if r.Problem == "" && outside[l.Seq] && l.Data != nil {
				r.Problem = fmt.Sprintf("leaf %d is not in the record as it was sealed", l.Seq)
			}
		}
		out = append(out, *r)
	}
	return out, nil
}

// trusted returns the sealed head, or for a record that has none the head that the stored hashes give.
func trusted(v View) (Head, error) {
	sealed, err := v.Sealed()
	switch {
	case err != nil:
		return Head{}, broken(err)
	case sealed != nil:
		return *sealed, nil
	}
	return v.Head()
}

// notIn returns the leaves of pairs that the tree of a head doesn't have at their index. All stored hashes that are needed are read at once.
func notIn(v View, head Head, pairs []Pair) (map[int64]bool, error) {
	out := map[int64]bool{}
	var leaves []*Leaf
	for i := range pairs {
		for _, l := range []*Leaf{&pairs[i].Begun, &pairs[i].Ended} {
			switch {
			case l.Data == nil:
			case l.Seq < 0 || l.Seq >= head.Size:
				out[l.Seq] = true
			default:
				leaves = append(leaves, l)
			}
		}
	}
	if len(leaves) == 0 {
		return out, nil
	}
	needed := map[int64]tlog.Hash{}
	note := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		for _, i := range indexes {
			needed[i] = tlog.Hash{}
		}
		return make([]tlog.Hash, len(indexes)), nil
	})
	for _, l := range leaves {
		if _, err := tlog.ProveRecord(head.Size, l.Seq, note); err != nil {
			return nil, broken(err)
		}
	}
	indexes := make([]int64, 0, len(needed))
	for i := range needed {
		indexes = append(indexes, i)
	}
	hashes, err := v.ReadHashes(indexes)
	if err != nil {
		return nil, broken(err)
	}
	for i, index := range indexes {
		needed[index] = hashes[i]
	}
	known := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		some := make([]tlog.Hash, 0, len(indexes))
		for _, i := range indexes {
			some = append(some, needed[i])
		}
		return some, nil
	})
	for _, l := range leaves {
		p, err := tlog.ProveRecord(head.Size, l.Seq, known)
		if err != nil || tlog.CheckRecord(p, head.Size, head.Root, l.Seq, tlog.RecordHash(l.Data)) != nil {
			out[l.Seq] = true
		}
	}
	return out, nil
}

func broken(err error) error {
	return tool.Errorf(tool.Conflict, "the audit record is not what it was: %w: run biplane audit verify, and keep a copy of the data folder", err)
}

// A FlawError says that what was written is complete, and what of it is not what was recorded.
type FlawError struct{ Msg string }

// Error returns the message.
func (e *FlawError) Error() string { return e.Msg }

// Intact returns an error when a record is not what was recorded.
func (r *Record) Intact() error {
	if r.Problem == "" {
		return nil
	}
	return tool.Errorf(tool.Conflict, "audit record %s is not what was recorded: %s: run biplane audit verify, and keep a copy of the data folder", r.ID, r.Problem)
}

// Doubt notes that something is wrong with the record: no call begins from now on. What was found is recorded, the first time, where anything can be.
func (l *Log) Doubt(ctx context.Context, action string, found error) {
	if !l.doubt(found) {
		return
	}
	_, _ = l.Event(ctx, Event{Kind: KindRecord, Outcome: Failed, ErrorKind: tool.Conflict, Detail: map[string]string{"action": action, "found": found.Error()}})
}

// doubt is Doubt without the record of it. It reports whether it is the first one.
func (l *Log) doubt(found error) bool {
	l.mu.Lock()
	first := l.found == nil
	if first {
		l.found = found
	}
	l.mu.Unlock()
	if first {
		l.log.Error("the audit record is not what was recorded: no call is made any more", "err", found)
	}
	return first
}

// Found returns what was found to be wrong with the record since this Log was made, by Inspect, by Verify or when it was read; nil: nothing. No call
// begins once there is something.
func (l *Log) Found() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found
}
