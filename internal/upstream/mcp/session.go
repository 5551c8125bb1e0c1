package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/base/tracing"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A transport carries the messages of one connection. It passes received messages to
// session.receive, and reports failures by failRequest, endSession and logViolation.
type transport interface {
	// start opens the connection, within ctx, and passes received messages to a session until stop.
	start(ctx context.Context, to *session) error
	// send sends one message. When it returns, a notification or response was accepted by the
	// server or is queued. A request is on its way; its answer, or its failure, goes to the
	// session. ctx limits only the sending.
	send(ctx context.Context, m *message) error
	// useRevision is called when revision version was negotiated.
	useRevision(version string)
	// stop closes the connection and returns when all of its goroutines have ended. It may be
	// called twice.
	stop()
}

// A message is a message to send.
type message struct {
	id      int64  // of a request; otherwise 0
	method  string // "" for a response
	name    string // of the tool, for the header that revision 2026-07-28 requires
	params  map[string]string
	version string // revision stated in the message itself; "" before 2026-07-28
	body    []byte
	abort   context.CancelFunc // set by send if a single exchange can be aborted; may be nil
}

// asking has the settings for questions of a server.
type asking struct {
	questions bool // the server may ask the clients of calls, before 2026-07-28
	local     bool // the server is on this machine or in a private network
}

// A session is one connection to a server. It numbers requests, dispatches their answers, and
// answers requests of the server. No error of the server ends it, except the end of the connection.
type session struct {
	log    *slog.Logger
	mask   *mask.Masker // for everything received from the server
	t      transport
	ctx    context.Context // canceled when the session ends
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // the session's goroutines
	sends  sync.WaitGroup // the answers and notifications being sent in the background
	slots  chan struct{}  // limits their number

	lastID       atomic.Int64
	lastReceived atomic.Int64 // when something was last received, Unix nanoseconds
	violations   atomic.Int64
	lists        listChanges
	modern       atomic.Bool // 2026-07-28 was negotiated

	askedLogs atomic.Bool // see askForLogs

	// Set by the handshake, before the session is shared.
	meta    []byte // members of _meta in every request (2026-07-28), otherwise empty
	profile profile
	asking
	name string // what the server calls itself
	features

	watches *watches // what to tell about updates of resources

	requests // that wait for their answers

	mu       sync.Mutex
	closing  bool // no more messages are sent in the background
	bindings map[string][]binding
}

func newSession(t transport, log *slog.Logger) *session {
	s := &session{log: log, t: t, slots: make(chan struct{}, 16), lists: listChanges{signal: make(chan struct{}, 1)},
		requests: newRequests(), watches: newWatches()}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// close ends the session and returns when all of its goroutines have ended. For up to a second, it
// sends the server cancellations of the requests in progress.
func (s *session) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	for _, id := range s.unansweredRequests() {
		if err := s.t.send(ctx, s.newCancellation(id, "closing")); err != nil {
			break
		}
	}
	sent := make(chan struct{})
	go func() { s.sends.Wait(); close(sent) }()
	select {
	case <-sent:
	case <-ctx.Done():
	}
	s.endSession(faultf(faultClosed, "closed"))
	s.t.stop()
	<-sent
	s.wg.Wait()
}

// endCause returns the reason why the session ended.
func (s *session) endCause() error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	return errStopped // the reason follows at once
}

// A query is a request to make.
type query struct {
	method   string
	fields   []byte // members of params, JSON
	name     string // see message
	params   map[string]string
	observer tool.Observer // not nil: request progress; sendRequest calls it
	idle     time.Duration // longest silence; progress resets it; 0: no limit
	ceiling  time.Duration // longest total time; 0: no limit
	once     bool          // don't tell the server when we stop waiting (initialize must not be cancelled)
	meta     []byte        // used instead of the session's
	version  string        // stated in the message, instead of the session's
	owner    string        // the principal of a call

	acked chan<- json.RawMessage // receives the acknowledgement of a subscription, if there is room; may be nil
}

// wantsLogs reports whether log messages are requested.
func (q *query) wantsLogs() bool { return q.observer != nil && q.observer.WantsLogs() }

