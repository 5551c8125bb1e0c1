package resident

import (
	"os"
	"path/filepath"
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

// TestFindRelocations checks programs with and without a fixed position.
func TestFindRelocations(t *testing.T) {
	header := func(kind byte) string {
		b := make([]byte, 64)
		copy(b, "\x7fELF\x02\x01\x01")
		b[16], b[18], b[20], b[52], b[54], b[58] = kind, 62, 1, 64, 56, 64 // x86-64, version 1, sizes of headers
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatalf("write a program: %v", err)
		}
		return path
	}
	if all, err := findRelocations(header(2)); err != nil || len(all) != 0 {
		t.Errorf("with a fixed position: %v, %v, want none", all, err)
	}
	if all, err := findRelocations(header(3)); err != nil || len(all) != 1 || all[0].start != 0 {
		t.Errorf("without a fixed position: %v, %v, want everything", all, err)
	}
	if _, err := findRelocations(t.TempDir()); err == nil {
		t.Error("a folder is a program, want an error")
	}
}

func TestParseReadOnly(t *testing.T) {
	for _, c := range []struct {
		line       string
		start, end uintptr
		ok         bool
	}{
		{"00400000-01b78000 r-xp 00000000 fe:00 9980097    /bin/biplane\n", 0x400000, 0x1b78000, true},
		{"01b78000-03d75000 r--p 01778000 fe:00 9980097    /bin/biplane\n", 0x1b78000, 0x3d75000, true},
		{"03d75000-045f2000 rw-p 03975000 fe:00 9980097    /bin/biplane\n", 0, 0, false},
		{"01b78000-03d75000 r--p 01778000 fe:00 9980097    /bin/other\n", 0, 0, false},
		{"01b78000-03d75000 r--p 01778000 fe:00 9980097    /bin/biplane (deleted)\n", 0, 0, false},
		{"01b78000-01b78000 r--p 01778000 fe:00 9980097    /bin/biplane\n", 0, 0, false},
		{"x-y r--p 01778000 fe:00 9980097    /bin/biplane\n", 0, 0, false},
		{"7ff000-7ff100 r--p 00000000 00:00 0\n", 0, 0, false},
		{"\n", 0, 0, false},
	} {
		start, end, ok := parseReadOnly([]byte(c.line), "/bin/biplane")
		if start != c.start || end != c.end || ok != c.ok {
			t.Errorf("parseReadOnly(%q) = %#x, %#x, %v, want %#x, %#x, %v", c.line, start, end, ok,
				c.start, c.end, c.ok)
		}
	}
}
