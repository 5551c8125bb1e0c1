package resident

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Code is where this program's file is mapped without write access: code and constants.
type Code struct{ ranges []addresses }

// addresses is a range of addresses.
type addresses struct{ start, end uintptr }

// FindCode locates the program's code in memory, using /proc. It finds none in a
// position-independent executable, because its constants are relocated at startup.
func FindCode() (Code, error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return Code{}, fmt.Errorf("find the program's code: %w", err)
	}
	changed, err := findRelocations("/proc/self/exe")
	if err != nil {
		return Code{}, fmt.Errorf("find the program's code: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return Code{}, fmt.Errorf("find the program's code: %w", err)
	}
	var c Code
	for line := range bytes.Lines(maps) {
		start, end, ok := parseReadOnly(line, program)
		if ok && !slices.ContainsFunc(changed, func(a addresses) bool { return start < a.end && a.start < end }) {
			c.ranges = append(c.ranges, addresses{start, end})
		}
	}
	return c, nil
}

// findRelocations returns the addresses of constants that the loader relocates and then makes
// read-only. In a position-independent executable, these are all addresses.
func findRelocations(path string) (out []addresses, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC {
		return []addresses{{0, ^uintptr(0)}}, nil
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_RELRO {
			out = append(out, addresses{uintptr(p.Vaddr), uintptr(p.Vaddr + p.Memsz)})
		}
	}
	return out, nil
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

// parseReadOnly parses a line of /proc/self/maps (proc_pid_maps(5)). It reports whether the line is
// a mapping of file that this process can't have changed.
func parseReadOnly(line []byte, file string) (start, end uintptr, ok bool) {
	f := bytes.Fields(line)
	if len(f) != 6 || string(f[5]) != file || len(f[1]) != 4 || f[1][1] != '-' {
		return 0, 0, false
	}
	from, to, _ := bytes.Cut(f[0], []byte("-"))
	a, err := strconv.ParseUint(string(from), 16, strconv.IntSize)
	if err != nil {
		return 0, 0, false
	}
	b, err := strconv.ParseUint(string(to), 16, strconv.IntSize)
	if err != nil || b <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(b), true
}
