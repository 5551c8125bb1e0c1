package sandbox_test

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

func TestHungUp(t *testing.T) {
	a, b := net.Pipe()
	b.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	r.Close()
	write := func(w interface{ Write([]byte) (int, error) }) error { _, err := w.Write([]byte("x")); return err }
	broken := write(w)
	w.Close()
	_, accepted := l.Accept()
	for name, err := range map[string]error{"pipe": write(a), "socket": accepted, "broken": broken,
		"closed file": write(w)} {
		if !sandbox.HungUp(err) {
			t.Errorf("%s, err = %v, want sandbox.HungUp(err)", name, err)
		}
	}
	for _, err := range []error{nil, errors.New("no space left on device")} {
		if sandbox.HungUp(err) {
			t.Errorf("err = %v, want !sandbox.HungUp(err)", err)
		}
	}
}
