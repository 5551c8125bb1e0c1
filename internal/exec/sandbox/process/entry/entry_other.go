//go:build !linux

package entry

import (
	"errors"
	"runtime"
)

// EnterSandbox returns an error.
func EnterSandbox() error {
	return errors.New("process sandboxes need Linux, and this is " + runtime.GOOS)
}
