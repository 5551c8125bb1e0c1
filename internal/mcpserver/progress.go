package mcpserver

import (
	"context"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A notifier passes the progress of one call on to its client, in order, without ever making the tool wait for the
// client: what a slow client doesn't take in time is left out.
type notifier struct {
	ctx   context.Context
	req   *mcp.CallToolRequest
	token any // nil: the client didn't ask
	queue chan tool.Progress
	stop  chan struct{} // closed when the call is over
	done  chan struct{} // closed when the last notification is written
}

// progressQueue is how many notifications may wait for a client.
const progressQueue = 64

// newNotifier makes the notifier of a call. Its close must be called.
func newNotifier(ctx context.Context, req *mcp.CallToolRequest) *notifier {
	n := &notifier{ctx: ctx, req: req, token: progressToken(req.Params.GetProgressToken())}
	if n.token != nil {
		n.queue = make(chan tool.Progress, progressQueue)
		n.stop, n.done = make(chan struct{}), make(chan struct{})
		go n.run()
	}
	return n
}

// progressToken gives a token that can be written back as it came: a string, or an integer that a float64 holds.
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

// progress gives the function that a tool.Call tells its progress to; nil where nobody listens.
func (n *notifier) progress() func(tool.Progress) {
	if n.token == nil {
		return nil
	}
	return func(p tool.Progress) {
		select {
		case <-n.stop:
		default:
			select {
			case n.queue <- p:
			default:
			}
		}
	}
}

func (n *notifier) run() {
	defer close(n.done)
	last := math.Inf(-1)
	for {
		select {
		case p := <-n.queue:
			last = n.send(p, last)
			continue
		case <-n.stop:
		}
		for { // what came before the end
			select {
			case p := <-n.queue:
				last = n.send(p, last)
			default:
				return
			}
		}
	}
}

// send writes one notification and gives the progress told so far. Progress must increase from one to the next
// (basic/utilities/progress), and JSON knows no infinities.
func (n *notifier) send(p tool.Progress, last float64) float64 {
	if !(p.Done > last) || math.IsInf(p.Done, 0) || math.IsNaN(p.Total) || math.IsInf(p.Total, 0) {
		return last
	}
	// An error means that the client is gone, which the answer will find out as well.
	_ = n.req.Session.NotifyProgress(n.ctx, &mcp.ProgressNotificationParams{
		ProgressToken: n.token, Progress: p.Done, Total: p.Total, Message: p.Message,
	})
	return p.Done
}

// close waits until all progress is written, so that none comes after the answer.
func (n *notifier) close() {
	if n.token != nil {
		close(n.stop)
		<-n.done
	}
}
