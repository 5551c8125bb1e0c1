package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
// none of these, but headers that repeat parts of the message.
type streamable struct {
	*web
	*workers // its ctx is the parent of all exchanges
	to       sink

	mu      sync.Mutex
	session string // Mcp-Session-Id; "" if there is none
	version string // negotiated revision, of those with a handshake; "" before
}

func newStreamable(w *web) *streamable { return &streamable{web: w, workers: newWorkers()} }

func (t *streamable) start(_ context.Context, to sink) error {
	t.to = to
	return nil
}

// settled opens the stream for messages that the server initiates, in revisions with a handshake.
func (t *streamable) settled(version string) {
	if version >= revision2026 {
		return
	}
	t.mu.Lock()
	t.version = version
	t.mu.Unlock()
	t.spawn(t.listen)
}

func (t *streamable) send(ctx context.Context, m *message) error {
	if m.id == 0 {
		return t.tell(ctx, m)
	}
	exchange, cancel := context.WithCancel(t.ctx)
	m.abort = cancel
	if !t.spawn(func() { defer cancel(); t.exchange(exchange, m) }) {
		cancel()
		return faultf(faultUnsent, "closed")
	}
	return nil
}

// tell posts a message that has no answer.
func (t *streamable) tell(ctx context.Context, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	stop := context.AfterFunc(t.ctx, cancel)
	defer stop()
	resp, err := t.post(ctx, m)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp, t.inSession())
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return resp.Body.Close()
}

func (t *streamable) inSession() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session != ""
}

// headers sets the headers of every request.
func (t *streamable) headers(h http.Header, version string) {
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

func (t *streamable) post(ctx context.Context, m *message) (*http.Response, error) {
	return t.do(ctx, http.MethodPost, t.url, m.body, func(h http.Header) {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
		t.headers(h, m.version)
		if m.version != "" {
			mirror(h, m)
		}
	})
}

// exchange posts a request and passes the response to the sink.
func (t *streamable) exchange(ctx context.Context, m *message) {
	resp, err := t.post(ctx, m)
	if err != nil {
		t.to.failed(m.id, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		t.refuse(resp, m)
		return
	}
	if m.method == "initialize" {
		t.mu.Lock()
		t.session = resp.Header.Get("Mcp-Session-Id")
		t.mu.Unlock()
	}
	switch mediaType(resp) {
	case "text/event-stream":
		t.follow(ctx, resp, m)
	case "application/json":
		body, err := t.readBody(resp.Body)
		if err != nil {
			t.to.failed(m.id, err)
			return
		}
		if err := t.to.receive(body, m.id); err != nil {
			t.to.failed(m.id, faultf(faultGarbled, "answered with something that is not JSON-RPC: %w", err))
			return
		}
	}
	if t.to.waiting(m.id) {
		t.to.failed(m.id, faultf(faultGarbled, "answered %d with content type %q and no answer in it", resp.StatusCode, cleanLine(resp.Header.Get("Content-Type"), 80)))
	}
}

// refuse fails a request that was answered with an HTTP error, and ends the session if the error
// says so.
func (t *streamable) refuse(resp *http.Response, m *message) {
	err := refused(resp, t.inSession())
	t.to.failed(m.id, err)
	if isFault(err, faultSession, faultSignIn) {
		t.to.over(err)
	}
}

// follow reads the stream that answers m. It resumes the stream if the server supports that.
func (t *streamable) follow(ctx context.Context, resp *http.Response, m *message) {
	var at position
	defer func() {
		if resp != nil {
			_ = resp.Body.Close()
		}
	}()
	for tries := 0; ; {
		moved, err := t.read(resp, m.id, &at)
		if !t.to.waiting(m.id) {
			t.drain(resp)
			return
		}
		if moved {
			tries = 0
		}
		if ctx.Err() != nil || isFault(err, faultSize) || at.id == "" || m.version != "" || tries >= resumeTries {
			t.to.failed(m.id, brokeOff(err))
			return
		}
		tries++
		_ = resp.Body.Close()
		if resp = t.resume(ctx, &at); resp == nil {
			t.to.failed(m.id, brokeOff(err))
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
	return faultf(faultLost, "broke off in the middle of its answer: %w", err)
}

// A position is the current position in a stream.
type position struct {
	id    string        // of the last event that had one
	retry time.Duration // delay that the server asks for; 0: unspecified
}

// read passes a stream's messages to the sink until it ends, or request id is answered. moved
// reports whether there was a new event.
func (t *streamable) read(resp *http.Response, id int64, at *position) (moved bool, err error) {
	events := newEventReader(resp.Body, t.max)
	for {
		ev, err := events.next()
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
		if id != 0 && !t.to.waiting(id) {
			return true, nil
		}
	}
}

// drain reads the data after an answer, so that the connection can be reused.
func (t *streamable) drain(resp *http.Response) {
	stop := time.AfterFunc(drainTimeout, func() { _ = resp.Body.Close() })
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
}

// resume requests the rest of a stream. It returns nil if that is not available.
func (t *streamable) resume(ctx context.Context, at *position) *http.Response {
	wait := min(max(at.retry, minRetry), maxRetry)
	if at.retry > 0 {
		wait = min(at.retry, maxRetry)
	}
	if !sleep(ctx, wait) {
		return nil
	}
	resp, err := t.get(ctx, at.id)
	if err != nil {
		return nil
	}
	if resp.StatusCode/100 != 2 || mediaType(resp) != "text/event-stream" {
		_ = resp.Body.Close()
		return nil
	}
	return resp
}

func (t *streamable) get(ctx context.Context, lastEvent string) (*http.Response, error) {
	return t.do(ctx, http.MethodGet, t.url, nil, func(h http.Header) {
		h.Set("Accept", "text/event-stream")
		t.headers(h, "")
		if lastEvent != "" {
			h.Set("Last-Event-ID", lastEvent)
		}
	})
}

// listen keeps open the stream for messages that the server initiates. Servers need not have one.
func (t *streamable) listen() {
	var at position
	for opened, failures := false, 0; ; {
		resp, err := t.get(t.ctx, at.id)
		if failures++; err == nil {
			failures = 0
		}
		switch {
		case failures >= 3:
			t.to.over(err)
			return
		case err != nil:
		case resp.StatusCode/100 == 2 && mediaType(resp) == "text/event-stream":
			if at.id == "" { // messages sent before are lost, also before the first stream
				t.to.missed()
			}
			opened = true
			_, _ = t.read(resp, 0, &at)
			_ = resp.Body.Close()
		case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
			_ = resp.Body.Close()
		default:
			if err := refused(resp, t.inSession()); opened && isFault(err, faultSession, faultSignIn) {
				t.to.over(err)
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
	if t.halt() && t.inSession() { // best effort: servers may refuse
		ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
		defer cancel()
		if resp, err := t.do(ctx, http.MethodDelete, t.url, nil, func(h http.Header) { t.headers(h, "") }); err == nil {
			_ = resp.Body.Close()
		}
	}
	t.close()
}

// errorIn returns the JSON-RPC error in the body of an HTTP error.
func errorIn(body []byte) (*jsonrpc.Error, bool) {
	messages, err := decode(body)
	if err != nil || len(messages) != 1 {
		return nil, false
	}
	r, ok := messages[0].(*jsonrpc.Response)
	if !ok || r.Error == nil {
		return nil, false
	}
	return wireError(r.Error)
}
