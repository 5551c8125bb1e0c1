//go:build !linux

package resident

// Code is where this program's file is mapped; unknown on this system.
type Code struct{}

// FindCode does nothing on this system.
func FindCode() (Code, error) { return Code{}, nil }

// ReleasePages does nothing on this system.
func (Code) ReleasePages() error { return nil }
