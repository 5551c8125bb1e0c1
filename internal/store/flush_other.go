//go:build !linux

package store

import "os"

// flushData waits until the disk has what was written to a file.
func flushData(f *os.File) error { return f.Sync() }
