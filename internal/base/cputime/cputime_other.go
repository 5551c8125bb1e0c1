//go:build !linux

package cputime

import "time"

// readThread reports that the processor time of a thread is unknown.
func readThread() (time.Duration, bool) { return 0, false }
