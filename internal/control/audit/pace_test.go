package audit

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestPacer(t *testing.T) {
	var added atomic.Int64
	p := &pacer{added: &added, verified: new(atomic.Int64), since: time.Now()}
	countAll := func(n int) (pauses []time.Duration) {
		for range n {
			if d := p.countLeaf(); d > 0 {
				pauses = append(pauses, d)
			}
		}
		return pauses
	}
	if pauses := countAll(3 * paceLeaves); len(pauses) != 0 {
		t.Errorf("without new leaves, the pauses are %v, want none", pauses)
	}
	added.Add(2)
	p.since = time.Now().Add(-time.Hour)
	if pauses := countAll(3 * paceLeaves); len(pauses) != 1 || pauses[0] != maxPause {
		t.Errorf("after new leaves, the pauses are %v, want %v once", pauses, maxPause)
	}
}
