// Package stack gives goroutines their room at once. A goroutine begins with two kilobytes, and whenever it has no room left its
// whole stack moves to one of twice the size. One that is known to go deep, and that somebody waits for, saves the steps.
package stack

// Grow has the calling goroutine's stack grow to 32 KiB, while there is hardly anything on it.
func Grow() { grow(false) }

// GrowMost has it grow to 256 KiB.
func GrowMost() { growMost(false) }

// A function's room is made when it is called, and none of it is touched before its variables are made.

//go:noinline
func grow(touch bool) (sum byte) {
	if touch { // which it never is
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
