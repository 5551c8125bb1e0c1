package mcpserver

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// In mode Direct, clients subscribe to updates of resources. A subscription is a call of the tool
// "github.resources.subscribe", which passes the gateway. The SDK keeps which session has which
// subscription, by URI. This package appends the client to the URIs that the SDK sees, so that each
// client is notified separately, and a slow one doesn't delay the others.

// A subscription is a resource of whose updates a client is notified.
type subscription struct {
	upstream, key string // the resource
	principal     tool.Principal
	begun         bool
	stop          context.CancelFunc // no longer ends the subscription with its client
}

// subscriptions has the subscriptions of all clients.
type subscriptions struct {
	room    *queue.Shares
	senders sync.WaitGroup

	mu      sync.Mutex
	all     map[*client]map[string]*subscription // by the name that the client uses
	pending map[*client]map[string]bool          // names to notify; a client in it has a sender
}

func newSubscriptions(limit int) *subscriptions {
	return &subscriptions{room: queue.NewShares("subscriptions", "open", int64(limit)),
		all: map[*client]map[string]*subscription{}, pending: map[*client]map[string]bool{}}
}

// maxSubscribed is the maximum length of a URI to which a client subscribes.
const maxSubscribed = 8 << 10

// clientMark separates a URI from the client in the URIs that the SDK sees. No URI contains it.
const clientMark = "\x00"

func (c *client) markURI(uri string) string { return uri + clientMark + strconv.FormatInt(c.id, 10) }

func unmarkURI(uri string) string {
	uri, _, _ = strings.Cut(uri, clientMark)
	return uri
}

// canSubscribe reports whether clients in a mode can subscribe to resources.
func (s *Server) canSubscribe(m Mode) bool { return m == Direct && s.cfg.Resources != nil }

// markSubscriptions marks the URIs in requests with their client. It also ends the subscriptions of
// a session that ends, which the SDK remembers otherwise.
func (s *Server) markSubscriptions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := clientOf(ctx)
		if c == nil || !s.canSubscribe(s.endpoints.modeOf(c.principal)) {
			return next(ctx, method, req)
		}
		switch r := req.(type) {
		case *mcp.SubscribeRequest:
			name := r.Params.URI
			r.Params.URI = c.markURI(name)
			res, err := next(ctx, method, req)
			if err == nil {
				s.subscriptions.endWith(c, name, func() {
					_, _ = next(context.WithoutCancel(ctx), "resources/unsubscribe", &mcp.UnsubscribeRequest{
						Session: r.Session, Params: &mcp.UnsubscribeParams{URI: c.markURI(name)}})
				})
			}
			return res, err
		case *mcp.UnsubscribeRequest:
			r.Params.URI = c.markURI(r.Params.URI)
		case *mcp.SubscriptionsListenRequest:
			if n := r.Params.Notifications; n != nil {
				slices.Sort(n.ResourceSubscriptions)
				n.ResourceSubscriptions = slices.Compact(n.ResourceSubscriptions)
				for i, uri := range n.ResourceSubscriptions {
					n.ResourceSubscriptions[i] = c.markURI(uri)
				}
			}
		}
		return next(ctx, method, req)
	}
}

// unmarkSubscriptions removes the marks from notifications.
func unmarkSubscriptions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch p := req.GetParams().(type) {
		case *mcp.ResourceUpdatedNotificationParams:
			p.URI = unmarkURI(p.URI)
		case *mcp.SubscriptionsAcknowledgedParams:
			for i, uri := range p.Notifications.ResourceSubscriptions {
				p.Notifications.ResourceSubscriptions[i] = unmarkURI(uri)
			}
		}
		return next(ctx, method, req)
	}
}