// sendRequest sends a request and waits for the answer. The error is the server's *jsonrpc.Error, a
// *fault, or the error of ctx.
func (s *session) sendRequest(ctx context.Context, q query) (json.RawMessage, error) {
	id := s.lastID.Add(1)
	p := &pending{done: make(chan struct{}), progress: make(chan tool.Progress, 16),
		call: q.method == "tools/call" || q.method == taskResult || tool.IsMethod(q.method), acked: q.acked,
		owner: q.owner}
	if q.wantsLogs() {
		p.logs = make(chan tool.Log, 16)
	}
	if p.call && q.observer != nil && q.observer.ListCapabilities() != nil {
		p.asked = make(chan *jsonrpc.Request, tool.MaxQuestions)
	}
	if !s.addRequest(id, p) {
		return nil, asUnsent(s.endCause())
	}
	defer s.forgetRequest(id, p)
	release, err := wakeServer(ctx, s.t, q)
	if err != nil {
		return nil, err
	}
	defer release()
	m := s.newMessage(id, q)
	if err := s.handOver(ctx, m, q.idle); err != nil {
		return nil, err
	}
	// Since 2026-07-28, closing the stream is the signal over HTTP.
	s.setCancelable(p, !q.once && !(m.abort != nil && s.modern.Load()))
	err = s.awaitAnswer(ctx, p, q)
	if err == nil {
		return p.result, p.err
	}
	if m.abort != nil {
		m.abort()
	}
	if p.cancelable {
		reason := "no longer wanted"
		if isFault(err, faultTimeout) || errors.Is(err, context.DeadlineExceeded) {
			reason = "timed out"
		}
		s.sendLater(s.newCancellation(id, reason))
	}
	return nil, err
}

// handOver passes a request to the transport, within the timeout of its answer. It fails when the
// session has ended.
func (s *session) handOver(ctx context.Context, m *message, patience time.Duration) error {
	if patience <= 0 {
		patience = defaultConnectTimeout
	}
	sending, cancel := context.WithTimeout(tracing.CopyParent(s.ctx, ctx), patience)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := s.t.send(sending, m)
	switch {
	case err == nil || sending.Err() == nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil:
		return asUnsent(s.endCause())
	}
	return faultf(faultUnsent, "accepts no messages (none within %s)", patience)
}

// newMessage returns the request for q.
func (s *session) newMessage(id int64, q query) *message {
	meta := q.meta
	if meta == nil {
		meta = s.meta
	}
	if q.observer != nil {
		meta = append(make([]byte, 0, len(meta)+32), meta...)
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = strconv.AppendInt(append(meta, `"progressToken":`...), id, 10)
	}
	if q.wantsLogs() && s.modern.Load() {
		meta = append(append(make([]byte, 0, len(meta)+48), meta...), `,"io.modelcontextprotocol/logLevel":"debug"`...)
	}
	m := &message{id: id, method: q.method, name: q.name, params: q.params, version: q.version}
	if m.version == "" {
		m.version = s.declaredRevision()
	}
	m.body = appendRequest(make([]byte, 0, 96+len(meta)+len(q.fields)), id, q.method, meta, q.fields)
	return m
}

// declaredRevision returns the revision that messages state themselves.
func (s *session) declaredRevision() string {
	if s.modern.Load() {
		return revision2026
	}
	return ""
}

