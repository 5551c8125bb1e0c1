//go:build race

package guest_test

// raced says that the race detector is on, under which long tests take many times as long.
const raced = true
