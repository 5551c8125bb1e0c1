package sandbox

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// HungUp reports whether a write to a guest stream failed because the reader closed it. The guest
// should then end, and that is not an error. net.ErrClosed is recognized by its text: package net
// is initialized late, and the engine's process must not wait for it.
func HungUp(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) ||
		err != nil && strings.HasSuffix(err.Error(), "use of closed network connection")
}
