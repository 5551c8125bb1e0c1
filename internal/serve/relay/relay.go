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
	"slices"
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

	mu      sync.Mutex
	back    Backend
	to      *lineWriter         // writes to back
	ended   bool                // the agent is done, or the relay is stopping
	hello   []byte              // its initialize request
	helloID string              // its id
	ready   []byte              // its notifications/initialized
	pending map[string]*request // unanswered requests by id
	sent    int                 // requests so far
	kept    int                 // bytes of the lines of pending requests
	// accepted are the ids of the requests that the backend accepted and won't answer; nil: the
	// backend has not said.
	accepted map[string]bool
	// idle is not nil once the relay is stopping and refuses new requests. It is closed when no
	// request is pending.
	idle chan struct{}
}

// keptBytes is how many bytes of requests are kept to send them again.
const keptBytes = 16 << 20

// A request is an unanswered request.
type request struct {
	id       json.RawMessage
	method   string
	line     []byte // nil: there was no room to keep it
	number   int    // counts from the first request
	canceled bool   // the agent expects no answer
}

// An envelope holds the fields of a message that the relay reads.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// changesNothing lists the methods whose requests can be sent twice.
var changesNothing = []string{
	"ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "logging/setLevel",
	"completion/complete",
}

// canRepeat reports whether the next backend can be sent a request that this one did not answer.
// r.mu must be held.
func (r *relay) canRepeat(q *request) bool {
	if q.line == nil {
		return false
	}
	return slices.Contains(changesNothing, q.method) || r.accepted != nil && !r.accepted[string(q.id)]
}

// addRequest adds a pending request. r.mu must be held.
func (r *relay) addRequest(e envelope, line []byte) {
	r.removeRequest(string(e.ID))
	r.sent++
	q := &request{id: e.ID, method: e.Method, number: r.sent}
	if r.kept+len(line) <= keptBytes {
		q.line = slices.Clone(line)
		r.kept += len(line)
	}
	r.pending[string(e.ID)] = q
}

// removeRequest removes a request that is no longer pending. r.mu must be held.
func (r *relay) removeRequest(id string) {
	if q := r.pending[id]; q != nil {
		r.kept -= len(q.line)
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
	if q := r.pending[string(m.Params.ID)]; q != nil {
		q.canceled = true
	}
}

func (r *relay) runUntilEnd(ctx context.Context, in io.Reader) error {
	back, err := r.cfg.Connector.ConnectBackend(ctx)
	if err != nil {
		return err
	}
	r.back, r.to = back, &lineWriter{w: back}
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
			r.ended = true
			back := r.back
			r.mu.Unlock()
			if err := back.CloseWrite(); err != nil {
				back.Close()
			}
			return
		}
	}
}

// passMessage sends a message to the backend. It stores what is needed if the backend is lost. A
// request that can't be sent is answered when the loss is noticed.
func (r *relay) passMessage(line []byte) {
	var e envelope
	known := json.Unmarshal(line, &e) == nil // the backend refuses invalid messages
	r.mu.Lock()
	if known {
		switch {
		case e.Method == "initialize":
			r.hello, r.helloID = slices.Clone(line), string(e.ID)
		case e.Method == "notifications/initialized":
			r.ready = slices.Clone(line)
		case e.Method == "notifications/cancelled":
			r.cancelRequest(line)
		}
		if e.Method != "" && e.ID != nil {
			if r.idle != nil {
				r.mu.Unlock()
				_ = r.refuseRequest(e.ID,
					"biplane is stopping and accepts no more requests: send this one again when it has restarted")
				return
			}
			r.addRequest(e, line)
		}
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
	var e envelope
	if json.Unmarshal(line, &e) == nil {
		switch {
		case e.Method == api.StdioEnd:
			r.noteEnd(line)
			return nil
		case e.Method == "" && e.ID != nil:
			r.mu.Lock()
			r.removeRequest(string(e.ID)) // before the agent reads the answer, and may reuse the id
			r.mu.Unlock()
		}
	}
	err := r.out.writeLine(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notifyFinish()
	return err
}

// noteEnd notes which requests a backend has accepted.
func (r *relay) noteEnd(line []byte) {
	var m struct {
		Params *api.StdioEndParams `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || m.Params == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = map[string]bool{}
	for _, id := range m.Params.Accepted {
		r.accepted[id] = true
	}
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
	r.cfg.Log.Info("the biplane process that answered requests has exited")
	asked := r.pending[r.helloID] // its answer was lost: the new backend will answer
	if asked != nil && asked.method != "initialize" {
		asked = nil // the agent used the id again
	}
	back, in, err := r.findBackend(ctx, asked == nil)
	if err != nil {
		return nil, err
	}
	r.back, r.to = back, &lineWriter{w: back}
	repeated, err := r.sortLost(asked)
	if err != nil {
		back.Close()
		return nil, nil // the agent is gone
	}
	r.accepted = nil
	r.notifyFinish()
	// The backend may answer before it reads on, and the caller reads the answers. What the agent
	// sends next waits.
	to := r.to
	to.mu.Lock()
	go func() {
		defer to.mu.Unlock()
		for _, q := range repeated {
			_, _ = to.w.Write(q.line) // an error also occurs as a read error
		}
	}()
	return in, nil
}

// sortLost returns the lost requests that can be sent to the next backend, in their order, and
// removes the others, which it answers with errors. asked, which may be nil, was sent already. r.mu
// must be held.
func (r *relay) sortLost(asked *request) ([]*request, error) {
	var repeated []*request
	for id, q := range r.pending {
		switch {
		case q == asked:
		case q.canceled:
			r.removeRequest(id)
		case r.canRepeat(q):
			repeated = append(repeated, q)
		default:
			r.removeRequest(id)
			msg := "the biplane process that received this request has exited: it is unknown whether it took effect"
			if err := r.refuseRequest(q.id, msg); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(repeated, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return repeated, nil
}

// greetWait is how long backends may take to answer the handshake. Nothing else happens meanwhile.
const greetWait = 30 * time.Second

// findBackend connects to another backend and repeats the handshake, until one answers. answered is
// that of sendInitialize. r.mu must be held.
func (r *relay) findBackend(ctx context.Context, answered bool) (Backend, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		back, err := r.cfg.Connector.ConnectBackend(ctx)
		if err != nil {
			return nil, nil, err
		}
		in := bufio.NewReaderSize(back, 64<<10)
		if r.hello == nil {
			return back, in, nil
		}
		stop := context.AfterFunc(ctx, func() { back.Close() })
		err = r.sendInitialize(back, in, answered)
		if stop() && err == nil {
			return back, in, nil
		}
		back.Close()
		timer := time.NewTimer(pause) // this backend has ended, too
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, tool.Errorf(tool.Unavailable, "reconnect to biplane: %w", cmp.Or(err, ctx.Err()))
		}
	}
}

// sendInitialize sends the agent's initialize request. If answered is set, the agent has already
// received the answer, which is read and dropped.
func (r *relay) sendInitialize(back Backend, in *bufio.Reader, answered bool) error {
	if _, err := back.Write(r.hello); err != nil || !answered {
		return err
	}
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		var e envelope
		if json.Unmarshal(line, &e) == nil && e.Method == "" && string(e.ID) == r.helloID {
			break
		}
	}
	if r.ready == nil {
		return nil
	}
	_, err := back.Write(r.ready)
	return err
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
