package wasm

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A savedGuest is a guest that was snapshotted and has not run since. Its memory can be released at
// any time and rebuilt from these bytes: then it is parked. Copies of it start parked, and share
// the bytes.
type savedGuest struct {
	head, tail []byte    // result of Snapshot, in two parts; immutable
	pages      []pageRun // pages that differ from the image
	home       *Sandbox  // the original sandbox: a copy from it is faster, while it is mapped
}

// allocationUnit is the unit in which Go rounds up large allocations, in bytes.
const allocationUnit = 8 << 10

// saveGuest returns a saved guest with copies of packed and pages. Go rounds the size of a large
// allocation up: on average, 4 KiB of each guest would be lost. So what exceeds whole units is an
// allocation of its own.
func saveGuest(packed []byte, pages []pageRun, home *Sandbox) *savedGuest {
	whole := len(packed) / allocationUnit * allocationUnit
	return &savedGuest{bytes.Clone(packed[:whole]), bytes.Clone(packed[whole:]), slices.Clone(pages), home}
}

// joinParts returns the result of Snapshot.
func (v *savedGuest) joinParts() []byte { return slices.Concat(v.head, v.tail) }

// size returns how much private memory the guest has while mapped, in bytes.
func (v *savedGuest) size() int64 { return int64(pagesOf(v.pages)) * pageSize }

// idleMemory is the default of Config.Idle.
const idleMemory = 32 << 20

// An idle is the list of saved guests that are mapped but not running.
type idle struct {
	most int64 // maximum bytes of all; the most recently used guest always stays

	mu    sync.Mutex
	bytes int64
	list  []idleEntry // least recently used first
}

// An idleEntry is an entry of an idle list.
type idleEntry struct {
	s     *Sandbox
	bytes int64
}

// add adds a guest, and removes and returns the guests that must be parked to make room.
func (i *idle) add(s *Sandbox, bytes int64) (surplus []*Sandbox) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list, i.bytes = append(i.list, idleEntry{s, bytes}), i.bytes+bytes
	n := 0
	for ; i.bytes > i.most && n < len(i.list)-1; n++ {
		i.bytes -= i.list[n].bytes
		surplus = append(surplus, i.list[n].s)
	}
	i.list = slices.Delete(i.list, 0, n)
	return surplus
}

// remove removes a guest if it is in the list.
func (i *idle) remove(s *Sandbox) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if k := slices.IndexFunc(i.list, func(r idleEntry) bool { return r.s == s }); k >= 0 {
		i.bytes -= i.list[k].bytes
		i.list = slices.Delete(i.list, k, k+1)
	}
}

// park releases the memory of a saved guest. It does nothing if the sandbox is in use again.
func (s *Sandbox) park() {
	img, done, err := s.d.use(s.kind)
	if err != nil {
		return // the driver is closed: nothing could be mapped again
	}
	defer done()
	var r *region
	s.mu.Lock()
	if !s.closed && s.busy == nil && s.saved != nil {
		r, s.region, s.guest = s.region, nil, nil
		s.d.idle.remove(s)
	}
	s.mu.Unlock()
	if r != nil {
		s.d.pool.returnRegion(img, r)
	}
}

// wake maps the memory of a parked guest. The caller has called begin.
func (s *Sandbox) wake() error {
	if s.region != nil {
		return nil
	}
	img, done, err := s.d.use(s.kind)
	if err != nil {
		return noRoom(err)
	}
	defer done()
	if s.region, err = s.d.newRegion(img, int(s.spec.Memory)); err != nil {
		s.region = nil
		return noRoom(err)
	}
	copied, err := s.copyHome(img)
	if !copied {
		err = s.unpark(img)
	}
	if err != nil {
		s.d.pool.returnRegion(img, s.region)
		s.region, s.guest = nil, nil
		return noRoom(err)
	}
	return nil
}

// noRoom returns the error for a guest that can't be mapped on this host; the sandbox is unchanged.
func noRoom(err error) error {
	return &tool.Error{Kind: tool.Unavailable, Msg: "can't map the memory of a sandbox: " + err.Error(), Err: err}
}

// unpark rebuilds the guest from its packed bytes.
func (s *Sandbox) unpark(img *image) error {
	_, u, err := s.d.codec.openState(s.saved.joinParts())
	if err != nil {
		return err
	}
	defer u.close()
	size, most := int64(u.u32())*wasmPage, int64(u.u32())*wasmPage
	if u.err == nil && most != s.spec.Memory {
		u.err = fmt.Errorf("it is of a guest with %d bytes of memory", most)
	}
	return s.unpack(img, u, size)
}

// copyHome copies the guest from its original sandbox if that is still mapped and unchanged, and
// reports whether it did. Meanwhile no operation can start there.
func (s *Sandbox) copyHome(img *image) (bool, error) {
	home := s.saved.home
	if home == s {
		return false, nil
	}
	home.mu.Lock()
	defer home.mu.Unlock()
	if home.closed || home.busy != nil || home.saved != s.saved || home.region == nil {
		return false, nil
	}
	return true, s.copy(img, home, s.saved.pages)
}
