package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

const (
	minRetry      = 500 * time.Millisecond // between attempts to resume a stream
	maxRetry      = 30 * time.Second
	resumeTries   = 5 // consecutive attempts to resume without a new event
	drainTimeout  = time.Second
	deleteTimeout = 2 * time.Second
)

// A streamable is the Streamable HTTP transport, in two forms. That of 2025-03-26 to 2025-11-25 has
// sessions, a stream for messages that the server initiates, and resumption. That of 2026-07-28 has
// none of these; instead, its headers repeat parts of the message.
type streamable struct {
	*httpLink
	*workers // its ctx is the parent of all exchanges
	to       *session

	mu      sync.Mutex
	session string // Mcp-Session-Id; "" if there is none
	version string // negotiated revision, of those with a handshake; "" before
}

func newStreamable(w *httpLink) *streamable { return &streamable{httpLink: w, workers: newWorkers()} }

func (t *streamable) start(_ context.Context, to *session) error {
	t.to = to
	return nil
}

// useRevision opens the stream for messages that the server initiates, in revisions with a
// handshake.
func (t *streamable) useRevision(version string) {
	if version >= revision2026 {
		return
	}
	t.mu.Lock()
	t.version = version
	t.mu.Unlock()
	t.spawnWorker(t.listenServer)
}

func (t *streamable) send(ctx context.Context, m *message) error {
	if m.id == 0 {
		return t.postOneWay(ctx, m)
	}
	exchange, cancel := context.WithCancel(tracing.CopyParent(t.ctx, ctx))
	m.abort = cancel
	if !t.spawnWorker(func() { defer cancel(); t.exchangeMessage(exchange, m) }) {
		cancel()
		return errStopped
	}
	return nil
}

// postOneWay posts a message that has no answer.
func (t *streamable) postOneWay(ctx context.Context, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()
	resp, err := t.postMessage(ctx, m)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return responseError(resp, t.inSession())
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return resp.Body.Close()
}

func (t *streamable) inSession() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session != ""
}

// setHeaders sets the headers of every request.
func (t *streamable) setHeaders(h http.Header, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if version == "" {
		version = t.version
	}
	if version != "" {
		h.Set("Mcp-Protocol-Version", version)
	}
	if t.session != "" {
		h.Set("Mcp-Session-Id", t.session)
	}
}

func (t *streamable) postMessage(ctx context.Context, m *message) (*http.Response, error) {
	return t.sendRequest(ctx, http.MethodPost, t.url, m.body, func(h http.Header) {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
		t.setHeaders(h, m.version)
		if m.version != "" {
			mirrorHeaders(h, m)
		}
	})
}

