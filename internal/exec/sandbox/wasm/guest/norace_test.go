//go:build !race

package guest_test

// raced reports whether the race detector is enabled. It makes long tests many times slower.
const raced = false
