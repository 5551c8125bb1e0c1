//go:build !linux

package shell

import "errors"

var errSystem = errors.New("this command runs inside a sandbox, which needs Linux")

func serveDriver(string, string) error { return errSystem }

func serveMachine() error { return errSystem }

func askAgent(*request) (*reply, error) { return nil, errSystem }
