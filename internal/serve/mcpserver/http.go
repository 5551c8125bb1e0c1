package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Names of headers (basic/transports).
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
)

// handler serves both eras of the protocol at one URL. It checks and limits a request, then passes
// it to the SDK's handler for its era.
type handler struct {
	srv      *Server
	sessions *sessions
	slots    *queue.Shares // for requests under way
	held     *queue.Shares // for bytes of bodies
	versions []string      // supported revisions, newest first
}

func newHandler(s *Server) *handler {
	h := &handler{
		srv:      s,
		slots:    queue.NewShares("requests", "under way", int64(s.cfg.Limits.Requests)),
		held:     queue.NewShares("bytes of messages", "held", s.cfg.Limits.Memory),
		versions: mcp.SupportedProtocolVersions(),
	}
	h.sessions = newSessions(s.cfg.Limits.Sessions, s.cfg.Limits.SessionIdle, func(id string) {
		if ss := h.sessionByID(id); ss != nil {
			ss.Close()
		}
	})
	return h
}

// sessionByID returns a session of the SDK, or nil if there is none.
func (h *handler) sessionByID(id string) *mcp.ServerSession {
	for _, e := range h.srv.endpoints {
		for ss := range e.sessions.Sessions() {
			if ss.ID() == id {
				return ss
			}
		}
	}
	return nil
}

// Handler returns a handler that serves MCP over HTTP, at any path.
func (s *Server) Handler() http.Handler { return s.http }

func (h *handler) closeSessions() { h.sessions.closeAll() }

// ServeHTTP answers one request. Requests that it refuses itself are answered with a JSON-RPC error
// and the transport's status: 400 malformed, 401 unknown caller, 403 wrong Host or Origin, 404
// unknown session, 408 body too slow, 413 body too large, or 503 too many requests.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if msg := h.srv.refuseForeign(r); msg != "" {
		hangUp(w)
		refuseRequest(w, http.StatusForbidden, nil, jsonrpc.CodeInvalidRequest, msg)
		return
	}
	if h.srv.ctx.Err() != nil || r.Method == http.MethodGet && h.srv.calls.isStopping() {
		h.answerBusy(w, tool.Errorf(tool.Unavailable, "biplane is stopping"))
		return
	}
	p := h.srv.cfg.Local
	if h.srv.cfg.Principal != nil {
		var err error
		if p, err = h.srv.cfg.Principal(r); err != nil {
			hangUp(w)
			refuseRequest(w, http.StatusUnauthorized, nil, jsonrpc.CodeInvalidRequest, tool.AsError(err).Msg)
			return
		}
	}
	if h.srv.endpoints.endpointOf(p) == nil {
		hangUp(w)
		refuseRequest(w, http.StatusNotFound, nil, jsonrpc.CodeInvalidRequest,
			"there is no profile "+strconv.Quote(p.Profile))
		return
	}
	if err := h.slots.Acquire(p.ID, 1); err != nil {
		h.answerBusy(w, err)
		return
	}
	defer h.slots.Release(p.ID, 1)
	ctx, gone := h.srv.withClient(r.Context(), p)
	r = r.WithContext(ctx)
	if err := identity.CheckAgain(ctx); err != nil { // Cut may have come before withClient
		gone()
		hangUp(w)
		refuseRequest(w, http.StatusUnauthorized, nil, jsonrpc.CodeInvalidRequest, tool.AsError(err).Msg)
		return
	}
	bounded := &writer{ResponseWriter: w, limit: h.srv.cfg.Limits.WriteTime}
	defer bounded.finish()
	opened := false // whether a session was opened; it outlives the request
	defer func() {
		if !opened {
			gone()
		}
	}()
	if r.Method == http.MethodPost {
		opened = h.servePost(bounded, r, p, gone)
	} else {
		h.serveOther(bounded, r, p)
	}
}

// servePost answers a message. It reports whether the message opened a session, which then owns
// gone.
func (h *handler) servePost(w *writer, r *http.Request, p tool.Principal, gone func()) (opened bool) {
	body, release, ok := h.readBody(w, r, p)
	defer release()
	if !ok {
		return false
	}
	e, bad := readEnvelope(body)
	if bad != nil {
		refuseRequest(w, http.StatusBadRequest, e.id, bad.Code, bad.Message)
		return false
	}
	leave, ok := h.enterCall(w, e)
	if !ok {
		return false
	}
	defer leave()
	w.awaitAnswer(e)
	version := r.Header.Get(versionHeader)
	if version != "" && !slices.Contains(h.versions, version) && (e.version == "" || e.version == version) {
		h.rejectVersion(w, e, version)
		return false
	}
	if isModern(version) || e.version != "" {
		if msg := h.checkHeaders(r, e, p); msg != "" {
			refuseRequest(w, http.StatusBadRequest, e.id, mcp.CodeHeaderMismatch, msg)
			return false
		}
		h.srv.endpoints.endpointOf(p).overStateless.ServeHTTP(w, withoutArguments(r, body, e))
		return false
	}
	r = withBody(r, moveInBody(body, e))
	if e.id != nil && e.method != "" && !slices.Contains(legacyMethods, e.method) {
		// The SDK would answer with a bare status, which clients interpret as a broken transport.
		refuseRequest(w, http.StatusOK, e.id, jsonrpc.CodeMethodNotFound, "method not found: "+e.method)
		return false
	}
	return h.inSession(w, r, e, p, gone)
}

