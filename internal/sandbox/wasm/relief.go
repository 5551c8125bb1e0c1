package wasm

import (
	"sync"
	"time"
)

const (
	// pressure is how long guests must have had every turn before the runtime gets one more processor.
	pressure = 5 * time.Millisecond
	// lull is how long they must not have had it before that is taken back.
	lull = time.Second
)

// A relief raises GOMAXPROCS by one while guests hold all processors for long. Whatever watches and stops them, and carries the
// word to, would otherwise wait for a slice of every guest at each step, ten milliseconds or more. It doesn't do so all the
// time: one processor more than there are costs each short program a few needless wakes.
type relief struct {
	set func(n int) int // runtime.GOMAXPROCS

	mu    sync.Mutex
	timer *time.Timer
	armed bool      // timer is running
	full  bool      // guests have every turn
	since time.Time // when full changed last
	usual int       // what GOMAXPROCS was; 0 while it is that
	over  bool
}

func newRelief(set func(n int) int) *relief {
	r := &relief{set: set}
	r.timer = time.AfterFunc(time.Hour, r.look)
	r.timer.Stop()
	return r
}

// press says whether guests have every turn.
func (r *relief) press(full bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full == full || r.over {
		return
	}
	r.full, r.since = full, time.Now()
	if full && !r.armed {
		r.armed = true
		r.timer.Reset(pressure)
	}
}

// look raises GOMAXPROCS, or takes that back, where it is time.
func (r *relief) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	lasted := time.Since(r.since)
	switch {
	case r.usual == 0 && !r.full:
		r.armed = false
		return
	case r.usual == 0 && lasted < pressure:
		r.timer.Reset(pressure - lasted)
		return
	case r.usual == 0:
		r.usual = r.set(0)
		r.set(r.usual + 1)
	case !r.full && lasted >= lull:
		r.restore()
		r.armed = false
		return
	}
	r.timer.Reset(lull)
}

// restore takes back what was raised. The caller holds mu.
func (r *relief) restore() {
	if r.usual > 0 {
		r.set(r.usual)
		r.usual = 0
	}
}

// close takes back what was raised, for good.
func (r *relief) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.timer.Stop()
	r.restore()
}
