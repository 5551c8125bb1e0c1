package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ServeStdio serves MCP to one client: one message per line on in and on out. It returns nil when
// the input has ended and the earlier requests are answered, waiting at most Limits.Drain. It
// returns ctx's error when ctx is done. In both cases all calls have ended. It closes in, if in can
// be closed. A read of standard input that this doesn't interrupt (from a terminal) continues until
// the process ends.
//
// A line that is not a message is answered with an error, and the connection continues.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Continue(ctx, in, out, Conversation{})
}

// A Conversation is the state of a connection that outlives the processes that serve it.
type Conversation struct {
	Profile string                      // of the client; empty: none
	Labels  []string                    // of the data sent over it before
	Carries func(labels []string) error // stores more labels for the next process; nil: there is none
	// Relayed: the client is a relay that sends what this process did not accept to the next one.
	// Such requests are not answered, and the last message is api.StdioEnd.
	Relayed bool
}

// Continue is like ServeStdio, for a connection that another process may have served before.
func (s *Server) Continue(ctx context.Context, in io.Reader, out io.Writer, known Conversation) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("serve MCP over stdio: the server is closed")
	}
	s.stdio.Add(1)
	s.mu.Unlock()
	defer s.stdio.Done()
	p := s.cfg.Local
	p.Profile = known.Profile
	e := s.endpoints.endpointOf(p)
	if e == nil {
		return tool.Errorf(tool.NotFound, "there is no profile %q", p.Profile)
	}
	ctx, gone := s.withClient(ctx, p)
	defer gone()
	from := clientOf(ctx)
	from.labels.Add(known.Labels)
	from.keep = known.Carries
	c := newConn(in, out, s)
	c.relayed = known.Relayed
	defer c.dropPending()
	from.order = c.order
	ss, err := e.sessions.Connect(context.WithoutCancel(ctx), transport{c}, nil)
	if err != nil {
		c.Close()
		return err
	}
	// For the SDK, an abort looks like the end of the input: it cancels all calls and waits for
	// them.
	stopCaller := context.AfterFunc(ctx, c.abortReading)
	stopServer := context.AfterFunc(s.ctx, c.abortReading)
	err = ss.Wait()
	stopCaller()
	stopServer()
	c.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A transport passes an existing connection to the SDK.
type transport struct{ c *conn }

// Connect returns the connection.
func (t transport) Connect(context.Context) (mcp.Connection, error) { return t.c, nil }

// A conn is a line-based connection.
type conn struct {
	srv     *Server
	in      io.Reader
	limits  Limits
	relayed bool          // see Conversation
	lines   chan line     // from the reading goroutine; closed after the last line
	closed  chan struct{} // closed by abort and Close
	once    sync.Once
	freed   chan struct{} // receives a value when pending shrinks
	order   *order

	out lineWriter

	mu      sync.Mutex
	pending map[any]bool // ids of unanswered requests; true: the request calls a tool
	writing int          // responses being written
	read    int          // lines that were read, without empty ones
	left    []int        // lines whose requests are left to the next process
	ended   bool         // no more requests are accepted
}

// maxLeft is how many requests are left to the next process. More are refused.
const maxLeft = 10_000

type line struct {
	text []byte
	long bool // it exceeded the maximum message size, and text is empty
}

func newConn(in io.Reader, out io.Writer, s *Server) *conn {
	c := &conn{
		srv: s, in: in, out: lineWriter{w: out}, limits: s.cfg.Limits,
		lines: make(chan line), closed: make(chan struct{}), freed: make(chan struct{}, 1),
		pending: map[any]bool{},
		order:   &order{lines: map[string]*lineUp{}, places: map[any]*place{}},
	}
	go c.readLines()
	return c
}

// readLines reads lines until the input ends or the connection is closed.
func (c *conn) readLines() {
	defer close(c.lines)
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		l, err := readLine(r, c.limits.Body)
		if len(l.text) > 0 || l.long {
			select {
			case c.lines <- l:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line and strips its end. If the line is longer than limit, its text is
// discarded.
func readLine(r *bufio.Reader, limit int64) (l line, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(l.text)+len(part)) > limit+1 {
			l = line{long: true}
		}
		if !l.long {
			l.text = append(l.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			l.text = bytes.TrimSpace(l.text)
			return l, err
		}
	}
}

// Read returns the next message. It waits while too many calls are pending.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if !c.waitForRoom(ctx) {
			return nil, io.EOF
		}
		select {
		case l, ok := <-c.lines:
			if !ok {
				c.drainCalls(ctx)
				return nil, io.EOF
			}
			if m := c.decodeLine(l); m != nil {
				return m, nil
			}
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// decodeLine returns the message of a line. For an invalid line it sends an error and returns nil.
func (c *conn) decodeLine(l line) jsonrpc.Message {
	m, e, bad := c.parseLine(l)
	r, ok := m.(*jsonrpc.Request)
	call := ok && r.IsCall()
	accepted := bad == nil
	c.mu.Lock()
	c.read++ // with the request's acceptance, so that tellEnd never names one without the other
	if call {
		accepted, bad = c.addPending(r)
	}
	c.mu.Unlock()
	if bad != nil {
		c.rejectLine(e.id, bad.Code, bad.Message)
	}
	if !accepted {
		return nil
	}
	if call {
		r.Params = moveTaskParams(r.Method, r.Params)
		c.order.assignPlace(r, e)
	}
	return m
}

// parseLine returns the message of a line, and its envelope as far as that is known. If the line is
// invalid, it returns the error to answer, and no message.
func (c *conn) parseLine(l line) (jsonrpc.Message, envelope, *jsonrpc.Error) {
	if l.long {
		return nil, envelope{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "message is larger than " + strconv.FormatInt(c.limits.Body, 10) + " bytes"}
	}
	e, bad := readEnvelope(l.text)
	if bad == nil && l.text[0] == '[' {
		bad = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "batches are not supported: send one message a line"}
	}
	if bad != nil {
		return nil, e, bad
	}
	m, err := jsonrpc.DecodeMessage(l.text)
	if err != nil {
		return nil, e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "message is not JSON-RPC 2.0: " + err.Error()}
	}
	return m, e, nil
}

