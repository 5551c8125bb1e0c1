package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Clients are notified of the states of tasks: in revision 2025-11-25 the session that created the
// task, in 2026-07-28 the clients that listen to it. The SDK sends only notifications that it
// knows. So it sends one of them, with parameters that begin with the true method, and the
// connection restores that.

const (
	listenMethod = "subscriptions/listen"
	taskChanged  = "notifications/tasks"        // 2026-07-28
	taskStatus   = "notifications/tasks/status" // 2025-11-25

	// watchedKey is the key in _meta that passes the tasks to which a client listens.
	watchedKey = "biplane.dev/tasks"
	// noticeKey is the key in _meta that passes a notification to sendNotices.
	noticeKey = "biplane.dev/notice"

	maxWatched = 100 // tasks to which one request listens

	disguise    = "notifications/progress"
	methodMark  = "biplane.dev/method"
	trueMethod  = `{"` + methodMark + `":"`
	disguiseRaw = `{"jsonrpc":"2.0","method":"` + disguise + `","params":` + trueMethod
)

// rawParams are the parameters of a notification, as encoded.
type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

// MarshalJSON returns the parameters.
func (p *rawParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

// restoreMethod returns the true method and parameters of a notification with these parameters. ok
// is false for notifications of the SDK.
func restoreMethod(params json.RawMessage) (method string, rest json.RawMessage, ok bool) {
	after, ok := bytes.CutPrefix(params, []byte(trueMethod))
	if !ok {
		return "", nil, false
	}
	name, after, ok := bytes.Cut(after, []byte(`",`))
	return string(name), append(json.RawMessage("{"), after...), ok
}

// restoreEvent restores the method of a notification in an event of a stream.
func restoreEvent(event []byte) []byte {
	head, data, _ := bytes.Cut(event, []byte("data: "))
	if !bytes.HasPrefix(data, []byte(disguiseRaw)) {
		return event
	}
	method, rest, ok := restoreMethod(data[len(disguiseRaw)-len(trueMethod):])
	if !ok {
		return event
	}
	return slices.Concat(head, []byte(`data: {"jsonrpc":"2.0","method":"`+method+`","params":`), rest)
}

// sendTask notifies a client of the state of a task.
func sendTask(ctx context.Context, to *mcp.ServerSession, method string, state any) {
	raw, err := tool.Marshal(state)
	if err != nil {
		return // a task can always be marshaled
	}
	ms, _ := parseParts(raw)
	p := &rawParams{raw: insertField(raw, ms, methodMark, []byte(`"`+method+`"`))}
	// An error means that the client is gone.
	_ = to.NotifyProgress(ctx, &mcp.ProgressNotificationParams{Meta: mcp.Meta{noticeKey: p}})
}

// taskNotices notifies clients of the states of tasks.
type taskNotices struct{ *Server }

// watchTask calls send whenever the state of a task has changed since change was its channel, until
// the task has ended or ctx is done. Changes in quick succession are sent as one.
func (a *tasks) watchTask(ctx context.Context, k *task, change <-chan struct{}, send func()) {
	a.exchanges.startExchange(func() {
		for {
			select {
			case <-change:
			case <-ctx.Done():
				return
			case <-a.life.Done():
				return
			}
			k.mu.Lock()
			next, over := k.change, k.hasEnded()
			k.mu.Unlock()
			change = next
			if send(); over {
				return
			}
		}
	})
}

// A listening is a request that listens to tasks.
type listening struct {
	tasks []*task
	alone bool // to nothing else
}

type listeningKey struct{}

// listenToTasks handles the tasks in subscriptions/listen. Each counts as a subscription. A client
// can listen only to tasks of its principal; others are left out of the acknowledgement, like
// unknown ones and those for which there is no room.
func (s taskNotices) listenToTasks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := req.(*mcp.SubscriptionsListenRequest)
		if !ok || r.Params.Meta[watchedKey] == nil || r.Params.Notifications == nil {
			return next(ctx, method, req)
		}
		if !declaresTasks(r.ClientCapabilities()) {
			return nil, errNoTasks
		}
		ids, _ := r.Params.Meta[watchedKey].([]any)
		p := s.principalOf(ctx, r.ClientInfo())
		n := r.Params.Notifications
		l := &listening{alone: !n.ToolsListChanged && !n.PromptsListChanged && !n.ResourcesListChanged &&
			len(n.ResourceSubscriptions) == 0}
		for _, id := range ids[:min(len(ids), maxWatched)] {
			text, _ := id.(string)
			k := s.tasks.lookupTask(p, text)
			if k == nil || slices.Contains(l.tasks, k) {
				continue
			}
			if s.subscriptions.room.Acquire(p.ID, 1) != nil {
				break
			}
			l.tasks = append(l.tasks, k)
		}
		defer s.subscriptions.room.Release(p.ID, int64(len(l.tasks)))
		return next(context.WithValue(ctx, listeningKey{}, l), method, req)
	}
}

// sendNotices sends the notifications about tasks, and acknowledges to which a client listens.
func (s taskNotices) sendNotices(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, _ := req.GetSession().(*mcp.ServerSession)
		switch p := req.GetParams().(type) {
		case *mcp.ProgressNotificationParams:
			if raw, ok := p.Meta[noticeKey].(*rawParams); ok {
				return next(ctx, method, &mcp.ServerRequest[*rawParams]{Session: session, Params: raw})
			}
		case *mcp.SubscriptionsAcknowledgedParams:
			l, ok := ctx.Value(listeningKey{}).(*listening)
			if !ok {
				break
			}
			raw, err := l.acknowledge(p)
			if err != nil {
				return nil, err
			}
			res, err := next(ctx, method, &mcp.ServerRequest[*rawParams]{Session: session,
				Params: &rawParams{raw: raw}})
			if err != nil {
				return nil, err
			}
			s.beginListening(ctx, session, l, p.Meta[mcp.MetaKeySubscriptionID])
			return res, nil
		}
		return next(ctx, method, req)
	}
}

// acknowledge returns the parameters of the acknowledgement, with the tasks.
func (l *listening) acknowledge(p *mcp.SubscriptionsAcknowledgedParams) (json.RawMessage, error) {
	raw, err := tool.Marshal(p)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, k := range l.tasks {
		ids = append(ids, k.id)
	}
	list, err := tool.Marshal(ids)
	if err != nil {
		return nil, err
	}
	ms, _ := parseParts(raw)
	agreed := fieldOf(raw, ms, "notifications")
	inner, _ := parseParts(agreed)
	return replaceField(raw, ms, "notifications", insertField(agreed, inner, "taskIds", list)), nil
}

// beginListening sends the states of the tasks, now and after each change, until ctx is done. If
// the request listens to nothing else, the SDK would end it, and beginListening waits.
func (s taskNotices) beginListening(ctx context.Context, to *mcp.ServerSession, l *listening, subscription any) {
	for _, k := range l.tasks {
		send := func() {
			state := k.describeTask(false)
			state.Type, state.Meta = "", mcp.Meta{mcp.MetaKeySubscriptionID: subscription}
			sendTask(ctx, to, taskChanged, state)
		}
		k.mu.Lock()
		change, over := k.change, k.hasEnded()
		k.mu.Unlock()
		if send(); !over {
			s.tasks.watchTask(ctx, k, change, send)
		}
	}
	if l.alone && len(l.tasks) > 0 {
		<-ctx.Done()
	}
}
