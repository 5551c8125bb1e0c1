package stack

import (
	"testing"
	"unsafe"
)

// deep uses at least n KiB of the stack.
//
//go:noinline
func deep(n int) byte {
	var room [1 << 10]byte
	room[n] = byte(n)
	if n == 0 {
		return fill(room[:])
	}
	return deep(n-1) + room[n]
}

// moves reports whether a stack that calls grow first is moved when depth KiB of it are used.
func moves(grow func(), depth int) bool {
	moved := make(chan bool)
	go func() {
		grow()
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		deep(depth)
		moved <- uintptr(unsafe.Pointer(&here)) != before
	}()
	return <-moved
}

func TestGrow(t *testing.T) {
	seen := false
	for range 100 { // a new stack may reuse the address of the old one
		seen = seen || moves(func() {}, 12)
		if moves(Grow, 12) || moves(GrowMost, 100) {
			t.Fatal("the stack moved though there was room")
		}
	}
	if !seen {
		t.Error("no stack moved that had no room: this test sees nothing")
	}
	if grow(true) != 0xff || growMost(true) != 0xff {
		t.Error("the room is not as large as it should be")
	}
}

// BenchmarkGrow measures goroutines whose calls use 24 KiB of stack.
func BenchmarkGrow(b *testing.B) {
	for name, grow := range map[string]func(){"in advance": Grow, "in steps": func() {}} {
		b.Run(name, func(b *testing.B) {
			done := make(chan byte)
			for b.Loop() {
				go func() {
					grow()
					done <- deep(16)
				}()
				<-done
			}
		})
	}
}
