// Package relay passes MCP messages between an agent and the backend that answers it, and connects
// to another backend when one is lost. Requests that the lost backend did not accept, or that
// change nothing, are sent to the new one. The agent sees errors for the others.
package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// messageBytes is the maximum size of a relayed message. It exceeds the server's own limit.
const messageBytes = 64 << 20

// A Backend is a connection to a server that answers an agent.
type Backend interface {
	io.ReadWriter
	CloseWrite() error // closes the connection for writing
	Close() error      // closes the connection and its resources
}

// A Connector connects to backends.
type Connector interface {
	// ConnectBackend connects to a backend. It is called again when the backend is lost.
	ConnectBackend(context.Context) (Backend, error)
}

// Config configures a relay.
type Config struct {
	Connector Connector
	Drain     time.Duration // time for answers to requests in progress when ctx ends
	Log       *slog.Logger  // nil: none
}

// Run passes messages until the agent is done or ctx ends. When ctx ends, requests in progress may
// still be answered, and new ones are refused.
func Run(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &relay{cfg: cfg, out: lineWriter{w: out}, pending: map[string]*request{}}
	return r.runUntilEnd(ctx, in)
}

// A relay passes messages between an agent and a backend, and connects to another backend when one
// is lost.
type relay struct {
	cfg Config
	out lineWriter

	mu         sync.Mutex
	back       Backend
	to         *lineWriter         // writes to back
	lines      int                 // lines that were written to back, or will be
	connected  time.Time           // when back was connected
	end        *api.StdioEndParams // what back said at its end; nil: nothing
	inputEnded bool                // the agent sends no more
	ended      bool                // the agent is gone, or the relay is stopping
	hello      []byte              // its initialize request
	helloID    string              // its id
	ready      []byte              // its notifications/initialized
	pending    map[string]*request // unanswered requests by id
	kept       int                 // bytes of the lines of pending requests
	// idle is not nil once the relay is stopping and refuses new requests. It is closed when no
	// request is pending.
	idle chan struct{}
}

// Bounds of what is kept of pending requests to send them again, in bytes.
const (
	keptBytes = 16 << 20 // of all of them
	keptLine  = 4 << 20  // of one
)

// lossesPerRequest is how many backends a request may lose that didn't say what they accepted. It
// may be what ended them.
const lossesPerRequest = 2

// A request is an unanswered request.
type request struct {
	id       json.RawMessage
	method   string
	text     []byte // nil: it is not kept
	line     int    // which line it is for the backend
	losses   int    // of backends that didn't say what they accepted
	canceled bool   // the agent expects no answer
}

// An envelope holds the fields of a message that the relay reads.
type envelope struct {
	id     json.RawMessage
	method string
}

// readEnvelope returns the fields of a message. Like the server, it reads only members that are
// named exactly so.
func readEnvelope(line []byte) (e envelope, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return envelope{}, false
	}
	e.id = members["id"]
	if m := members["method"]; m != nil && json.Unmarshal(m, &e.method) != nil {
		e.method = string(m) // of no use, and not empty
	}
	return e, true
}

