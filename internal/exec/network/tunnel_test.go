package network

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnreadTunnel checks that a tunnel ends if an end doesn't read for idleTime, although the
// other direction is in use.
func TestUnreadTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, inner := net.Pipe()
		server, outer := net.Pipe()
		x := &tunnel{}
		ended := make(chan int64, 2)
		go func() { ended <- x.passBytes(inner, outer) }()
		go func() { ended <- x.passBytes(outer, inner) }()
		go func() { _, _ = client.Write([]byte("unread")) }()
		var writer sync.WaitGroup
		writer.Go(func() { // it reads nothing
			for {
				if _, err := server.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		begun := time.Now()
		received, err := io.Copy(io.Discard, client)
		if err != nil || received == 0 || time.Since(begun) > 2*idleTime {
			t.Errorf("the client received %d bytes, %v, in %v", received, err, time.Since(begun))
		}
		if sum := <-ended + <-ended; sum != received {
			t.Errorf("%d bytes passed, and %d arrived", sum, received)
		}
		for _, c := range []net.Conn{client, inner, server, outer} {
			_ = c.Close() // what still writes ends
		}
		writer.Wait()
	})
}

// TestSlowTunnel checks that everything passes to an end that reads slowly, but does read.
func TestSlowTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, inner := net.Pipe()
		server, outer := net.Pipe()
		x := &tunnel{}
		ended := make(chan int64, 1)
		go func() { ended <- x.passBytes(outer, inner) }()
		text := bytes.Repeat([]byte("slow "), 20)
		go func() {
			_, _ = client.Write(text) // what arrives shows a failure
			_ = client.Close()
		}()
		var got []byte
		for b := make([]byte, 1); len(got) < len(text); time.Sleep(idleTime / 2) {
			n, err := server.Read(b)
			if got = append(got, b[:n]...); err != nil {
				t.Fatalf("%q arrived, then %v", got, err)
			}
		}
		_ = outer.Close() // a pipe has no half-open end
		if n := <-ended; n != int64(len(text)) || !bytes.Equal(got, text) {
			t.Errorf("%d bytes passed, and %q arrived, want %q", n, got, text)
		}
	})
}