// rejectLine answers a line that isn't passed to the SDK.
func (c *conn) rejectLine(id json.RawMessage, code int64, msg string) {
	// If this fails, the next write fails too, and reports it.
	_ = c.out.writeLine(encodeError(id, &jsonrpc.Error{Code: code, Message: msg}))
}

// Write sends a message.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == disguise {
		if method, params, ok := restoreMethod(r.Params); ok {
			m = &jsonrpc.Request{Method: method, Params: params}
		}
	}
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return c.out.writeLine(b)
	}
	// The peer may use the id again as soon as it has read the response.
	call := c.releaseID(r.ID)
	defer c.finishWrite(call)
	return c.out.writeLine(b)
}

// A lineWriter writes whole lines, one at a time.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) writeLine(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(b, '\n'))
	return err
}

// addPending registers a request as pending. If it doesn't accept the request, it returns the error
// to answer; nil if a relay will send the request to the next process. The caller holds mu, and has
// counted the request's line.
func (c *conn) addPending(r *jsonrpc.Request) (accepted bool, bad *jsonrpc.Error) {
	if _, ok := c.pending[r.ID.Raw()]; ok {
		return false, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "a request with this id is still in progress"}
	}
	call := callsTool(r.Method)
	if c.ended || call && !c.srv.calls.enterCall() {
		if c.relayed && len(c.left) < maxLeft {
			c.left = append(c.left, c.read)
			return false, nil
		}
		return false, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: notTaken}
	}
	c.pending[r.ID.Raw()] = call
	return true, nil
}

// releaseID frees the id of a request whose response is about to be written. It reports whether
// the request called a tool.
func (c *conn) releaseID(id jsonrpc.ID) (call bool) {
	c.mu.Lock()
	call = c.pending[id.Raw()]
	delete(c.pending, id.Raw())
	c.writing++
	c.mu.Unlock()
	c.order.forgetRequest(id.Raw())
	return call
}

// finishWrite unregisters a request whose response was written, or couldn't be.
func (c *conn) finishWrite(call bool) {
	c.mu.Lock()
	c.writing--
	c.mu.Unlock()
	if call {
		c.srv.calls.leaveCall()
	}
	select {
	case c.freed <- struct{}{}:
	default:
	}
}

// dropPending drops the requests that were never answered, when the connection is over.
func (c *conn) dropPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, call := range c.pending {
		if call {
			c.srv.calls.leaveCall()
		}
		delete(c.pending, id)
		c.order.forgetRequest(id)
	}
}

// countPending returns the number of requests whose responses were not written yet.
func (c *conn) countPending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) + c.writing
}

// waitForRoom waits until there is room for another pending call. It returns false if the
// connection is closed.
func (c *conn) waitForRoom(ctx context.Context) bool {
	for c.countPending() >= c.limits.StdioPending {
		select {
		case <-c.freed:
		case <-c.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// drainCalls waits until all calls are answered, at most Limits.Drain.
func (c *conn) drainCalls(ctx context.Context) {
	timer := time.NewTimer(c.limits.Drain)
	defer timer.Stop()
	for c.countPending() > 0 {
		select {
		case <-c.freed:
		case <-timer.C:
			return
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// abortReading ends reading, which the SDK treats as the end of the conversation.
func (c *conn) abortReading() { c.once.Do(func() { close(c.closed) }) }

// endWait is how long a relay may take to read api.StdioEnd.
const endWait = time.Second

// tellEnd tells a relay which requests were not accepted. No more are accepted then.
func (c *conn) tellEnd() {
	c.mu.Lock()
	told := c.ended || !c.relayed
	c.ended = true
	end := api.StdioEndParams{Read: c.read, Left: append([]int{}, c.left...)}
	c.mu.Unlock()
	if told {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		params, err := json.Marshal(end)
		if err == nil {
			// If this fails, the relay assumes that all its requests were accepted.
			_ = c.Write(context.Background(), &jsonrpc.Request{Method: api.StdioEnd, Params: params})
		}
	}()
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// Close ends the connection.
func (c *conn) Close() error {
	c.abortReading()
	c.tellEnd()
	if in, ok := c.in.(io.Closer); ok {
		return in.Close()
	}
	return nil
}

// SessionID returns the empty string: there is only one session.
func (c *conn) SessionID() string { return "" }