// enterCall counts the request for a call until leave is called. If the server is stopping, it
// refuses the request instead. Notifications are always accepted, since they may be about a call
// under way.
func (h *handler) enterCall(w *writer, e envelope) (leave func(), ok bool) {
	switch {
	case e.id == nil || e.method == "":
		return func() {}, true
	case callsTool(e.method):
		if h.srv.calls.enterCall() {
			return h.srv.calls.leaveCall, true
		}
	case !h.srv.calls.isStopping():
		return func() {}, true
	}
	hangUp(w)
	w.Header().Set("Retry-After", "1")
	refuseRequest(w, http.StatusServiceUnavailable, e.id, jsonrpc.CodeInternalError, notTaken)
	return nil, false
}

type argumentsKey struct{}

// withoutArguments returns the request with the arguments of a call moved to its context. To
// compare names, the SDK would decode them into Go values, which is slow and fails for numbers that
// a float64 can't represent.
func withoutArguments(r *http.Request, body []byte, e envelope) *http.Request {
	if e.method != "tools/call" || len(e.args) == 0 || e.args[0] != '{' {
		return withBody(r, moveInBody(body, e))
	}
	r = r.WithContext(context.WithValue(r.Context(), argumentsKey{}, e.args))
	return withBody(r, slices.Concat(body[:e.argsAt[0]], []byte("{}"), body[e.argsAt[1]:]))
}

func withBody(r *http.Request, body []byte) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return r
}

// legacyMethods are the requests known to the SDK that clients may send in revisions up to
// 2025-11-25.
var legacyMethods = []string{
	"initialize", "ping", "tools/list", "tools/call", "logging/setLevel", "completion/complete", "prompts/list",
	"prompts/get",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
	listSkills, getSkill, readDirectory,
	getTask, getResult, listTasks, cancelTask,
}

// inSession answers a message of a revision with sessions. It reports whether the message opened
// one, which then owns gone.
func (h *handler) inSession(w *writer, r *http.Request, e envelope, p tool.Principal, gone func()) (opened bool) {
	if id := r.Header.Get(sessionHeader); id != "" {
		if !h.sessions.beginUse(id, p) {
			refuseRequest(w, http.StatusNotFound, e.id, jsonrpc.CodeInvalidRequest,
				"session not found: send initialize to open a new one")
			return false
		}
		defer h.sessions.endUse(id)
		h.srv.endpoints.endpointOf(p).overSessions.ServeHTTP(w, r)
		return false
	}
	if e.method != "initialize" {
		refuseRequest(w, http.StatusBadRequest, e.id, jsonrpc.CodeInvalidRequest,
			"no "+sessionHeader+" header: open a session with initialize, or send "+versionHeader+": "+firstModern)
		return false
	}
	if err := h.sessions.reserveRoom(p); err != nil {
		h.answerBusy(w, err)
		return false
	}
	var id string
	defer func() { // also when the handler panics
		if id == "" {
			h.sessions.releaseRoom(p)
		}
	}()
	w.before = func(header http.Header) { // the client may use the session as soon as it has read the header
		if id = header.Get(sessionHeader); id != "" {
			h.sessions.addSession(id, p, gone)
			if isCut(r.Context()) {
				h.sessions.closeSession(id)
			}
		}
	}
	h.srv.endpoints.endpointOf(p).overSessions.ServeHTTP(w, r)
	switch {
	case id == "":
		return false
	case h.sessionByID(id) == nil: // initialize failed
		h.sessions.removeSession(id)
	default:
		h.sessions.endUse(id)
	}
	return true
}

// serveOther answers GET (the stream of a session) and DELETE (its end), and refuses other methods.
func (h *handler) serveOther(w *writer, r *http.Request, p tool.Principal) {
	id := r.Header.Get(sessionHeader)
	if isModern(r.Header.Get(versionHeader)) || (r.Method != http.MethodGet && r.Method != http.MethodDelete) {
		w.Header().Set("Allow", "POST")
		refuseRequest(w, http.StatusMethodNotAllowed, nil, jsonrpc.CodeInvalidRequest,
			r.Method+" is not allowed here: send messages by POST")
		return
	}
	if v := r.Header.Get(versionHeader); v != "" && !slices.Contains(h.versions, v) {
		h.rejectVersion(w, envelope{}, v)
		return
	}
	if id == "" {
		refuseRequest(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest,
			r.Method+" needs the header "+sessionHeader)
		return
	}
	if !h.sessions.beginUse(id, p) {
		refuseRequest(w, http.StatusNotFound, nil, jsonrpc.CodeInvalidRequest,
			"session not found: send initialize to open a new one")
		return
	}
	defer h.sessions.endUse(id)
	if r.Method == http.MethodDelete {
		h.sessions.removeSession(id) // first, so that the SDK doesn't wait for calls whose results no one needs
	}
	h.srv.endpoints.endpointOf(p).overSessions.ServeHTTP(w, r)
}

