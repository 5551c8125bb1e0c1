package resident

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ReleaseCode unmaps the pages of this program's file that are in memory, code and constants. The
// kernel maps a page again at its next use, from its cache (madvise(2), MADV_DONTNEED). A start
// touches 20 MB of the file, and what follows less than half of them.
func ReleaseCode() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("release the program's code: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("release the program's code: %w", err)
	}
	for line := range bytes.Lines(maps) {
		start, end, ok := parseReadOnly(line, program)
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
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
