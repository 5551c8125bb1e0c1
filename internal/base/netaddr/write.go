package netaddr

import (
	"errors"
	"net"
	"os"
	"time"
)

// WriteWithin writes b to a connection. There is no limit on the total time, but it fails if the
// other end accepts no bytes for the time idle. It returns how many bytes were written.
func WriteWithin(c net.Conn, b []byte, idle time.Duration) (n int, err error) {
	for n < len(b) {
		_ = c.SetWriteDeadline(time.Now().Add(idle)) // fails only if it is closed
		m, err := c.Write(b[n:])
		n += m
		if err != nil && (m == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return n, err
		}
	}
	return n, nil
}
