package audit

import (
	"context"
	"fmt"
	"time"
)

// The entries of the record of what retention threw away.
const (
	actionDetail = "action"
	actionPrune  = "prune"
	beforeDetail = "before" // what was kept before this time was thrown away; missing in records of older versions
)

// keptSlack is how much longer what was kept is not missed than it should be there: what is
// recorded again and again is kept once, and when that was last is known to the day.
const keptSlack = 24 * time.Hour

// goneAtOnce is how much of what should be there is looked for at once.
const goneAtOnce = 4096

// Prune throws away what was kept longer ago than retention says. That it does, and how much that
// is when there is any, is recorded before, so that what is missing without is found.
func (l *Log) Prune(ctx context.Context) error {
	before := l.now().Add(-l.keep.long)
	var n int64
	err := l.store.View(ctx, func(v View) (err error) { n, err = v.Outdated(before); return err })
	if err != nil || n == 0 {
		return err
	}
	_, err = l.Event(ctx, Event{Kind: KindRecord, Detail: map[string]string{actionDetail: actionPrune, "payloads": itoa(n), beforeDetail: Stamp(before)}})
	if err != nil {
		return err
	}
	_, err = l.store.Prune(ctx, before)
	return err
}

// pruned gives the time from which on all should be there that was kept, by what the log says was
// thrown away.
func pruned(view View) (from time.Time, err error) {
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
			if p.Check() != "" { // it is told of as a fault of its own
				continue
			}
			if err := p.read().err; err != nil {
				return from, err
			}
			r := p.read().record
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

// A gone looks for what was kept of leaves and is not there any more, though the log doesn't say
// that it was thrown away.
type gone struct {
	view   View
	from   time.Time // what was recorded before is not looked for
	wanted []KeptAt
	names  []keptName // of wanted
	missed []Fault    // bounded
	more   int64      // that are not in missed
	err    error
}

// A keptName says what is wanted: arguments, result or error of a record.
type keptName struct{ what, record string }

func newGone(view View) *gone {
	g := &gone{view: view}
	g.from, g.err = pruned(view)
	return g
}

// leaf notes what was kept of a leaf.
func (g *gone) leaf(seq int64, c *content) {
	if g.err != nil || c.when().Before(g.from) {
		return
	}
	for _, p := range []struct {
		what string
		b    *bytesOf
	}{{"arguments", c.Arguments}, {"result", c.Result}, {"error", c.Error}} {
		if p.b != nil && p.b.Kept != "" {
			g.wanted = append(g.wanted, KeptAt{seq, p.b.Kept})
			g.names = append(g.names, keptName{p.what, c.Record})
		}
	}
	if len(g.wanted) >= goneAtOnce {
		g.look()
	}
}

// look looks for what is wanted.
func (g *gone) look() {
	if g.err != nil {
		return
	}
	var there []bool
	there, g.err = g.view.Has(g.wanted)
	for i, ok := range there {
		if ok {
			continue
		}
		if len(g.missed) == maxFaults {
			g.more++
			continue
		}
		k, n := g.wanted[i], g.names[i]
		g.missed = append(g.missed, Fault{What: FaultGone, Seq: k.Seq, Last: k.Seq, Record: n.record, Msg: fmt.Sprintf(
			"what was kept of the %s of record %s (leaf %d) is gone, and retention did not throw it away", n.what, n.record, k.Seq)})
	}
	g.wanted, g.names = g.wanted[:0], g.names[:0]
}
