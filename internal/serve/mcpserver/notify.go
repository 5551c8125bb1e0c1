package mcpserver

//lint:file-ignore SA1019 clients of earlier revisions still ask for logs

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A notifier forwards the progress and log messages of a running call to its client, in order. The
// tool never waits for the client: notifications that a slow client doesn't read in time are
// dropped.
type notifier struct {
	ctx   context.Context
	to    *mcp.ServerSession
	token any    // for progress; nil: not requested by the client
	level string // minimum log level; "": not requested by the client
	queue chan func()
	stop  chan struct{} // closed when the call is over
	done  chan struct{} // closed when the last notification is written
	last  float64       // last reported progress
	about *exchange     // the task to which its notifications are related; nil: none
	over  sync.Once
}

// notifyQueue is the maximum number of notifications queued for a client.
const notifyQueue = 64

// newNotifier returns the notifier of a request with the given _meta. The caller must call its
// close method.
func newNotifier(ctx context.Context, to *mcp.ServerSession, meta mcp.Meta, modern bool) *notifier {
	n := &notifier{ctx: ctx, to: to, token: progressToken(meta["progressToken"]), last: math.Inf(-1)}
	if n.level = clientOf(ctx).logLevel(); modern {
		if n.level, _ = meta[mcp.MetaKeyLogLevel].(string); !slices.Contains(levels, n.level) {
			n.level = ""
		}
	}
	if n.token != nil || n.level != "" {
		n.queue = make(chan func(), notifyQueue)
		n.stop, n.done = make(chan struct{}), make(chan struct{})
		go n.run()
	}
	return n
}

// progressToken returns a token that can be echoed exactly: a string, or an integer that a float64
// represents exactly. For other values it returns nil.
func progressToken(v any) any {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return int64(v)
		}
	}
	return nil
}

// add queues a notification if there is room and the call is still running.
func (n *notifier) add(send func()) {
	select {
	case <-n.stop:
	default:
		select {
		case n.queue <- send:
		default:
		}
	}
}

func (n *notifier) run() {
	defer close(n.done)
	for {
		select {
		case send := <-n.queue:
			send()
			continue
		case <-n.stop:
		}
		for { // drain the queue
			select {
			case send := <-n.queue:
				send()
			default:
				return
			}
		}
	}
}

// progress sends one notification. Progress must increase each time (basic/utilities/progress), and
// JSON has no infinities.
func (n *notifier) progress(p tool.Progress) {
	meta, ok := n.relate()
	if !ok || !(p.Done > n.last) || math.IsInf(p.Done, 0) || math.IsNaN(p.Total) || math.IsInf(p.Total, 0) {
		return
	}
	n.last = p.Done
	// An error, here and below, means that the client is gone. Sending the answer fails as well
	// then.
	_ = n.to.NotifyProgress(n.ctx, &mcp.ProgressNotificationParams{
		Meta: meta, ProgressToken: n.token, Progress: p.Done, Total: p.Total, Message: p.Message,
	})
}

// levels are the log levels, lowest first (RFC 5424).
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// log sends one log message. The SDK drops messages that the client didn't request.
func (n *notifier) log(l tool.Log) {
	ms, ok := parseMembers(l.Raw)
	meta, known := n.relate()
	if !ok || !known {
		return
	}
	data := fieldOf(l.Raw, ms, "data")
	if data == nil {
		data = json.RawMessage("null")
	}
	_ = n.to.Log(n.ctx, &mcp.LoggingMessageParams{
		Meta: meta, Level: mcp.LoggingLevel(l.Level), Logger: stringValue(fieldOf(l.Raw, ms, "logger")), Data: data,
	})
}

// relate returns the _meta that names the task. ok is false if its id is not known yet.
func (n *notifier) relate() (meta mcp.Meta, ok bool) {
	if n.about == nil {
		return nil, true
	}
	n.about.mu.Lock()
	defer n.about.mu.Unlock()
	if n.about.task == nil {
		return nil, false
	}
	return mcp.Meta{relatedTask: encodeTaskID(n.about.task.id)}, true
}

// close waits until all notifications are sent, so that none follows the answer. It may be called
// again.
func (n *notifier) close() {
	if n.stop != nil {
		n.over.Do(func() { close(n.stop) })
		<-n.done
	}
}
