package mcpserver

//lint:file-ignore SA1019 clients of earlier revisions still ask for logs

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A notifier passes on to a client what comes while one of its calls runs, in order: progress, and
// what the tool logs. It never makes the tool wait for the client: what a slow client doesn't take
// in time is left out.
type notifier struct {
	ctx   context.Context
	req   *mcp.CallToolRequest
	token any    // for progress; nil: the client didn't ask
	level string // of the least that is logged; "": the client didn't ask
	queue chan func()
	stop  chan struct{} // closed when the call is over
	done  chan struct{} // closed when the last notification is written
	last  float64       // progress told so far
}

// notifyQueue is how many notifications may wait for a client.
const notifyQueue = 64

// newNotifier makes the notifier of a call. Its close must be called.
func newNotifier(ctx context.Context, req *mcp.CallToolRequest) *notifier {
	n := &notifier{ctx: ctx, req: req, token: progressToken(req.Params.GetProgressToken()), last: math.Inf(-1)}
	if n.level = clientOf(ctx).logLevel(); modern(req.ProtocolVersion()) {
		if n.level, _ = req.Params.GetMeta()[mcp.MetaKeyLogLevel].(string); !slices.Contains(levels, n.level) {
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

// progressToken gives a token that can be written back as it came: a string, or an integer that a
// float64 holds.
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

// attach makes the call tell n what its client wants to hear.
func (n *notifier) attach(c *tool.Call) {
	if n.token != nil {
		c.Progress = func(p tool.Progress) { n.add(func() { n.progress(p) }) }
	}
	if n.level != "" {
		c.Log = func(l tool.Log) {
			if slices.Index(levels, l.Level) >= slices.Index(levels, n.level) {
				n.add(func() { n.log(l) })
			}
		}
	}
}

// add puts a notification into the queue, if there is room and the call still runs.
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
		for { // what came before the end
			select {
			case send := <-n.queue:
				send()
			default:
				return
			}
		}
	}
}

// progress writes one notification. Progress must increase from one to the next
// (basic/utilities/progress), and JSON knows no infinities.
func (n *notifier) progress(p tool.Progress) {
	if !(p.Done > n.last) || math.IsInf(p.Done, 0) || math.IsNaN(p.Total) || math.IsInf(p.Total, 0) {
		return
	}
	n.last = p.Done
	// An error, here and below, means that the client is gone, which the answer will find out as
	// well.
	_ = n.req.Session.NotifyProgress(n.ctx, &mcp.ProgressNotificationParams{
		ProgressToken: n.token, Progress: p.Done, Total: p.Total, Message: p.Message,
	})
}

// levels are the levels of log messages, least first (RFC 5424).
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// log writes one log message. The SDK leaves out what the client didn't ask for.
func (n *notifier) log(l tool.Log) {
	ms, ok := members(l.Raw)
	if !ok {
		return
	}
	data := field(l.Raw, ms, "data")
	if data == nil {
		data = json.RawMessage("null")
	}
	_ = n.req.Session.Log(n.ctx, &mcp.LoggingMessageParams{
		Level: mcp.LoggingLevel(l.Level), Logger: text(field(l.Raw, ms, "logger")), Data: data,
	})
}

// close waits until all is written, so that nothing comes after the answer.
func (n *notifier) close() {
	if n.stop != nil {
		close(n.stop)
		<-n.done
	}
}