// readBody reads a request's body within the limits of size, time and memory. If this fails, it
// writes the error response. The body counts against the memory limit until release is called.
func (h *handler) readBody(w *writer, r *http.Request, p tool.Principal) (body []byte, release func(), ok bool) {
	limits := h.srv.cfg.Limits
	if r.ContentLength > limits.Body {
		hangUp(w)
		refuseRequest(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest, tooLarge(limits.Body))
		return nil, func() {}, false
	}
	rc := http.NewResponseController(w.ResponseWriter)
	// not supported by every ResponseWriter; otherwise the server's own limits apply
	_ = rc.SetReadDeadline(time.Now().Add(limits.BodyTime))
	body, release, err := h.held.ReadAll(p.ID, http.MaxBytesReader(w.ResponseWriter, r.Body, limits.Body))
	_ = rc.SetReadDeadline(time.Time{})
	var big *http.MaxBytesError
	var over *tool.Error
	switch {
	case errors.As(err, &big):
		refuseRequest(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest, tooLarge(limits.Body))
	case errors.As(err, &over):
		h.answerBusy(w, over)
	case err != nil:
		hangUp(w)
		refuseRequest(w, http.StatusRequestTimeout, nil, jsonrpc.CodeInvalidRequest, "the body did not arrive in time")
	case len(body) == 0:
		refuseRequest(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest,
			"the body is empty: send a JSON-RPC message")
	default:
		return body, release, true
	}
	return nil, release, false
}

// hangUp closes the connection after the response. Without it, net/http would first wait for the
// rest of the body.
func hangUp(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

func tooLarge(limit int64) string {
	return "the body is larger than " + strconv.FormatInt(limit, 10) + " bytes"
}

// answerBusy answers that a limit was reached. The text says which: the principal's own share, or
// the total.
func (h *handler) answerBusy(w http.ResponseWriter, err error) {
	hangUp(w)
	w.Header().Set("Retry-After", "1")
	refuseRequest(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternalError, tool.AsError(err).Msg)
}

// rejectVersion answers a request of an unsupported revision (basic/versioning,
// UnsupportedProtocolVersionError).
func (h *handler) rejectVersion(w http.ResponseWriter, e envelope, version string) {
	data, err := tool.Marshal(mcp.UnsupportedProtocolVersionData{Supported: h.versions, Requested: version})
	if err != nil {
		data = nil
	}
	writeBody(w, http.StatusBadRequest, encodeError(e.id, &jsonrpc.Error{
		Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data,
	}))
}

func refuseRequest(w http.ResponseWriter, status int, id []byte, code int64, msg string) {
	writeBody(w, status, encodeError(id, &jsonrpc.Error{Code: code, Message: msg}))
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client is gone
}

// A writer sets a deadline for each write to the client, so that a stream may last long but not
// stall. It leaves the flush after the answer to net/http, which then sends header and answer in
// one write.
type writer struct {
	http.ResponseWriter
	limit    time.Duration
	before   func(http.Header) // called once, before the header is written
	answer   []byte            // start of the event with the answer, up to its result; nil: unknown
	answered bool              // the last event written was the answer
	deadline time.Time         // of writes; zero: none
}

// awaitAnswer tells the writer that the response ends with the answer to e.
func (w *writer) awaitAnswer(e envelope) {
	if e.method == "tools/call" && e.id != nil {
		w.answer = slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), e.id, []byte(`,"result":`))
	}
}

// WriteHeader writes the header.
func (w *writer) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body.
func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	_, data, _ := bytes.Cut(b, []byte("data: "))
	if w.answered = w.answer != nil && bytes.HasPrefix(data, w.answer); w.answered {
		return w.ResponseWriter.Write(b)
	}
	if _, err := w.ResponseWriter.Write(restoreEvent(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// FlushError sends buffered data to the client, but for the answer, after which the response ends.
func (w *writer) FlushError() error {
	if w.answered {
		return nil
	}
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// deadlineSlack is how much earlier than limit a write may fail, so that not each write sets a
// deadline.
const deadlineSlack = 100 * time.Millisecond

func (w *writer) begin() {
	if before := w.before; before != nil {
		w.before = nil
		before(w.Header())
	}
	if now := time.Now(); w.deadline.Sub(now) < w.limit-deadlineSlack {
		w.deadline = now.Add(w.limit)
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.deadline)
	}
}

// finish clears the connection's deadline for the next request.
func (w *writer) finish() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
}
