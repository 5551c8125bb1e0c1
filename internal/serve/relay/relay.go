// Package relay passes MCP messages between an agent and the backend that answers it, and connects
// to another backend when one is lost. The agent sees only errors for the requests in progress.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

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
	r := &relay{cfg: cfg, out: lineWriter{w: out}, pending: map[string]json.RawMessage{}}
	return r.runUntilEnd(ctx, in)
}

// A relay passes messages between an agent and a backend, and connects to another backend when one
// is lost.
type relay struct {
	cfg Config
	out lineWriter

	mu      sync.Mutex
	back    Backend
	ended   bool                       // the agent is done, or the relay is stopping
	hello   []byte                     // its initialize request
	helloID string                     // its id
	ready   []byte                     // its notifications/initialized
	pending map[string]json.RawMessage // ids of unanswered requests
	// idle is not nil once the relay is stopping and refuses new requests. It is closed when no
	// request is pending.
	idle chan struct{}
}

// An envelope holds the fields of a message that the relay reads.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (r *relay) runUntilEnd(ctx context.Context, in io.Reader) error {
	back, err := r.cfg.Connector.ConnectBackend(ctx)
	if err != nil {
		return err
	}
	r.back = back
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
	for _, id := range r.pending {
		// An error means that the agent is gone.
		_ = r.refuseRequest(id, "biplane is stopping: the request was canceled before its answer arrived, and it is "+
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
		}
		if e.Method != "" && e.ID != nil {
			if r.idle != nil {
				r.mu.Unlock()
				_ = r.refuseRequest(e.ID,
					"biplane is stopping and accepts no more requests: send this one again when it has restarted")
				return
			}
			r.pending[string(e.ID)] = e.ID
		}
	}
	back := r.back
	r.mu.Unlock()
	// A write error also occurs as a read error, which is handled there.
	_, _ = back.Write(line)
}

// toAgent passes on the backend's messages, from one backend after another, until the agent is
// done.
func (r *relay) toAgent(ctx context.Context) error {
	in := bufio.NewReaderSize(r.back, 64<<10)
	for {
		line, err := readLine(in)
		if len(line) > 0 && line[len(line)-1] == '\n' {
			var e envelope
			if json.Unmarshal(line, &e) == nil && e.Method == "" && e.ID != nil {
				r.mu.Lock()
				delete(r.pending, string(e.ID)) // before the agent reads the answer, and may reuse the id
				r.mu.Unlock()
			}
			werr := r.out.writeLine(line)
			r.mu.Lock()
			r.notifyFinish()
			r.mu.Unlock()
			if werr != nil {
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

// reconnect connects to another backend after the loss of one. It repeats the agent's handshake
// with it, and answers the lost requests with errors. It returns nil when the agent is done.
func (r *relay) reconnect(ctx context.Context) (*bufio.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back.Close()
	if r.ended {
		return nil, nil
	}
	r.cfg.Log.Info("the biplane process that answered requests has exited")
	back, err := r.cfg.Connector.ConnectBackend(ctx)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(back, 64<<10)
	asked := r.pending[r.helloID] // its answer was lost: the new backend will answer
	delete(r.pending, r.helloID)
	if r.hello != nil {
		stop := closeWhen(ctx, back)
		err := r.sendInitialize(back, in, asked == nil)
		stop()
		if err != nil {
			back.Close()
			return nil, tool.Errorf(tool.Unavailable, "reconnect to biplane: %w", err)
		}
	}
	r.back = back
	for _, id := range r.pending {
		msg := "the biplane process that received this request has exited: it is unknown whether it took effect"
		if err := r.refuseRequest(id, msg); err != nil {
			back.Close()
			return nil, nil // the agent is gone
		}
	}
	clear(r.pending)
	if asked != nil {
		r.pending[r.helloID] = asked
	}
	return in, nil
}

// greetWait is how long a backend may take to answer the handshake. Nothing else happens meanwhile.
const greetWait = 30 * time.Second

// closeWhen closes back when ctx ends or greetWait has passed, unless the returned function is
// called before.
func closeWhen(ctx context.Context, back Backend) (stop func()) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	keep := context.AfterFunc(ctx, func() { back.Close() })
	return func() { keep(); cancel() }
}

// sendInitialize sends the agent's initialize request. If answered is set, the agent has already
// received the answer, and greet reads and drops it.
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
