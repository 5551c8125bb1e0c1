package resident

import (
	"debug/elf"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// countFile returns how many KiB of file-backed pages are in this process's memory.
func countFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatalf("read the process's status: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatalf("RssFile is %q, want a number", value)
			}
			return n
		}
	}
	t.Skip("this kernel doesn't report RssFile")
	return 0
}

func TestReleaseCode(t *testing.T) {
	before := countFile(t)
	code, err := FindCode()
	if err != nil {
		t.Fatalf("find the code: %v", err)
	}
	if len(code.ranges) == 0 {
		t.Skip("this program doesn't have a fixed position")
	}
	if err := code.ReleasePages(); err != nil {
		t.Fatalf("release the code: %v", err)
	}
	if after := countFile(t); after >= before {
		t.Errorf("%d KiB of files are in memory after the release, %d KiB before, want less", after, before)
	}
}

// TestFindSegments checks programs with and without a fixed position.
func TestFindSegments(t *testing.T) {
	headers := []elf.Prog64{
		{Type: uint32(elf.PT_PHDR), Flags: uint32(elf.PF_R), Vaddr: 0x400040},
		{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Vaddr: 0x400f78, Filesz: 0x64},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: 0x400000, Filesz: 0x1777f31},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Vaddr: 0x1b78010, Filesz: 0x1000},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Vaddr: 0x3d75000, Filesz: 0x1000},
	}
	want := Code{[]addresses{{0x400000, 0x1b78000}, {0x1b78000, 0x1b7a000}}}
	if got := findSegments(headers, 0x400040); !reflect.DeepEqual(got, want) {
		t.Errorf("with a fixed position: %#x, want %#x", got, want)
	}
	if got := findSegments(headers, 0x7f0000400040); len(got.ranges) != 0 {
		t.Errorf("at another position: %#x, want none", got)
	}
	if got := findSegments(headers[1:], 0x400040); len(got.ranges) != 0 {
		t.Errorf("without a position: %#x, want none", got)
	}
}
