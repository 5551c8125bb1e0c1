package sandbox

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// HungUp reports whether a write to a guest stream failed because nobody will read it any more: then the guest is to end, and that
// is no error. net.ErrClosed is told by its words: package net is initialized among the last, and the engine's process is not to
// wait for it.
func HungUp(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) ||
		err != nil && strings.HasSuffix(err.Error(), "use of closed network connection")
}
