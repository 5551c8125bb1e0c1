package local

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/stack"
)

// An InProcess sends API requests to a Daemon in the same process, without a socket. Commands use
// it for a Daemon that they started. It is an http.RoundTripper around the handler of the socket,
// and behaves like a server: a request ends with its context, and a panic ends only its own
// response.
type InProcess struct {
	Handler http.Handler
	Log     *slog.Logger
	work    sync.WaitGroup // requests in progress

	mu      sync.Mutex
	running map[*http.Request]bool // the same, to report requests that don't end
}

// RoundTrip sends a request. It returns when the response begins.
func (p *InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, to := io.Pipe()
	a := &answer{header: http.Header{}, trailer: http.Header{}, to: to, begun: make(chan struct{})}
	a.trace = httptrace.ContextClientTrace(r.Context())
	p.noteRequest(in, true)
	p.work.Go(func() {
		stack.Grow()
		defer p.noteRequest(in, false)
		defer in.Body.Close()
		a.endResponse(p.serveRequest(a, in))
	})
	select {
	case <-a.begun:
		if err := r.Context().Err(); err != nil { // the handler may have responded because of it
			body.CloseWithError(err)
			return nil, err
		}
		return &http.Response{
			Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1",
			ProtoMajor: 1, ProtoMinor: 1,
			Header: a.sent, Trailer: a.trailer, ContentLength: -1, Body: body, Request: r,
		}, nil
	case <-r.Context().Done():
		body.CloseWithError(r.Context().Err()) // the handler sees the error, too
		return nil, r.Context().Err()
	}
}

// Wait waits until no request is in progress.
func (p *InProcess) Wait() { p.work.Wait() }

// noteRequest records whether a request is in progress.
func (p *InProcess) noteRequest(r *http.Request, runs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !runs {
		delete(p.running, r)
		return
	}
	if p.running == nil {
		p.running = map[*http.Request]bool{}
	}
	p.running[r] = true
}

// UnderWay returns the names of the requests in progress.
func (p *InProcess) UnderWay() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for r := range p.running {
		names = append(names, r.Method+" "+r.URL.Path)
	}
	slices.Sort(names)
	return names
}

var errBroken = errors.New("the response ended early")

// serveRequest converts a panic of the handler to an error, so that the reader doesn't take a
// partial response for a complete one.
func (p *InProcess) serveRequest(a *answer, r *http.Request) (err error) {
	defer func() {
		switch v := recover(); {
		case v == nil:
		case v == http.ErrAbortHandler:
			err = errBroken
		default:
			p.Log.Error("a request panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			err = errBroken
		}
	}()
	p.Handler.ServeHTTP(a, r)
	return nil
}

// An answer is an http.ResponseWriter that passes the response to a reader.
type answer struct {
	header  http.Header
	to      *io.PipeWriter
	begun   chan struct{} // closed when status and sent are set
	status  int
	sent    http.Header
	trailer http.Header            // set before the reader sees the end
	trace   *httptrace.ClientTrace // of the client; nil: none
}

func (a *answer) Header() http.Header { return a.header }

// FlushError does nothing: each write is passed on at once.
func (a *answer) FlushError() error { return nil }

func (a *answer) WriteHeader(status int) {
	if status/100 == 1 { // before the response, as http.Transport does
		if a.trace != nil && a.trace.Got1xxResponse != nil {
			_ = a.trace.Got1xxResponse(status, textproto.MIMEHeader(a.header)) // an error would not end the request
		}
		return
	}
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.to.Write(b)
}

// endResponse ends the response. If it failed before it began, it becomes a server error.
func (a *answer) endResponse(err error) {
	if err != nil {
		a.WriteHeader(http.StatusInternalServerError)
	}
	a.WriteHeader(http.StatusOK)
	for name, values := range a.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			a.trailer[http.CanonicalHeaderKey(name)] = values
		}
	}
	a.to.CloseWithError(err)
}
