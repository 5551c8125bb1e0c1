package store

import (
	"sync"
	"sync/atomic"
)

// aheadStep is the number of bytes by which the file grows at a time when it has to be flushed. A
// flush within the existing size needs half the time of one that grows the file.
const aheadStep = 64 << 10

// An aheadDisk tracks which entries are on the disk, in the database or in the file. Its lock is
// not held during a flush, so that all waiters wake up together and not one after the other.
type aheadDisk struct {
	upTo atomic.Uint64 // the disk has all entries up to this one

	mu     sync.Mutex
	under  chan struct{} // closed at the end of the running flush; nil: none is running
	failed bool          // a flush failed: what the disk has of the file is unknown
}

// recordSync records that the disk has all entries up to number.
func (d *aheadDisk) recordSync(number uint64) {
	for have := d.upTo.Load(); have < number && !d.upTo.CompareAndSwap(have, number); have = d.upTo.Load() {
	}
}

// syncEntry waits until the disk has an entry and everything noted, or written to the database,
// before it. It needs one write to the file and one flush, which all concurrent callers share. On
// an error the caller has to wait for the database.
func (a *ahead) syncEntry(number uint64) error {
	d := &a.disk
	if d.upTo.Load() >= number {
		return nil
	}
	if a.isLoose() {
		return errAhead
	}
	a.growFile()
	if err := a.writePending(); err != nil {
		return err
	}
	for d.upTo.Load() < number {
		wait, mine, err := d.joinFlush()
		switch {
		case err != nil:
			return err
		case !mine:
			<-wait
			continue
		}
		upTo := a.savedNumber()
		err = flushData(a.file.f)
		if err == nil {
			d.recordSync(upTo)
		}
		if d.endFlush(err != nil); err != nil {
			return errAhead
		}
		return nil // an entry that is not in the file by now has failed, and its caller gets the error
	}
	return nil
}

// joinFlush returns the channel that is closed when the running flush ends. If none is running, it
// starts one, which the caller must make (mine) and end with over.
func (d *aheadDisk) joinFlush() (under chan struct{}, mine bool, err error) {
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

// endFlush ends the running flush.
func (d *aheadDisk) endFlush(failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = d.failed || failed
	close(d.under)
	d.under = nil
}

// growFile preallocates space in the file. If that fails, the write that follows fails, too, or is
// only slower.
func (a *ahead) growFile() {
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

// isFull reports whether the file is due to be overwritten from its beginning.
func (a *ahead) isFull() bool {
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return a.file.size > a.file.next
}

// isEmpty reports whether the file has no entries.
func (a *ahead) isEmpty() bool {
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return a.file.size == 0
}

func (a *ahead) savedNumber() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.saved
}

// setLoose sets whether the database has data that may be neither on the disk nor in the file. Then
// flushing only the file is not enough.
func (a *ahead) setLoose(loose bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loose = loose
}

func (a *ahead) isLoose() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loose
}

// addHole records that an entry is in neither the database nor the file: later steps of its journal
// are not accepted. Holes are rare, because no execution starts without a disk.
func (a *ahead) addHole(e entry) {
	x, ok := e.(*executionWrite)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holes[x.id] = true
}

// hasHole reports whether the journal that an entry belongs to has a hole.
func (a *ahead) hasHole(e entry) bool {
	x, ok := e.(*executionWrite)
	if !ok {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holes[x.id]
}
