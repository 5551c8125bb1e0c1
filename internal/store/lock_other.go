//go:build !unix

package store

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked")

func flock(*os.File) error { return errors.ErrUnsupported }

func unlockFile(*os.File) error { return errors.ErrUnsupported }

func isDead(int) bool { return false }
