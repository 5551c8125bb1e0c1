package mcpserver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An observer observes a call of a client: it keeps the labels of what the client reads, and sends
// the notifications that the client requested.
type observer struct {
	tool.NoObserver
	client *client // nil: the connection keeps no labels
	notify *notifier
	asker  asker  // nil: the client can't be asked
	alone  bool   // the client speaks 2026-07-28, and doesn't support tasks
	server string // named in questions, if the client can't know which server asks
}

func (o observer) ListCapabilities() json.RawMessage {
	if o.asker == nil {
		return nil
	}
	return o.asker.listCapabilities()
}

func (o observer) OnQuestions(ctx context.Context, asked map[string]tool.Question) (
	map[string]json.RawMessage, error) {
	if o.ListCapabilities() == nil {
		return o.NoObserver.OnQuestions(ctx, asked)
	}
	if o.server != "" {
		asked = nameServer(o.server, asked)
	}
	return o.asker.askClient(ctx, asked)
}

// AwaitsTasks returns false for a client that must be told that a tool requires tasks.
func (o observer) AwaitsTasks() bool { return !o.alone }

func (o observer) OnTask() {
	if t, ok := o.asker.(*exchange); ok && t.tasks {
		t.signalTask()
	}
}

func (o observer) OnExecution(id string) {
	if t, ok := o.asker.(*exchange); ok {
		t.execution.Store(id)
		select {
		case t.identified <- struct{}{}:
		default: // no one waits for it
		}
	}
}

func (o observer) WantsProgress() bool { return o.notify.token != nil }
func (o observer) WantsLogs() bool     { return o.notify.level != "" }

func (o observer) OnProgress(_ context.Context, p tool.Progress) {
	if o.WantsProgress() {
		o.notify.add(func() { o.notify.progress(p) })
	}
}

func (o observer) OnLog(_ context.Context, l tool.Log) {
	if o.WantsLogs() && slices.Index(levels, l.Level) >= slices.Index(levels, o.notify.level) {
		o.notify.add(func() { o.notify.log(l) })
	}
}

func (o observer) OnLabels(labels []string) error {
	if o.client == nil {
		return nil
	}
	return o.client.addLabels(labels)
}

// A holdObserver observes when a call waits for a person, too.
type holdObserver struct {
	tool.Observer
	hold func(*tool.Hold)
}

func (o holdObserver) OnHold(h *tool.Hold) { o.hold(h) }
