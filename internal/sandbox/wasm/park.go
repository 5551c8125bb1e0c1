package wasm

import (
	"fmt"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A saved guest is one that was asked for as bytes, and in which nothing ran since. Its memory can be given back at any time,
// and made again of these bytes: it is parked then. Copies of it begin so, and share them.
type saved struct {
	packed []byte    // what Snapshot gave; nobody changes it
	pages  []pageRun // that differ from the image
	home   *Sandbox  // whose it was: from there it is copied faster, as long as it is mapped
}

// size is how much memory the guest has for itself while it is mapped, in bytes.
func (v *saved) size() int64 { return int64(pagesOf(v.pages)) * pageSize }

// idleMemory is how many bytes saved guests keep mapped, where Config says nothing.
const idleMemory = 32 << 20

// An idle list has the saved guests that are mapped while nothing runs in them.
type idle struct {
	most int64 // bytes that they may hold together; the one that was used last stays in any case

	mu    sync.Mutex
	bytes int64
	list  []resting // least recently used first
}

// A resting guest is one of them.
type resting struct {
	s     *Sandbox
	bytes int64
}

// add adds a guest, and gives those that are to be parked for it, which are no longer in the list.
func (i *idle) add(s *Sandbox, bytes int64) (surplus []*Sandbox) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list, i.bytes = append(i.list, resting{s, bytes}), i.bytes+bytes
	n := 0
	for ; i.bytes > i.most && n < len(i.list)-1; n++ {
		i.bytes -= i.list[n].bytes
		surplus = append(surplus, i.list[n].s)
	}
	i.list = slices.Delete(i.list, 0, n)
	return surplus
}

// remove removes a guest that may be in the list.
func (i *idle) remove(s *Sandbox) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if k := slices.IndexFunc(i.list, func(r resting) bool { return r.s == s }); k >= 0 {
		i.bytes -= i.list[k].bytes
		i.list = slices.Delete(i.list, k, k+1)
	}
}

// park gives the memory of a saved guest back. It does nothing where the sandbox is in use again.
func (s *Sandbox) park() {
	img, done, err := s.d.use(s.kind)
	if err != nil {
		return // the driver is closed: nothing could be mapped any more
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
		s.d.pool.give(img, r)
	}
}

// wake maps the memory of a parked guest. The caller has begun something.
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
		s.d.pool.give(img, s.region)
		s.region, s.guest = nil, nil
		return noRoom(err)
	}
	return nil
}

// noRoom says that a guest has no memory on this host; the sandbox stays as it was.
func noRoom(err error) error {
	return &tool.Error{Kind: tool.Unavailable, Msg: "can't map the memory of a sandbox: " + err.Error(), Err: err}
}

// unpark makes the guest of its packed bytes.
func (s *Sandbox) unpark(img *image) error {
	_, u, err := s.d.codec.openState(s.saved.packed)
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

// copyHome copies the guest from where it is mapped as it was saved, and reports whether it did. Until then nothing can
// begin there.
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
