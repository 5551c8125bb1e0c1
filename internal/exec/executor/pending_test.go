package executor

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestPendingPausesTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPending(2)
		var over atomic.Bool
		p.totalTimer, p.ends = time.AfterFunc(time.Minute, func() { over.Store(true) }), time.Now().Add(time.Minute)
		time.Sleep(40 * time.Second)
		paused := time.Now()
		p.addHold(0, &tool.Hold{}, paused)
		p.addHold(1, &tool.Hold{}, paused.Add(time.Second))
		time.Sleep(time.Hour)
		if since := p.removeHold(0); !since.IsZero() || over.Load() {
			t.Errorf("one decision is left: the limit continues (%v) or has expired (%t)", since, over.Load())
		}
		if since := p.removeHold(1); !since.Equal(paused) {
			t.Errorf("the limit was paused at %v, want %v", since, paused)
		}
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if over.Load() {
			t.Error("the limit expired after 59 s of 60 s")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !over.Load() {
			t.Error("the limit did not expire after 60 s")
		}
	})
}

func TestPendingBlockAll(t *testing.T) {
	t.Parallel()
	p := newPending(2)
	if p.blockAll(0) || p.anyHold() != nil {
		t.Error("without decisions, the program waits for people")
	}
	h := &tool.Hold{}
	p.addHold(3, h, time.Now())
	if !p.blockAll(1) || p.blockAll(2) || p.anyHold() != h {
		t.Error("one decision blocks a program with one call, and not one with two")
	}
	p.addHold(4, h, time.Now())
	if !p.blockAll(5) {
		t.Error("two decisions, with two calls at once: the others can't start")
	}
	p.signal.send()
	p.signal.send()
	if len(p.signal) != 1 {
		t.Errorf("%d tokens, want one", len(p.signal))
	}
}

// holds is an Observer that records whether each hold begins or ends.
type holds struct {
	tool.NoObserver
	begin []bool
}

func (h *holds) OnHold(hold *tool.Hold) { h.begin = append(h.begin, hold != nil) }

func TestHoldReporter(t *testing.T) {
	t.Parallel()
	var got holds
	var r holdReporter
	r.report(&tool.Hold{}) // no one listens
	r.outer = &got
	for _, some := range []*tool.Hold{nil, {}, {}, nil, nil, {}} {
		r.report(some)
	}
	if want := []bool{true, false, true}; !slices.Equal(got.begin, want) {
		t.Errorf("reported %v, want %v", got.begin, want)
	}
}
