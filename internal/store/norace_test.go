//go:build !race

package store_test

// raced is set under the race detector, with which long tests take many times as long.
const raced = false