// idKey returns the same key for every spelling of an id, since the server spells ids in its own
// way.
func idKey(id json.RawMessage) string {
	var v any
	if json.Unmarshal(id, &v) != nil {
		return string(id)
	}
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		if v == 0 {
			return "0" // or -0
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return string(id)
}

// changesNothing lists the methods whose requests can be sent twice.
var changesNothing = []string{
	"ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "logging/setLevel",
	"completion/complete",
}

// wasAccepted reports whether the lost backend has accepted a request, or may have. r.mu must be
// held.
func (r *relay) wasAccepted(q *request) bool {
	return r.end == nil || q.line <= r.end.Read && !slices.Contains(r.end.Left, q.line)
}

// canRepeat reports whether a request that the lost backend did not answer can be sent to the next.
// r.mu must be held.
func (r *relay) canRepeat(q *request) bool {
	if q.text == nil || q.canceled {
		return false
	}
	return !r.wasAccepted(q) || slices.Contains(changesNothing, q.method) && q.losses < lossesPerRequest
}

// addRequest adds a pending request. r.mu must be held.
func (r *relay) addRequest(e envelope, text []byte) {
	r.removeRequest(idKey(e.id))
	q := &request{id: e.id, method: e.method, line: r.lines}
	if len(text) <= keptLine && r.kept+len(text) <= keptBytes {
		q.text = slices.Clone(text)
		r.kept += len(text)
	}
	r.pending[idKey(e.id)] = q
}

// removeRequest removes a request that is no longer pending. r.mu must be held.
func (r *relay) removeRequest(id string) {
	if q := r.pending[id]; q != nil {
		r.kept -= len(q.text)
		delete(r.pending, id)
	}
}

// cancelRequest marks the request that a notification cancels. r.mu must be held.
func (r *relay) cancelRequest(line []byte) {
	var m struct {
		Params struct {
			ID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil {
		return // the backend ignores it, too
	}
	if q := r.pending[idKey(m.Params.ID)]; q != nil {
		q.canceled = true
	}
}

func (r *relay) runUntilEnd(ctx context.Context, in io.Reader) error {
	back, err := r.cfg.Connector.ConnectBackend(ctx)
	if err != nil {
		return err
	}
	r.useBackend(back, 0)
	over, finished := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		r.waitForAnswers(over)
	})
	// A read of standard input can't be interrupted and may stay until the process ends; nothing
	// waits for it.
	go r.relayFromAgent(bufio.NewReaderSize(in, 64<<10))
	err = r.toAgent(ctx)
	close(over)
	if stop() {
		return err
	}
	<-finished
	r.giveUp()
	return nil
}

// waitForAnswers ends the connection when all requests are answered, or after the Drain time. over
// is closed when the connection has ended.
func (r *relay) waitForAnswers(over <-chan struct{}) {
	r.mu.Lock()
	r.idle = make(chan struct{})
	r.notifyFinish()
	idle := r.idle
	r.mu.Unlock()
	timer := time.NewTimer(r.cfg.Drain)
	defer timer.Stop()
	select {
	case <-idle:
	case <-over:
	case <-timer.C:
	}
	r.endConnection()
}

// notifyFinish notifies finish when no request is pending. r.mu must be held.
func (r *relay) notifyFinish() {
	if r.idle == nil || len(r.pending) > 0 {
		return
	}
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// giveUp answers the requests that are still pending at the end.
func (r *relay) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.pending {
		// An error means that the agent is gone.
		_ = r.refuseRequest(q.id, "biplane is stopping: the request was canceled before its answer arrived, and it is "+
			"unknown whether it took effect")
	}
	clear(r.pending)
}

// refuseRequest answers a request with an error.
func (r *relay) refuseRequest(id json.RawMessage, msg string) error {
	var answer struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		ID      json.RawMessage `json:"id"`
		JSONRPC string          `json:"jsonrpc"`
	}
	answer.Error.Code, answer.Error.Message = -32603, msg
	answer.ID, answer.JSONRPC = id, "2.0"
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return r.out.writeLine(append(text, '\n'))
}

// endConnection ends the connection.
func (r *relay) endConnection() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.back.Close()
}

// relayFromAgent passes on the agent's messages.
func (r *relay) relayFromAgent(in *bufio.Reader) {
	for {
		line, err := readLine(in)
		if len(bytes.TrimSpace(line)) > 0 {
			r.passMessage(line)
		}
		if err != nil {
			r.mu.Lock()
			r.inputEnded = true
			back, to := r.back, r.to
			r.mu.Unlock()
			to.mu.Lock() // requests may be sent again
			defer to.mu.Unlock()
			endWriting(back)
			return
		}
	}
}

// endWriting closes a backend for writing, or as a whole.
func endWriting(back Backend) {
	if err := back.CloseWrite(); err != nil {
		back.Close()
	}
}

