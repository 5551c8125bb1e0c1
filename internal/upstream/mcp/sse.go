package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// An sse is the HTTP+SSE transport of revision 2024-11-05. The server sends everything on one
// stream, whose first event names the address for posting messages.
type sse struct {
	*httpLink
	*workers
	to       *session
	endpoint *url.URL // set by start
}

func newSSE(w *httpLink) *sse { return &sse{httpLink: w, workers: newWorkers()} }

// start opens the stream and waits for its first event.
func (t *sse) start(ctx context.Context, to *session) error {
	t.to = to
	unhook := context.AfterFunc(ctx, t.cancel) // until the stream is open
	defer unhook()
	resp, err := t.sendRequest(t.ctx, http.MethodGet, t.url, nil,
		func(h http.Header) { h.Set("Accept", "text/event-stream") })
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return responseError(resp, false)
	}
	if mt := mediaType(resp); mt != "text/event-stream" {
		_ = resp.Body.Close()
		return faultf(faultGarbled, "answered with content type %q instead of an event stream", cleanLine(mt, 80))
	}
	events := newEventReader(resp.Body, t.max)
	if t.endpoint, err = t.readEndpoint(events); err != nil {
		_ = resp.Body.Close()
		return err
	}
	if !unhook() { // ctx has ended, which ended the stream
		_ = resp.Body.Close()
		return ctx.Err()
	}
	if !t.spawnWorker(func() { t.readStream(resp, events) }) {
		_ = resp.Body.Close()
	}
	return nil
}

// readEndpoint reads the event that names the endpoint. The endpoint must be on the configured
// server.
func (t *sse) readEndpoint(events *eventReader) (*url.URL, error) {
	for {
		ev, err := events.nextEvent()
		if err != nil {
			return nil, faultf(faultLost, "ended its event stream before naming an endpoint: %w", err)
		}
		if ev.name != "endpoint" {
			continue
		}
		u, err := t.url.Parse(string(ev.data))
		if err != nil || len(ev.data) > 4096 {
			return nil, faultf(faultGarbled, "named an invalid endpoint address: %q", cleanSnippet(ev.data, 100))
		}
		if u.Scheme != t.url.Scheme || hostPort(u) != hostPort(t.url) {
			return nil, faultf(faultGarbled, "named an endpoint on another server, %s://%s: rejected", u.Scheme, u.Host)
		}
		return u, nil
	}
}

func (t *sse) readStream(resp *http.Response, events *eventReader) {
	defer func() { _ = resp.Body.Close() }()
	for {
		ev, err := events.nextEvent()
		if err != nil {
			if errors.Is(err, errEventSize) {
				err = tooLarge(t.max)
			} else if errors.Is(err, io.EOF) {
				err = errors.New("the server closed it")
			}
			t.to.endSession(&fault{kind: faultLost, msg: fmt.Sprintf("its event stream broke: %v", err), err: err})
			return
		}
		if len(ev.data) > 0 && (ev.name == "" || ev.name == "message") {
			_ = t.to.receive(ev.data, 0)
		}
	}
}

func (t *sse) useRevision(string) {}

func (t *sse) send(ctx context.Context, m *message) error {
	if m.id == 0 {
		ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		stop := context.AfterFunc(t.ctx, cancel)
		defer stop()
		err := t.postMessage(ctx, m)
		t.endUnusable(err)
		return err
	}
	exchange, cancel := context.WithCancel(t.ctx)
	m.abort = cancel
	ok := t.spawnWorker(func() {
		defer cancel()
		if err := t.postMessage(exchange, m); err != nil {
			t.to.failRequest(m.id, err)
			t.endUnusable(err)
		}
	})
	if !ok {
		cancel()
		return errStopped
	}
	return nil
}

// endUnusable ends the connection if err makes it unusable.
func (t *sse) endUnusable(err error) {
	if isFault(err, faultSession, faultSignIn) {
		t.to.endSession(err)
	}
}

// postMessage sends a message. Its answer, if any, arrives on the stream.
func (t *sse) postMessage(ctx context.Context, m *message) error {
	resp, err := t.sendRequest(ctx, http.MethodPost, t.endpoint, m.body,
		func(h http.Header) { h.Set("Content-Type", "application/json") })
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return responseError(resp, true)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return resp.Body.Close()
}

func (t *sse) stop() {
	t.haltAll()
	t.close()
}
