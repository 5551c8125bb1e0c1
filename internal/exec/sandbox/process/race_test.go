//go:build race

package process_test

// raced is set under the race detector, which needs more memory than a sandbox may have.
const raced = true
