package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

// Details of records about data deleted by retention.
const (
	actionDetail = "action"
	actionPrune  = "prune"
	beforeDetail = "before" // data kept before this time was deleted; missing in records of older versions
)

// keptSlack is how much longer than retention says missing data is tolerated: data that is recorded
// repeatedly is kept once, and the time of its last record is known only to the day.
const keptSlack = 24 * time.Hour

// goneAtOnce is how many kept items are looked up at once.
const goneAtOnce = 4096

// Prune deletes data that was kept longer than retention allows. If there is any, it first records
// the deletion and the number of items, so that any other missing data is detected.
func (l *Log) Prune(ctx context.Context) error {
	before := l.keep.OutdatedBefore(l.clock.Now())
	var n int64
	err := l.store.View(ctx, func(v View) (err error) { n, err = v.CountOutdated(before); return err })
	if err != nil || n == 0 {
		return err
	}
	_, err = l.Event(ctx,
		Event{Kind: KindRecord,
			Detail: map[string]string{actionDetail: actionPrune, "payloads": strconv.FormatInt(n, 10),
				beforeDetail: FormatTime(before)}})
	if err != nil {
		return err
	}
	_, err = l.store.Prune(ctx, before)
	return err
}

// prunedBefore returns the time from which on all kept data should still exist, according to the
// deletions on record.
func prunedBefore(view View) (from time.Time, err error) {
	q := Query{Kind: KindRecord, Limit: 1000}
	for {
		pairs, err := view.Records(q)
		if err != nil {
			return from, err
		}
		for i := range pairs {
			p := &pairs[i]
			if p.Record != "" {
				q.Before = p.Record
			}
			if p.Check() != "" || p.readLeaves().absent != "" { // reported as a separate fault
				continue
			}
			if err := p.readLeaves().err; err != nil {
				return from, err
			}
			r := p.readLeaves().record
			q.Before = r.ID
			if r.Detail[actionDetail] != actionPrune {
				continue
			}
			before, err := time.Parse(timeFormat, r.Detail[beforeDetail])
			if err != nil {
				before = r.Time
			}
			if before = before.Add(keptSlack); before.After(from) {
				from = before
			}
		}
		if len(pairs) < q.Limit {
			return from, nil
		}
	}
}

// A gone finds kept data of leaves that no longer exists, although its deletion is not on record.
type gone struct {
	view   View
	from   time.Time // earlier records are not looked up
	wanted []retention.Key
	names  []keptName // of wanted
	missed []Fault    // at most maxFaults
	more   int64      // number of faults beyond missed
	err    error
}

// A keptName identifies wanted data: arguments, result or error of a record.
type keptName struct{ what, record string }

func newGone(view View) *gone {
	g := &gone{view: view}
	g.from, g.err = prunedBefore(view)
	return g
}

// skipUntil skips records until a time, since their deletion may be on record in a missing segment.
func (g *gone) skipUntil(t time.Time) {
	if !t.IsZero() && t.After(g.from) {
		g.from = t
	}
}

// addWanted adds the data kept for a leaf to the wanted items.
func (g *gone) addWanted(seq int64, c *content) {
	if g.err != nil || c.at.Before(g.from) {
		return
	}
	for _, p := range []struct {
		what string
		b    *bytesOf
	}{{"arguments", c.Arguments}, {"result", c.Result}, {"error", c.Error}} {
		if p.b != nil && p.b.Kept != "" {
			g.wanted = append(g.wanted, retention.Key{Seq: seq, Digest: p.b.Kept})
			g.names = append(g.names, keptName{p.what, c.Record})
		}
	}
	if len(g.wanted) >= goneAtOnce {
		g.lookUp()
	}
}

// lookUp looks up the wanted items.
func (g *gone) lookUp() {
	if g.err != nil {
		return
	}
	var there []bool
	there, g.err = g.view.HasKept(g.wanted)
	for i, ok := range there {
		if ok {
			continue
		}
		if len(g.missed) == maxFaults {
			g.more++
			continue
		}
		k, n := g.wanted[i], g.names[i]
		g.missed = append(g.missed, Fault{What: faultGone, Seq: k.Seq, Last: k.Seq, Record: n.record, Msg: fmt.Sprintf(
			"the stored copy of the %s of record %s (leaf %d) is missing, and retention did not delete it", n.what,
			n.record, k.Seq)})
	}
	g.wanted, g.names = g.wanted[:0], g.names[:0]
}
