//go:build unix

package owned

import (
	"io/fs"
	"syscall"
)

// occupiedBytes returns the bytes that a file occupies on the disk.
func occupiedBytes(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}
