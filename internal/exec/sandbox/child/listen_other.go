//go:build unix && !linux

package child

import "os"

// A socket is one end of the connection. It is read by a blocking system call.
type socket struct{ *os.File }

func newSocket(fd int, name string) socket { return socket{os.NewFile(uintptr(fd), name)} }