// useBackend makes a backend the current one, to which lines have been written. r.mu must be held,
// unless nothing else runs yet.
func (r *relay) useBackend(back Backend, lines int) {
	r.back, r.to, r.lines, r.connected = back, &lineWriter{w: back}, lines, time.Now()
}

// passMessage sends a message to the backend. It stores what is needed if the backend is lost. A
// request that can't be sent is answered when the loss is noticed.
func (r *relay) passMessage(line []byte) {
	e, known := readEnvelope(line) // the backend refuses invalid messages
	isRequest := known && e.method != "" && e.id != nil
	r.mu.Lock()
	switch {
	case isRequest && r.idle != nil:
		r.mu.Unlock()
		_ = r.refuseRequest(e.id,
			"biplane is stopping and accepts no more requests: send this one again when it has restarted")
		return
	case e.method == "initialize":
		r.hello, r.helloID = slices.Clone(line), idKey(e.id)
	case e.method == "notifications/initialized":
		r.ready = slices.Clone(line)
	case e.method == "notifications/cancelled":
		r.cancelRequest(line)
	}
	r.lines++
	if isRequest {
		r.addRequest(e, line)
	}
	to := r.to
	r.mu.Unlock()
	// A write error also occurs as a read error, which is handled there.
	_ = to.writeLine(line)
}

// toAgent passes on the backend's messages, from one backend after another, until the agent is
// done.
func (r *relay) toAgent(ctx context.Context) error {
	in := bufio.NewReaderSize(r.back, 64<<10)
	for {
		line, err := readLine(in)
		if len(line) > 0 && line[len(line)-1] == '\n' {
			if werr := r.passAnswer(line); werr != nil {
				r.endConnection()
				return nil // the agent is gone
			}
		}
		if err == nil {
			continue
		}
		if in, err = r.reconnect(ctx); err != nil || in == nil {
			return err
		}
	}
}

