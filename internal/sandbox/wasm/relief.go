package wasm

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pressure is how long an entry must last, about, before the runtime gets one more processor.
	pressure = 5 * time.Millisecond
	// lull is how long none must have lasted before that is taken back.
	lull = time.Second
)

// A relief raises GOMAXPROCS by one while entries of guests that last hold every processor but one, or all. Whatever watches and
// stops them, and carries the word to, would otherwise wait at each step, ten milliseconds or more: for a slice of each guest, and
// for the one processor that is left where a thread holds that which waits in the kernel. It doesn't do so all the time: one
// processor more than there are costs each short program a few needless wakes.
type relief struct {
	set  func(n int) int // runtime.GOMAXPROCS
	most int             // entries that may last at once without it
	on   atomic.Bool     // it is raised

	mu         sync.Mutex
	timer      *time.Timer
	armed      bool      // timer is running
	last       uint64    // number of the entry that began last
	seen       uint64    // what last was when timer was armed
	old, young int       // entries under way: up to seen, after it
	long       time.Time // when one that lasted was seen last
	usual      int       // what GOMAXPROCS was; 0 while it is that
	over       bool
}

func newRelief(set func(n int) int) *relief {
	r := &relief{set: set, most: max(set(0)-2, 0)}
	r.timer = time.AfterFunc(time.Hour, r.look)
	r.timer.Stop()
	return r
}

// begin says that an entry begins, and gives its number, which end gets.
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

// end says that an entry is over.
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

// given reports whether there is one processor more at the moment.
func (r *relief) given() bool { return r != nil && r.on.Load() }

// arm has look come in d. Entries that are under way both now and then have lasted so long. The caller holds mu.
func (r *relief) arm(d time.Duration) {
	r.seen, r.old, r.young = r.last, r.old+r.young, 0
	r.armed = true
	r.timer.Reset(d)
}

// look raises GOMAXPROCS, or takes that back, where it is time.
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
	case r.usual > 0: // each look is a thread that wakes
		r.arm(lull / 20)
	case r.old+r.young > 0:
		r.arm(pressure)
	}
}

// restore takes back what was raised. The caller holds mu.
func (r *relief) restore() {
	if r.usual > 0 {
		r.on.Store(false)
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
