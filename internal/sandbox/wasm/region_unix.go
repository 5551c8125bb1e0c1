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

// A region is the address space of one guest: bytes [0, size) are its linear memory, the rest is inaccessible.
type region struct {
	all []byte    // the whole reservation
	own []pageRun // pages of its own that it surely has, in order

	mu      sync.Mutex
	size    int // accessible bytes
	max     int // most bytes that size may reach
	revoked bool
}

// newRegion reserves address space. It holds no memory yet.
func newRegion() (*region, error) {
	all, err := unix.Mmap(-1, 0, reservation, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|mapNoReserve)
	if err != nil {
		return nil, fmt.Errorf("reserve 8 GiB of address space for a guest (is there a limit such as ulimit -v?): %w", err)
	}
	return &region{all: all}, nil
}

// load makes img the region's memory, copy-on-write, and bounds its growth by max bytes. Nothing of what was in the
// region before remains.
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

// reset makes the region, which holds img and what its guest made of it, as load left it, at a lower price: it keeps at most
// keep pages of its own, and gives the image's bytes back to them, since that costs a tenth of what new pages do. Only
// a system that tells for sure which pages these are (scanPages) keeps any.
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

// rewrite gives the image's bytes to all pages that are the region's own, if there are at most keep, and reports whether it did.
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

// warm gives pages of their own to runs ahead of the first write to them, where the system can: one call costs less than
// as many faults.
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

// drop gives pages back that are as the image has them, or that mean nothing. They then are as the image has them.
func (r *region) drop(runs []pageRun) {
	if os.Getpagesize() != pageSize {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = nil
	for _, p := range runs {
		_ = unix.Madvise(r.all[int(p.first)*pageSize:][:int(p.n)*pageSize], unix.MADV_DONTNEED) // or they stay
	}
}

// setMax bounds the growth of an empty region.
func (r *region) setMax(max int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.max = max
}

// clear gives the memory back to the system and makes all of the region inaccessible.
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

// grow makes size bytes accessible, as zeros beyond those that are already, and reports whether it did.
func (r *region) grow(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked || size > r.max || size < r.size {
		return false
	}
	if size == r.size {
		return true // there is nothing to make accessible, and the system takes no empty range
	}
	if err := unix.Mprotect(r.all[r.size:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return false // the system has no more
	}
	r.size = size
	return true
}

// revoke makes the memory inaccessible, so that a guest that runs on another goroutine faults.
func (r *region) revoke() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked = true
	return unix.Mprotect(r.all[:r.size], unix.PROT_NONE)
}

// memory is the region's linear memory: as long as it is now, with the capacity that it may grow to.
func (r *region) memory() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[:r.size:max(r.max, r.size)]
}

// free gives the address space back. The region may not be used after it.
func (r *region) free() {
	if r.all != nil {
		_ = unix.Munmap(r.all) // it can fail only for a slice that isn't a mapping
		r.all = nil
	}
}

// remap replaces the mapping of b, which is part of a reservation of ours.
func remap(b []byte, fd, prot, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), prot, unix.MAP_PRIVATE|unix.MAP_FIXED|flags)
	return err
}

// unmap ends a mapping.
func unmap(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // it can fail only for a slice that isn't a mapping
	}
}