// exchangeMessage posts a request and passes the response to the session.
func (t *streamable) exchangeMessage(ctx context.Context, m *message) {
	resp, err := t.postMessage(ctx, m)
	if err != nil {
		t.to.failRequest(m.id, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		t.failRequest(resp, m)
		return
	}
	if m.method == "initialize" {
		t.mu.Lock()
		t.session = resp.Header.Get("Mcp-Session-Id")
		t.mu.Unlock()
	}
	switch mediaType(resp) {
	case "text/event-stream":
		t.followStream(ctx, resp, m)
	case "application/json":
		body, err := t.readBody(resp.Body)
		if err != nil {
			t.to.failRequest(m.id, err)
			return
		}
		if err := t.to.receive(body, m.id); err != nil {
			t.to.failRequest(m.id, faultf(faultGarbled, "answered with invalid JSON-RPC: %w", err))
			return
		}
	}
	if t.to.isWaiting(m.id) {
		t.to.failRequest(m.id,
			faultf(faultGarbled, "answered %d with content type %q and no answer in it", resp.StatusCode,
				cleanLine(resp.Header.Get("Content-Type"), 80)))
	}
}

// failRequest fails a request that was answered with an HTTP error, and ends the session if the
// error says so.
func (t *streamable) failRequest(resp *http.Response, m *message) {
	err := responseError(resp, t.inSession())
	t.to.failRequest(m.id, err)
	if isFault(err, faultSession, faultSignIn) {
		t.to.endSession(err)
	}
}

// followStream reads the stream that answers m. It resumes the stream if the server supports that.
func (t *streamable) followStream(ctx context.Context, resp *http.Response, m *message) {
	var at position
	defer func() {
		if resp != nil {
			_ = resp.Body.Close()
		}
	}()
	for tries := 0; ; {
		moved, err := t.readStream(resp, m.id, &at)
		if !t.to.isWaiting(m.id) {
			t.drainResponse(resp)
			return
		}
		if moved {
			tries = 0
		}
		if ctx.Err() != nil || isFault(err, faultSize) || at.id == "" || m.version != "" || tries >= resumeTries {
			t.to.failRequest(m.id, brokeOff(err))
			return
		}
		tries++
		_ = resp.Body.Close()
		if resp = t.resumeStream(ctx, &at); resp == nil {
			t.to.failRequest(m.id, brokeOff(err))
			return
		}
	}
}

func brokeOff(err error) error {
	if _, ok := faultOf(err); ok {
		return err
	}
	if err == nil || errors.Is(err, io.EOF) {
		return faultf(faultLost, "closed the connection without an answer")
	}
	return faultf(faultLost, "closed the connection in the middle of its answer: %w", err)
}

// A position is the current position in a stream.
type position struct {
	id    string        // of the last event that had one
	retry time.Duration // delay that the server asks for; 0: unspecified
}

// readStream passes a stream's messages to the session until it ends, or request id is answered.
// moved reports whether there was a new event.
func (t *streamable) readStream(resp *http.Response, id int64, at *position) (moved bool, err error) {
	events := newEventReader(resp.Body, t.max)
	for {
		ev, err := events.nextEvent()
		if errors.Is(err, errEventSize) {
			return moved, tooLarge(t.max)
		}
		if err != nil {
			return moved, err
		}
		if ev.id != "" && len(ev.id) <= 4096 {
			moved = moved || ev.id != at.id
			at.id = ev.id
		}
		if ev.retry > 0 {
			at.retry = ev.retry
		}
		if len(ev.data) == 0 || ev.name != "" && ev.name != "message" {
			continue
		}
		_ = t.to.receive(ev.data, id) // ignore invalid messages: the answer may still come
		if id != 0 && !t.to.isWaiting(id) {
			return true, nil
		}
	}
}

// drainResponse reads the data after an answer, so that the connection can be reused.
func (t *streamable) drainResponse(resp *http.Response) {
	stop := time.AfterFunc(drainTimeout, func() { _ = resp.Body.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
}

// resumeStream requests the rest of a stream. It returns nil if that is not available.
func (t *streamable) resumeStream(ctx context.Context, at *position) *http.Response {
	wait := min(max(at.retry, minRetry), maxRetry)
	if at.retry > 0 {
		wait = min(at.retry, maxRetry)
	}
	if !sleep(ctx, wait) {
		return nil
	}
	resp, err := t.getStream(ctx, at.id)
	if err != nil {
		return nil
	}
	if resp.StatusCode/100 != 2 || mediaType(resp) != "text/event-stream" {
		_ = resp.Body.Close()
		return nil
	}
	return resp
}

func (t *streamable) getStream(ctx context.Context, lastEvent string) (*http.Response, error) {
	return t.sendRequest(ctx, http.MethodGet, t.url, nil, func(h http.Header) {
		h.Set("Accept", "text/event-stream")
		t.setHeaders(h, "")
		if lastEvent != "" {
			h.Set("Last-Event-ID", lastEvent)
		}
	})
}

// listenServer keeps open the stream for messages that the server initiates. Servers need not have
// one.
func (t *streamable) listenServer() {
	var at position
	for opened, failures := false, 0; ; {
		resp, err := t.getStream(t.ctx, at.id)
		if failures++; err == nil {
			failures = 0
		}
		switch {
		case failures >= 3:
			t.to.endSession(err)
			return
		case err != nil:
		case resp.StatusCode/100 == 2 && mediaType(resp) == "text/event-stream":
			if at.id == "" { // without an event ID, messages sent before this stream are lost
				t.to.signalListChange()
			}
			opened = true
			_, _ = t.readStream(resp, 0, &at)
			_ = resp.Body.Close()
		case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
			_ = resp.Body.Close()
		default:
			if err := responseError(resp, t.inSession()); opened && isFault(err, faultSession, faultSignIn) {
				t.to.endSession(err)
			}
			return
		}
		if !sleep(t.ctx, min(max(at.retry, time.Second), maxRetry)) {
			return
		}
	}
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *streamable) stop() {
	if t.haltAll() && t.inSession() { // best effort: servers may refuse
		ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
		defer cancel()
		if resp, err := t.sendRequest(ctx, http.MethodDelete, t.url, nil,
			func(h http.Header) { t.setHeaders(h, "") }); err == nil {
			_ = resp.Body.Close()
		}
	}
	t.close()
}

// errorIn returns the JSON-RPC error in the body of an HTTP error.
func errorIn(body []byte) (*jsonrpc.Error, bool) {
	messages, err := decodeMessages(body)
	if err != nil || len(messages) != 1 {
		return nil, false
	}
	r, ok := messages[0].(*jsonrpc.Response)
	if !ok || r.Error == nil {
		return nil, false
	}
	return wireError(r.Error)
}
