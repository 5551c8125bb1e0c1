package gateway_test

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A watch is an Observer of the functions that are set.
type watch struct {
	tool.NoObserver
	progress func(tool.Progress)
	logs     func(tool.Log)
	labels   func([]string) error
}

func (w watch) WantsProgress() bool { return w.progress != nil }
func (w watch) WantsLogs() bool     { return w.logs != nil }

func (w watch) OnProgress(_ context.Context, p tool.Progress) {
	if w.progress != nil {
		w.progress(p)
	}
}

func (w watch) OnLog(_ context.Context, l tool.Log) {
	if w.logs != nil {
		w.logs(l)
	}
}

func (w watch) OnLabels(labels []string) error {
	if w.labels == nil {
		return nil
	}
	return w.labels(labels)
}
