//go:build !linux

package launch

// An EarlyProcess is a process started in advance. This system has none.
type EarlyProcess struct{}

// Begin returns nil.
func Begin([]string) *EarlyProcess { return nil }

// Close does nothing.
func (*EarlyProcess) Close() {}
