//go:build !linux

package process

import (
	"errors"
	"io"
	"runtime"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A Driver creates sandboxes. It needs Linux.
type Driver struct {
	sandbox.Driver
	sandbox.MachineDriver
	io.Closer
}

var errSystem = errors.New("process sandboxes need Linux, and this is " + runtime.GOOS)

// New returns an error.
func New(Config) (*Driver, error) { return nil, errSystem }

// CountWarm returns 0.
func (*Driver) CountWarm() int { return 0 }
