//go:build !linux

package store

import "os"

// flushData waits until a file's data is on the disk.
func flushData(f *os.File) error { return f.Sync() }
