//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package wasm

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A region is the address space of one guest: bytes [0, size) are its linear memory, the rest is inaccessible.
type region struct {
	all []byte // the whole reservation

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

// reset makes the region, which holds img and what its guest made of it, as load left it, at a lower price.
func (r *region) reset(img *image, max int) error {
	r.mu.Lock()
	fits := !r.revoked && r.size >= img.size
	grown := r.all[min(img.size, r.size):r.size]
	r.mu.Unlock()
	if !fits {
		return r.load(img, max)
	}
	if err := unix.Madvise(r.all[:img.size], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("reset a guest's memory: %w", err)
	}
	if len(grown) > 0 {
		if err := remap(grown, -1, unix.PROT_NONE, unix.MAP_ANON|mapNoReserve); err != nil {
			return fmt.Errorf("reset a guest's memory: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size, r.max = img.size, max
	return nil
}

// warm gives pages of their own to runs ahead of the first write to them, where the system can: one call costs less than
// as many faults.
func (r *region) warm(runs []pageRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := os.Getpagesize()
	for _, p := range runs {
		from := int(p.first) * pageSize / host * host
		to := min((int(p.first+p.n)*pageSize+host-1)/host*host, r.size)
		if from < to {
			populate(r.all[from:to])
		}
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
	r.size, r.max, r.revoked = 0, 0, false
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
