package wasm

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pressure is about how long an entry must last before the runtime gets one more processor.
	pressure = 5 * time.Millisecond
	// lull is how long no entry must have lasted before the processor is removed again.
	lull = time.Second
)

// A relief raises GOMAXPROCS by one while long entries of guests occupy all processors or all but
// one. Otherwise the code that watches and stops them, and the goroutines that carry its messages,
// would wait at each step, for 10 ms or more: for a time slice of each guest, and for the remaining
// processor if a thread that waits in the kernel holds it. It is not raised permanently, because an
// extra processor costs each short program a few needless wake-ups.
type relief struct {
	set  func(n int) int // runtime.GOMAXPROCS
	most int             // number of long entries allowed without it
	on   atomic.Bool     // GOMAXPROCS is raised

	mu         sync.Mutex
	timer      *time.Timer
	armed      bool      // timer is running
	last       uint64    // number of the latest entry
	seen       uint64    // value of last when timer was armed
	old, young int       // current entries: up to seen, and after it
	long       time.Time // when a long entry was last seen
	usual      int       // the original GOMAXPROCS while raised; otherwise 0
	over       bool
}

func newRelief(set func(n int) int) *relief {
	r := &relief{set: set, most: max(set(0)-2, 0)}
	r.timer = time.AfterFunc(time.Hour, r.look)
	r.timer.Stop()
	return r
}

// begin records the start of an entry, and returns its number for end.
func (r *relief) begin() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.young++
	if !r.armed && !r.over {
		r.arm(pressure)
	}
	return r.last
}

// end records the end of an entry.
func (r *relief) end(number uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > r.seen {
		r.young--
	} else {
		r.old--
	}
}

// given reports whether GOMAXPROCS is raised.
func (r *relief) given() bool { return r != nil && r.on.Load() }

// arm schedules look in d. Entries that are current both now and then have lasted that long. The
// caller holds mu.
func (r *relief) arm(d time.Duration) {
	r.seen, r.old, r.young = r.last, r.old+r.young, 0
	r.armed = true
	r.timer.Reset(d)
}

// look raises or restores GOMAXPROCS when due.
func (r *relief) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	now := time.Now()
	lasts := r.old > r.most
	if lasts {
		r.long = now
	}
	switch {
	case lasts && r.usual == 0:
		r.usual = r.set(0)
		r.set(r.usual + 1)
		r.on.Store(true)
	case r.usual > 0 && now.Sub(r.long) >= lull:
		r.restore()
	}
	r.armed = false
	switch {
	case r.usual > 0: // each look wakes a thread
		r.arm(lull / 20)
	case r.old+r.young > 0:
		r.arm(pressure)
	}
}

// restore restores GOMAXPROCS. The caller holds mu.
func (r *relief) restore() {
	if r.usual > 0 {
		r.on.Store(false)
		r.set(r.usual)
		r.usual = 0
	}
}

// close restores GOMAXPROCS permanently.
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
