package netaddr

import (
	"errors"
	"net"
	"os"
	"time"
)

// WriteWithin writes b to a connection, which may be as slow as it likes. It fails if the other end
// accepts none of it for a time.
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
