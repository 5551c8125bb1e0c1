package store

import (
	"sync"
	"sync/atomic"
)

// aheadStep is by how much the file grows for what the disk is to have, in bytes. A flush of what
// it has room for takes half the time of one with which it grows.
const aheadStep = 64 << 10

// An aheadDisk is what the disk has of the entries, in the database or in the file. Nobody holds
// its lock while the file is flushed: who waits for that is woken with all others, and not one
// after the other.
type aheadDisk struct {
	upTo atomic.Uint64 // the disk has all entries up to this one

	mu     sync.Mutex
	under  chan struct{} // closed when the flush that is under way is over; nil: there is none
	failed bool          // a flush did: what the disk has of the file nobody knows any more
}

// reach notes that the disk has all entries up to one.
func (d *aheadDisk) reach(number uint64) {
	for have := d.upTo.Load(); have < number && !d.upTo.CompareAndSwap(have, number); have = d.upTo.Load() {
	}
}

// sync sees to it that the disk has an entry, and all that was noted, or written to the database,
// before it: by one write to the file and one flush, which all share that wait for one by then.
// With an error it has to be waited for in the database.
func (a *ahead) sync(number uint64) error {
	d := &a.disk
	if d.upTo.Load() >= number {
		return nil
	}
	if a.isLoose() {
		return errAhead
	}
	a.grow()
	if err := a.secure(); err != nil {
		return err
	}
	for d.upTo.Load() < number {
		wait, mine, err := d.turn()
		switch {
		case err != nil:
			return err
		case !mine:
			<-wait
			continue
		}
		upTo := a.isSaved()
		err = flushData(a.file.f)
		if err == nil {
			d.reach(upTo)
		}
		if d.over(err != nil); err != nil {
			return errAhead
		}
		return nil // what was not in the file by then has failed, which is told
	}
	return nil
}

// turn begins a flush, which is the caller's then, or gives what is closed when the one under way
// is over.
func (d *aheadDisk) turn() (under chan struct{}, mine bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed {
		return nil, false, errAhead
	}
	if d.under == nil {
		d.under, mine = make(chan struct{}), true
	}
	return d.under, mine, nil
}

// over ends a flush.
func (d *aheadDisk) over(failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = d.failed || failed
	close(d.under)
	d.under = nil
}

// grow makes room in the file. Where that fails, so does what follows, or it is just slower.
func (a *ahead) grow() {
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	if file.size+aheadStep/8 <= file.room || file.room >= aheadMost {
		return
	}
	if _, err := file.f.WriteAt(make([]byte, aheadStep), file.room); err == nil {
		file.room += aheadStep
	}
}

// full reports whether the file is to be written over.
func (a *ahead) full() bool {
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return a.file.size > a.file.next
}

// empty reports whether the file has nothing.
func (a *ahead) empty() bool {
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return a.file.size == 0
}

func (a *ahead) isSaved() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// loosen says whether the database has something that the disk may not have, nor the file: then a
// flush of the file alone is not enough.
func (a *ahead) loosen(loose bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loose = loose
}

func (a *ahead) isLoose() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loose
}

// hole notes that an entry is in neither the database nor the file: what comes after it in its
// journal is not taken. They are few: without a disk no execution begins.
func (a *ahead) hole(e entry) {
	x, ok := e.(*executionWrite)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holes[x.id] = true
}

// holed reports whether the journal that an entry is of has a hole, or may have one.
func (a *ahead) holed(e entry) bool {
	x, ok := e.(*executionWrite)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holes[x.id]
}
