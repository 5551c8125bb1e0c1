package mcp_test

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A progresser is an Observer that calls a function.
type progresser struct {
	tool.NoObserver
	call func(tool.Progress)
}

func progressFunc(f func(tool.Progress)) tool.Observer { return progresser{call: f} }

func (o progresser) OnProgress(_ context.Context, v tool.Progress) { o.call(v) }
func (progresser) WantsProgress() bool                             { return true }