// subscribeClient subscribes a client to a resource. The SDK calls it for resources/subscribe, and
// for each resource of subscriptions/listen.
func (s *Server) subscribeClient(ctx context.Context, r *mcp.SubscribeRequest) error {
	c, name := clientOf(ctx), unmarkURI(r.Params.URI)
	if c == nil || len(name) > maxSubscribed || r.Params.URI != c.markURI(name) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid URI"}
	}
	p, offers := s.principalOf(ctx, r.ClientInfo()), offerRequests{s}
	upstream, key, err := offers.findOffer(ctx, p, name, findResource)
	if err != nil {
		return err
	}
	x := &subscription{upstream: upstream, key: key, principal: p}
	if added, err := s.subscriptions.addSubscription(c, name, x); err != nil {
		return offers.methodError(upstream+tool.SubscribeSuffix, name, false, err)
	} else if !added {
		return nil
	}
	s.cfg.Resources.WatchResource(upstream, key, p.ID)
	from := methodRequest{principal: p, session: r.Session, meta: r.Params.GetMeta(),
		modern: isModern(r.ProtocolVersion())}
	_, err = offers.callMethod(ctx, from, upstream+tool.SubscribeSuffix, methodArguments{URI: key}, name)
	if err != nil {
		s.endSubscription(c, name)
		return err
	}
	s.subscriptions.mu.Lock()
	x.begun = true
	s.subscriptions.mu.Unlock()
	return nil
}

// unsubscribeClient ends a subscription of a client. It never fails, because the SDK keeps the
// subscription otherwise.
func (s *Server) unsubscribeClient(ctx context.Context, r *mcp.UnsubscribeRequest) error {
	if c := clientOf(ctx); c != nil {
		s.endSubscription(c, unmarkURI(r.Params.URI))
	}
	return nil
}

// addSubscription adds a subscription, and reports whether it is new.
func (t *subscriptions) addSubscription(c *client, name string, x *subscription) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[c][name] != nil {
		return false, nil
	}
	if err := t.room.Acquire(x.principal.ID, 1); err != nil {
		return false, err
	}
	if t.all[c] == nil {
		t.all[c] = map[string]*subscription{}
	}
	t.all[c][name] = x
	return true, nil
}

// endWith makes end run when the client is gone, unless the subscription has ended before.
func (t *subscriptions) endWith(c *client, name string, end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.all[c][name]; x != nil && x.stop == nil {
		stop := context.AfterFunc(c.ctx, end)
		x.stop = func() { stop() }
	}
}

// endSubscription ends a subscription, if there is one.
func (s *Server) endSubscription(c *client, name string) {
	t := s.subscriptions
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.all[c][name]
	if x == nil {
		return
	}
	delete(t.all[c], name)
	if len(t.all[c]) == 0 {
		delete(t.all, c)
	}
	if x.stop != nil {
		x.stop()
	}
	t.room.Release(x.principal.ID, 1)
	s.cfg.Resources.UnwatchResource(x.upstream, x.key, x.principal.ID)
}

// NotifyResource notifies the subscribed clients that a resource of an upstream was updated. It
// doesn't wait for them. If principal is not empty, it notifies only clients of that principal.
func (s *Server) NotifyResource(upstream, uri, principal string) {
	t := s.subscriptions
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	for c, all := range t.all {
		for name, x := range all {
			if !x.begun || x.upstream != upstream || x.key != uri || principal != "" && x.principal.ID != principal {
				continue
			}
			if t.pending[c] == nil {
				t.pending[c] = map[string]bool{}
				t.senders.Go(func() { s.sendUpdates(c) })
			}
			t.pending[c][name] = true
		}
	}
}

// sendUpdates notifies a client of updates until none is pending.
func (s *Server) sendUpdates(c *client) {
	t := s.subscriptions
	for {
		t.mu.Lock()
		names := t.pending[c]
		if len(names) == 0 {
			delete(t.pending, c)
			t.mu.Unlock()
			return
		}
		t.pending[c] = map[string]bool{}
		t.mu.Unlock()
		for name := range names {
			if !s.maySeeUpdates(c, name) {
				continue
			}
			e := s.endpoints.endpointOf(c.principal)
			for _, srv := range []*mcp.Server{e.sessions, e.stateless} { // one of them has the session
				_ = srv.ResourceUpdated(s.ctx, &mcp.ResourceUpdatedNotificationParams{URI: c.markURI(name)})
			}
		}
	}
}

// maySeeUpdates reports whether a client still has a subscription, and its principal may still
// subscribe to resources of that upstream: policies may have changed.
func (s *Server) maySeeUpdates(c *client, name string) bool {
	t := s.subscriptions
	t.mu.Lock()
	x := t.all[c][name]
	t.mu.Unlock()
	if x == nil || s.ctx.Err() != nil {
		return false
	}
	visible, _ := s.cfg.Catalog.ListOffers(s.ctx, x.principal)
	return slices.ContainsFunc(visible, func(o *tool.Offers) bool {
		return o.Upstream == x.upstream && hasMethod(o, tool.Subscribe)
	})
}