// awaitAnswer waits for the answer. Progress resets the timeout. It returns nil when there is an
// answer.
func (s *session) awaitAnswer(ctx context.Context, p *pending, q query) error {
	rounds := 0
	idle, ceiling := newTimer(q.idle), newTimer(q.ceiling)
	defer idle.stop()
	defer ceiling.stop()
	for {
		select {
		case <-p.done:
			p.drainEvents(ctx, q)
			return nil
		case pr := <-p.progress:
			idle.renewTimer(q.idle)
			if q.observer != nil {
				q.observer.OnProgress(ctx, pr)
			}
		case l := <-p.logs:
			q.observer.OnLog(ctx, l)
		case r := <-p.asked:
			rounds++
			s.relayQuestions(ctx, p, q.observer, p.gatherQuestions(ctx, r), rounds)
			idle.renewTimer(q.idle)
			ceiling.renewTimer(q.ceiling)
		case <-idle.c:
			return faultf(faultTimeout, "no answer within %s", q.idle)
		case <-ceiling.c:
			return faultf(faultTimeout, "no answer within %s, though it reported progress", q.ceiling)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// asUnsent converts the reason why a session ended to an error for a request that was never sent.
func asUnsent(err error) error {
	f, ok := faultOf(err)
	if !ok {
		return err
	}
	if f.kind == faultLost || f.kind == faultClosed {
		return &fault{kind: faultUnsent, msg: f.msg, err: f.err}
	}
	return f
}

// forgetRequest removes a request whose answer is no longer awaited, and refuses its open
// questions.
func (s *session) forgetRequest(id int64, p *pending) {
	s.abandonRequest(id, p)
	for {
		select {
		case r := <-p.asked:
			s.refuseQuestion(r)
		default:
			return
		}
	}
}

// endSession ends the connection, and the requests in progress with it.
func (s *session) endSession(err error) {
	pending, first := s.endRequests()
	if !first {
		return
	}
	s.cancel(err)
	lost := &fault{kind: faultLost, msg: err.Error()} // whatever the reason was: they were in progress
	if isFault(err, faultSignIn) {
		lost.msg = "needs sign-in; it " + lost.msg
	}
	for _, p := range pending {
		p.err = lost
		close(p.done)
	}
}

// setBindings sets which arguments are repeated as headers.
func (s *session) setBindings(b map[string][]binding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bindings = b
}

// boundArguments returns the bindings of a tool.
func (s *session) boundArguments(name string) []binding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bindings[name]
}

// logViolation logs a violation of the protocol by the server: the first ones, and then ever fewer,
// so that a hostile server can't fill a disk.
func (s *session) logViolation(what string, args ...any) {
	if n := s.violations.Add(1); bits.OnesCount64(uint64(n)) == 1 {
		s.log.Warn(what, append(args, "oddities", n)...)
	}
}

// receive handles one message or batch. from is the request in whose exchange it arrived, or 0. It
// returns an error if data is not a message.
func (s *session) receive(data []byte, from int64) error {
	s.lastReceived.Store(time.Now().UnixNano())
	data = s.mask.MaskJSON(data)
	messages, err := decodeMessages(data)
	if err != nil {
		s.logViolation("ignored an invalid message", "error", err, "text", cleanSnippet(data, 120))
		if id, ok := oversizeID(data, data); ok && bytes.Contains(data, []byte(`"jsonrpc"`)) {
			s.failRequest(id, faultf(faultGarbled, "answered with invalid JSON-RPC: %w", err))
		}
		return err
	}
	for _, m := range messages {
		switch m := m.(type) {
		case *jsonrpc.Response:
			s.handleResponse(m, from)
		case *jsonrpc.Request:
			if m.IsCall() {
				s.handleRequest(m, from)
			} else {
				s.handleNotification(m, from)
			}
		}
	}
	return nil
}

// handleResponse dispatches an answer to its request.
func (s *session) handleResponse(r *jsonrpc.Response, from int64) {
	id, ok := r.ID.Raw().(int64)
	if !r.ID.IsValid() && from != 0 { // an error without an id, in the exchange of the request
		id, ok = from, true
	}
	var p *pending
	if ok {
		p = s.takeRequest(id)
	}
	switch {
	case p == nil && id > 0 && id <= s.lastID.Load():
		s.log.Debug("ignored a late or repeated answer", "id", id)
		return
	case p == nil:
		s.logViolation("ignored an answer to an unknown request", "id", r.ID.Raw(), "error", r.Error)
		return
	case r.Error != nil:
		p.err = r.Error
	case len(r.Result) == 0:
		p.err = faultf(faultGarbled, "answered with neither a result nor an error")
	default:
		p.result = r.Result
	}
	close(p.done)
}

// handleNotification handles a notification. from is the request in whose exchange it arrived, or
// 0.
func (s *session) handleNotification(r *jsonrpc.Request, from int64) {
	switch r.Method {
	case "notifications/progress":
		s.passProgress(r.Params)
	case "notifications/message":
		s.passLog(r.Params, from)
	case "notifications/tools/list_changed":
		s.lists.tools.Store(true)
		s.signalListChange()
	case "notifications/resources/list_changed", "notifications/prompts/list_changed":
		s.lists.offers.Store(true)
		s.signalListChange()
	case "notifications/subscriptions/acknowledged": // the list may have changed between its answer and this
		s.signalListChange()
		s.passAcknowledgement(r.Params)
	case "notifications/resources/updated":
		var v struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(r.Params, &v) == nil {
			s.watches.recordUpdate(v.URI)
		}
	case "notifications/cancelled": // 2026-07-28, stdio: the end of a subscription
		var v struct {
			RequestID int64 `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &v) == nil {
			s.failRequest(v.RequestID, faultf(faultLost, "the server closed it"))
		}
	}
}

// passProgress passes progress to its request. If the receiver is slow, some is dropped.
func (s *session) passProgress(params json.RawMessage) {
	var v struct {
		Token    int64   `json:"progressToken"`
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &v) != nil {
		return
	}
	if p := s.peekRequest(v.Token); p != nil {
		select {
		case p.progress <- tool.Progress{Done: v.Progress, Total: v.Total, Message: v.Message}:
		default:
		}
	}
}

// newCancellation returns a notification that cancels a request.
func (s *session) newCancellation(id int64, reason string) *message {
	fields := strconv.AppendInt([]byte(`"requestId":`), id, 10)
	fields = append(append(fields, `,"reason":`...), quoteString(reason)...)
	const method = "notifications/cancelled"
	return &message{method: method, version: s.declaredRevision(), body: appendRequest(nil, 0, method, s.meta, fields)}
}

// sendLater sends a message without waiting. If the server accepts none, the message is dropped.
func (s *session) sendLater(m *message) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.logViolation("dropped a message: the server accepts none", "method", m.method)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.ctx.Err() != nil {
		<-s.slots
		return
	}
	s.sends.Go(func() {
		defer func() { <-s.slots }()
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		defer cancel()
		if err := s.t.send(ctx, m); err != nil {
			s.log.Debug("message not sent", "method", m.method, "error", err)
		}
	})
}
