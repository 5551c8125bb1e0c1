//go:build !linux

package launch

// A Begun is a process that was begun ahead: there are none here.
type Begun struct{}

// Begin begins nothing.
func Begin([]string) *Begun { return nil }

// Close does nothing.
func (*Begun) Close() {}
