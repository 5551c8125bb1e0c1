//go:build race

package hosted_test

// watched reports whether the race detector is in the binary.
const watched = true
