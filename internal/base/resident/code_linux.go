package resident

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Code is where this program's file is mapped without write access: code and constants.
type Code struct{ ranges []addresses }

// addresses is a range of addresses.
type addresses struct{ start, end uintptr }

// The entries of the auxiliary vector (getauxval(3)) with the program headers' address and number.
const (
	vectorHeaders     = 3
	vectorHeaderCount = 5
)

// FindCode locates the program's code in memory, by the program headers that the kernel maps into
// each process. It finds none in a position-independent executable, because its constants are
// relocated at startup.
func FindCode() (Code, error) {
	vector, err := unix.Auxv()
	if err != nil {
		return Code{}, fmt.Errorf("find the program's code: %w", err)
	}
	var table, count uintptr
	for _, entry := range vector {
		switch entry[0] {
		case vectorHeaders:
			table = entry[1]
		case vectorHeaderCount:
			count = entry[1]
		}
	}
	if table == 0 || unsafe.Sizeof(table) != 8 {
		return Code{}, errors.New("find the program's code: no 64-bit program headers")
	}
	// Not a conversion of table: that is for addresses of Go's memory only.
	first := *(**elf.Prog64)(unsafe.Pointer(&table))
	return findSegments(unsafe.Slice(first, count), table), nil
}

// findSegments returns the segments without write access. table is the address of the headers.
func findSegments(headers []elf.Prog64, table uintptr) Code {
	var ranges []addresses
	fixed := false
	page := uint64(os.Getpagesize())
	for _, h := range headers {
		switch elf.ProgType(h.Type) {
		case elf.PT_PHDR:
			fixed = uintptr(h.Vaddr) == table
		case elf.PT_LOAD:
			if elf.ProgFlag(h.Flags)&elf.PF_W == 0 {
				start, end := h.Vaddr&^(page-1), (h.Vaddr+h.Filesz+page-1)&^(page-1)
				ranges = append(ranges, addresses{uintptr(start), uintptr(end)})
			}
		}
	}
	if !fixed {
		return Code{}
	}
	return Code{ranges}
}

// ReleasePages unmaps the pages of the code that are in memory. The kernel maps a page again at its
// next use, from its cache (madvise(2), MADV_DONTNEED). It maps up to two megabytes around a page
// that is used, so a process seems to use far more of the file than it does.
func (c Code) ReleasePages() error {
	for _, r := range c.ranges {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release the program's code: %w", errno)
		}
	}
	return nil
}
