// Package stack grows the stacks of goroutines in advance. A goroutine starts with 2 KiB, and
// whenever its stack is full, all of it moves to one of twice the size. A latency-sensitive
// goroutine with deep calls avoids these steps.
package stack

// Grow grows the calling goroutine's stack to 32 KiB, while almost nothing is on it.
func Grow() { grow(false) }

// GrowMost grows the calling goroutine's stack to 256 KiB.
func GrowMost() { growMost(false) }

// A function's stack frame is allocated at its call, and not touched before its variables are
// initialized.

//go:noinline
func grow(touch bool) (sum byte) {
	if touch { // never true
		var room [20 << 10]byte
		sum = fill(room[:])
	}
	return sum
}

//go:noinline
func growMost(touch bool) (sum byte) {
	if touch { // as above
		var room [128 << 10]byte
		sum = fill(room[:])
	}
	return sum
}

//go:noinline
func fill(room []byte) byte {
	for i := range room {
		room[i] = byte(i)
	}
	return room[len(room)-1]
}
