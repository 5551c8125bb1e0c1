//go:build linux && (amd64 || arm64)

package wasm

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ioctl PAGEMAP_SCAN (Linux 6.7; Documentation/admin-guide/mm/pagemap.rst).
const (
	pagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsFile  = 1 << 2
	pagePresent = 1 << 3
	pageSwapped = 1 << 4
	scanRegions = 128 // page regions per call
	pagemapPath = "/proc/self/pagemap"
)

// A scanArg is struct pm_scan_arg.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages   uint64
	categoryInverted, categoryMask, categoryAnyof, returnMask uint64
}

// A pageRegion is struct page_region.
type pageRegion struct{ start, end, categories uint64 }

// A scan holds the data of one call. The kernel receives the addresses as numbers, which the
// garbage collector doesn't update when a stack moves. So a scan must not be on a stack; those from
// scans never are.
type scan struct {
	arg scanArg
	vec [scanRegions]pageRegion
}

var scans = sync.Pool{New: func() any { return new(scan) }}

// openPagemap opens the process's own page map, or returns nil if there is none that can be
// scanned.
func openPagemap() *os.File {
	f, err := os.Open(pagemapPath)
	if err != nil {
		return nil
	}
	if _, ok := scanPages(f, nil); !ok {
		_ = f.Close() // only read from
		return nil
	}
	return f
}

// scanPages returns the parts of b, a private mapping, for which the process has private pages: at
// least all that were written to. It reports false if the system can't tell.
func scanPages(f *os.File, b []byte) (parts [][2]int, ok bool) {
	if f == nil {
		return nil, false
	}
	fd := f.Fd()
	s := scans.Get().(*scan)
	defer scans.Put(s)
	begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	a := &s.arg
	*a = scanArg{
		start: begin, end: begin + uint64(len(b)), vec: uint64(uintptr(unsafe.Pointer(&s.vec[0]))), vecLen: scanRegions,
		categoryInverted: pageIsFile, categoryMask: pageIsFile, categoryAnyof: pagePresent | pageSwapped,
	}
	a.size = uint64(unsafe.Sizeof(*a))
	for first := true; first || a.start < a.end; first = false {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, pagemapScan, uintptr(unsafe.Pointer(a)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n > scanRegions {
			return nil, false
		}
		if parts == nil {
			parts = make([][2]int, 0, n)
		}
		for _, r := range s.vec[:n] {
			if r.start < begin || r.end > begin+uint64(len(b)) || r.start > r.end {
				return nil, false
			}
			parts = append(parts, [2]int{int(r.start - begin), int(r.end - begin)})
		}
		if len(b) == 0 {
			break
		}
		if a.walkEnd <= a.start {
			return nil, false
		}
		a.start = a.walkEnd
	}
	runtime.KeepAlive(f)
	return parts, true
}
