package approval_test

import "github.com/biplane-dev/biplane/internal/tool"

// A holder is an Observer that calls a function.
type holder struct {
	tool.NoObserver
	call func(*tool.Hold)
}

func holdFunc(f func(*tool.Hold)) tool.Observer { return holder{call: f} }

func (o holder) OnHold(v *tool.Hold) { o.call(v) }