// passAnswer sends a message of the backend to the agent. api.StdioEnd is meant for the relay.
func (r *relay) passAnswer(line []byte) error {
	e, known := readEnvelope(line)
	switch {
	case known && e.method == api.StdioEnd:
		r.noteEnd(line)
		return nil
	case known && e.method == "" && e.id != nil:
		r.mu.Lock()
		r.removeRequest(idKey(e.id)) // before the agent reads the answer, and may reuse the id
		r.mu.Unlock()
	}
	err := r.out.writeLine(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notifyFinish()
	return err
}

// noteEnd notes what a backend says of the requests that it has read.
func (r *relay) noteEnd(line []byte) {
	var m struct {
		Params *api.StdioEndParams `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = m.Params
}

// reconnect connects to another backend after the loss of one. It repeats the agent's handshake
// with it, and sends it the lost requests that can be repeated. The others are answered with
// errors. It returns nil when the agent is done.
func (r *relay) reconnect(ctx context.Context) (*bufio.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back.Close()
	if r.ended {
		return nil, nil
	}
	initialize := r.pending[r.helloID] // its answer was lost: the new backend will answer
	if initialize != nil && initialize.method != "initialize" {
		initialize = nil // the agent used the id again
	}
	repeated, refused := r.sortLost(initialize)
	if r.inputEnded && len(repeated) == 0 {
		r.giveUpLost()
		return nil, nil
	}
	r.cfg.Log.Info("the biplane process that answered requests has exited")
	back, in, err := r.findBackend(ctx, initialize == nil)
	if err != nil {
		r.giveUpLost()
		return nil, err
	}
	if r.refuseLost(refused) != nil {
		back.Close()
		return nil, nil // the agent is gone
	}
	r.end = nil
	to := r.to
	to.mu.Lock()
	for _, q := range repeated {
		r.lines++
		q.line = r.lines
	}
	inputEnded := r.inputEnded
	// The backend may answer before it reads on, and the caller reads the answers. What the agent
	// sends next waits.
	go func() {
		defer to.mu.Unlock()
		for _, q := range repeated {
			_, _ = to.w.Write(q.text) // an error also occurs as a read error
		}
		if inputEnded {
			endWriting(back)
		}
	}()
	return in, nil
}

// sortLost returns the lost requests that can be sent to the next backend, in their order, and
// those to answer with errors. initialize, which may be nil, is not among them: it is sent with the
// handshake. r.mu must be held.
func (r *relay) sortLost(initialize *request) (repeated, refused []*request) {
	for id, q := range r.pending {
		if r.end == nil {
			q.losses++
		}
		switch {
		case q == initialize:
		case r.canRepeat(q):
			repeated = append(repeated, q)
		case q.canceled:
			r.removeRequest(id)
		default:
			refused = append(refused, q)
		}
	}
	slices.SortFunc(repeated, func(a, b *request) int { return cmp.Compare(a.line, b.line) })
	return repeated, refused
}

// giveUpLost answers all lost requests with errors, since there is no next backend. r.mu must be
// held.
func (r *relay) giveUpLost() {
	_ = r.refuseLost(slices.Collect(maps.Values(r.pending))) // an error means that the agent is gone
}

// refuseLost answers lost requests with errors. r.mu must be held.
func (r *relay) refuseLost(refused []*request) error {
	for _, q := range refused {
		r.removeRequest(idKey(q.id))
		if q.canceled {
			continue
		}
		msg := "the biplane process that received this request has exited: it is unknown whether it took effect"
		if !r.wasAccepted(q) {
			msg = "the biplane process that received this request has exited and did not accept it: send it again"
		}
		if err := r.refuseRequest(q.id, msg); err != nil {
			return err
		}
	}
	r.notifyFinish()
	return nil
}

// greetWait is how long backends may take to answer the handshake. Nothing else happens meanwhile.
const greetWait = 30 * time.Second

// shortLife is how long a backend lives at least, unless it fails.
const shortLife = time.Second

// findBackend connects to another backend and repeats the handshake, until one answers. The agent
// has the answer to its initialize request if answered is set. r.mu must be held.
func (r *relay) findBackend(ctx context.Context, answered bool) (Backend, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	pause := time.Duration(0)
	if time.Since(r.connected) < shortLife {
		pause = 10 * time.Millisecond
	}
	var last error
	for ; ; pause = min(max(2*pause, 10*time.Millisecond), time.Second) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, tool.Errorf(tool.Unavailable, "reconnect to biplane: %w", cmp.Or(last, ctx.Err()))
		}
		back, err := r.cfg.Connector.ConnectBackend(ctx)
		if err != nil {
			return nil, nil, err
		}
		in := bufio.NewReaderSize(back, 64<<10)
		stop := context.AfterFunc(ctx, func() { back.Close() })
		lines, err := r.repeatHandshake(back, in, answered)
		if stop() && err == nil {
			r.useBackend(back, lines)
			return back, in, nil
		}
		back.Close() // it has ended, too
		last = err
	}
}

// repeatHandshake sends the agent's initialize request, if there was one, and what followed it. If
// the agent has the answer, the new answer is read and dropped. It returns how many lines it has
// written.
func (r *relay) repeatHandshake(back Backend, in *bufio.Reader, answered bool) (lines int, err error) {
	if r.hello == nil {
		return 0, nil
	}
	if _, err := back.Write(r.hello); err != nil {
		return 0, err
	}
	for answered {
		line, err := readLine(in)
		if err != nil {
			return 0, err
		}
		if e, ok := readEnvelope(line); ok && e.method == "" && idKey(e.id) == r.helloID {
			break
		}
	}
	if r.ready == nil {
		return 1, nil
	}
	_, err = back.Write(r.ready)
	return 2, err
}

// A lineWriter writes whole lines, one at a time.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) writeLine(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(line)
	return err
}

// readLine reads a line with its end, up to messageBytes. A longer line is truncated, which makes
// it an invalid message.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) < messageBytes {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 && line[len(line)-1] != '\n' && err == nil {
			line = append(line, '\n')
		}
		return line, err
	}
}
