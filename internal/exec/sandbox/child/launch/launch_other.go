//go:build !linux

package launch

// A Begun is a process started in advance. This system has none.
type Begun struct{}

// Begin returns nil.
func Begin([]string) *Begun { return nil }

// Close does nothing.
func (*Begun) Close() {}
