//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package wasm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A region is the address space of one guest: bytes [0, size) are its linear memory, the rest is
// inaccessible.
type region struct {
	all []byte    // the whole reservation
	own []pageRun // pages that are certainly private, in order

	mu      sync.Mutex
	size    int // accessible bytes
	max     int // maximum of size
	revoked bool
}

// newRegion reserves address space. It holds no memory yet.
func newRegion() (*region, error) {
	all, err := unix.Mmap(-1, 0, reservation, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|mapNoReserve)
	if err != nil {
		return nil, fmt.Errorf("reserve 8 GiB of address space for a guest (is there a limit such as ulimit -v?): %w",
			err)
	}
	return &region{all: all}, nil
}

// load maps img as the region's memory, copy-on-write, and limits its growth to max bytes. Earlier
// contents are gone.
func (r *region) load(img *image, max int) error {
	if err := r.clear(); err != nil {
		return err
	}
	if err := img.file.mapAt(r.all[:img.size]); err != nil {
		return fmt.Errorf("map the image: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size, r.max = img.size, max
	return nil
}

// reset restores the region, which holds img as modified by a guest, to its state after load, at a
// lower cost. It keeps at most keep private pages and copies the image's bytes into them, which
// costs a tenth of new pages. Pages are kept only if the system reports reliably which are private
// (scanPages).
func (r *region) reset(img *image, max, keep int, pagemap *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size < img.size {
		return errors.New("the region holds no image")
	}
	if grown := r.all[img.size:r.size]; len(grown) > 0 {
		if err := remap(grown, -1, unix.PROT_NONE, unix.MAP_ANON|mapNoReserve); err != nil {
			return fmt.Errorf("reset a guest's memory: %w", err)
		}
	}
	r.size, r.max, r.own = img.size, max, nil
	if r.revoked {
		if err := unix.Mprotect(r.all[:img.size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return fmt.Errorf("reset a guest's memory: %w", err)
		}
		r.revoked = false
	}
	if r.rewrite(img, keep, pagemap) {
		return nil
	}
	if err := unix.Madvise(r.all[:img.size], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("reset a guest's memory: %w", err)
	}
	return nil
}

// rewrite copies the image's bytes to all private pages of the region if there are at most keep,
// and reports whether it did.
func (r *region) rewrite(img *image, keep int, pagemap *os.File) bool {
	parts, ok := scanPages(pagemap, r.all[:img.size])
	if !ok {
		return false
	}
	n := 0
	for _, p := range parts {
		n += p[1] - p[0]
	}
	if n > keep*pageSize {
		return false
	}
	r.own = make([]pageRun, 0, len(parts))
	for _, p := range parts {
		copy(r.all[p[0]:p[1]], img.base[p[0]:p[1]])
		r.own = append(r.own, pageRun{uint32(p[0] / pageSize), uint32((p[1] - p[0]) / pageSize)})
	}
	return true
}

// warm makes the pages of runs private before the first write, if the system can: one call costs
// less than many faults.
func (r *region) warm(runs []pageRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := os.Getpagesize()
	for _, p := range less(runs, r.own) {
		from := int(p.first) * pageSize / host * host
		to := min((int(p.first+p.n)*pageSize+host-1)/host*host, r.size)
		if from < to {
			populate(r.all[from:to])
		}
	}
}

// drop releases pages that equal the image's or are dead. They then equal the image's.
func (r *region) drop(runs []pageRun) {
	if os.Getpagesize() != pageSize {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = nil
	for _, p := range runs {
		// if this fails, they stay
		_ = unix.Madvise(r.all[int(p.first)*pageSize:][:int(p.n)*pageSize], unix.MADV_DONTNEED)
	}
}

// setMax limits the growth of an empty region.
func (r *region) setMax(max int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.max = max
}

// clear returns the memory to the system and makes the whole region inaccessible.
func (r *region) clear() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 {
		if err := remap(r.all[:r.size], -1, unix.PROT_NONE, unix.MAP_ANON|mapNoReserve); err != nil {
			return fmt.Errorf("clear a guest's memory: %w", err)
		}
	}
	r.size, r.max, r.own, r.revoked = 0, 0, nil, false
	return nil
}

// grow makes size bytes accessible, the new ones as zeros, and reports whether it succeeded.
func (r *region) grow(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked || size > r.max || size < r.size {
		return false
	}
	if size == r.size {
		return true // nothing to do, and the system rejects an empty range
	}
	if err := unix.Mprotect(r.all[r.size:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return false // the system has no more
	}
	r.size = size
	return true
}

// revoke makes the memory inaccessible, so that a guest running on another goroutine faults.
func (r *region) revoke() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked = true
	return unix.Mprotect(r.all[:r.size], unix.PROT_NONE)
}

// memory returns the region's linear memory, with its current length and the capacity to which it
// may grow.
func (r *region) memory() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[:r.size:max(r.max, r.size)]
}

// free releases the address space. The region must not be used afterwards.
func (r *region) free() {
	if r.all != nil {
		_ = unix.Munmap(r.all) // it can fail only for a slice that isn't a mapping
		r.all = nil
	}
}

// remap replaces the mapping of b, which is part of a reservation.
func remap(b []byte, fd, prot, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), prot,
		unix.MAP_PRIVATE|unix.MAP_FIXED|flags)
	return err
}

// unmap ends a mapping.
func unmap(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // it can fail only for a slice that isn't a mapping
	}
}
