package mcpserver

//lint:file-ignore SA1019 sampling and roots still work

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A tool's server may ask the client something during a call (elicitation, sampling, roots). Up to
// 2025-11-25 the client is asked while its call waits. In 2026-07-28 the client is asked by the
// answer to its request (input_required), and answers in its next request. Meanwhile the call is
// parked: it is one call, authorized and recorded once, however often it asks.

// An asker asks the client of a call.
type asker interface {
	listCapabilities() json.RawMessage
	askClient(context.Context, map[string]tool.Question) (map[string]json.RawMessage, error)
}

// encodeCapabilities returns the capabilities of a client that questions require, or nil.
func encodeCapabilities(c *mcp.ClientCapabilities) json.RawMessage {
	var able struct {
		Elicitation *mcp.ElicitationCapabilities `json:"elicitation,omitempty"`
		Sampling    *mcp.SamplingCapabilities    `json:"sampling,omitempty"`
		Roots       *struct{}                    `json:"roots,omitempty"`
	}
	if c == nil {
		return nil
	}
	if able.Elicitation, able.Sampling = c.Elicitation, c.Sampling; c.RootsV2 != nil {
		able.Roots = &struct{}{}
	}
	if able.Elicitation == nil && able.Sampling == nil && able.Roots == nil {
		return nil
	}
	raw, err := tool.Marshal(able)
	if err != nil {
		panic(err) // these structs can always be marshaled
	}
	return raw
}

// stateMark begins the requestState of parked calls. Forms about approvals use another mark.
const stateMark = "ask_"

// A followUp is the part of a request of 2026-07-28 that refers to earlier requests.
type followUp struct {
	state   string
	answers mcp.InputResponseMap
}

// taskConversion describes how a call becomes a task.
type taskConversion struct {
	tasks      bool          // it may
	required   bool          // it will: the client asked for it (2025-11-25), or it was one
	begin      chan struct{} // capacity 1: it should now
	identified chan struct{} // capacity 1: the id of the execution is known; nil: no one waits for it
}

// An exchange is a call of 2026-07-28 that may ask its client, or a task of 2025-11-25.
type exchange struct {
	principal    string
	who          tool.Principal
	digest       string // of what is called
	capabilities json.RawMessage
	cancel       context.CancelCauseFunc
	asked        chan map[string]tool.Question
	answers      chan map[string]json.RawMessage
	early        map[string]json.RawMessage // answers in the request that made the call
	done         chan struct{}              // closed after res and err are set
	res          mcp.Result
	err          error

	taskConversion
	refused   chan error   // capacity 1: why the client did not answer
	from      *client      // that made the call
	execution atomic.Value // id of the execution that it began or resumes

	mu     sync.Mutex
	task   *task // nil unless it became one
	sealed bool  // it can't become one

	notify atomic.Pointer[notifier] // of the request that made the call
	open   map[string]tool.Question // the questions that the client has
	timer  *time.Timer              // ends the call if the client doesn't answer
}

func (t *exchange) listCapabilities() json.RawMessage { return t.capabilities }

func (t *exchange) askClient(ctx context.Context, asked map[string]tool.Question) (map[string]json.RawMessage, error) {
	if t.early != nil {
		early := keepAnswers(t.early, asked)
		if t.early = nil; len(early) == len(asked) {
			return early, nil
		}
	}
	select {
	case t.asked <- asked:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case answers := <-t.answers:
		return answers, nil
	case err := <-t.refused:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// exchanges are the parked calls, by the requestState that continues them.
type exchanges struct {
	mu     sync.Mutex
	parked map[string]*exchange
	closed bool           // no further calls are parked
	calls  sync.WaitGroup // none are added after closed is set
}

// startExchange runs a call that may be parked. It returns false if the server is stopping.
func (a *exchanges) startExchange(call func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.calls.Go(call)
	}
	return !a.closed
}

// addExchange parks a call. It reports false if the server is stopping.
func (a *exchanges) addExchange(state string, t *exchange) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.parked[state] = t
	return true
}

// takeExchange removes and returns a parked call. It returns nil if the call belongs to another
// principal or has another content.
func (a *exchanges) takeExchange(state, principal, digest string) *exchange {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.parked[state]
	if t == nil || t.principal != principal || t.digest != digest {
		return nil
	}
	delete(a.parked, state)
	t.timer.Stop()
	return t
}

// cancelExchanges cancels the parked calls of a principal, or all of them and those to come.
func (a *exchanges) cancelExchanges(principal string, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = a.closed || all
	for state, t := range a.parked {
		if all || t.principal == principal {
			delete(a.parked, state)
			t.timer.Stop()
			t.cancel(errUnanswered)
		}
	}
}

var errUnanswered = &tool.Error{Kind: tool.Timeout, Msg: "the client did not answer the question of the tool's " +
	"server: whether the call took effect is unknown"}

var errNoExchange = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no question is pending for this " +
	"requestState: it was answered, or its call has ended, for instance because Biplane was restarted. This request " +
	"called nothing. Whether the first one took effect is unknown: check that before a new call without requestState"}

type talkKey struct{}

// relayCall makes a call of 2026-07-28 whose client can be asked, or continues it with answers.
func (s *Server) relayCall(ctx context.Context, t *exchange, f followUp,
	call func(context.Context, asker) (mcp.Result, error)) (mcp.Result, error) {
	if strings.HasPrefix(f.state, stateMark) {
		return s.continueExchange(ctx, t, f)
	}
	if t.capabilities == nil && !t.tasks {
		return call(ctx, nil)
	}
	if f.state == "" { // otherwise they answer a form about an approval
		var err error
		if t.early, err = encodeAnswers(f.answers); err != nil {
			return nil, err
		}
	}
	if !s.exchanges.runExchange(ctx, t, call) {
		return call(ctx, nil)
	}
	return s.awaitExchange(ctx, t)
}

// runExchange begins a call that outlives ctx. It returns false if the server is stopping.
func (a *exchanges) runExchange(ctx context.Context, t *exchange,
	call func(context.Context, asker) (mcp.Result, error)) bool {
	t.asked, t.answers = make(chan map[string]tool.Question), make(chan map[string]json.RawMessage, 1)
	t.done, t.begin, t.refused = make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)
	t.from = clientOf(ctx)
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var stop atomic.Pointer[context.CancelCauseFunc] // nil after the call, whose message ctx holds
	stop.Store(&cancel)
	t.cancel = func(cause error) {
		if cancel := stop.Load(); cancel != nil {
			(*cancel)(cause)
		}
	}
	if !a.startExchange(func() {
		defer close(t.done)
		defer stop.Store(nil)
		defer cancel(nil)
		t.res, t.err = call(context.WithValue(life, talkKey{}, t), t)
	}) {
		cancel(nil)
		return false
	}
	return true
}

// encodeAnswers returns the answers as JSON, and nil if there are none.
func encodeAnswers(all mcp.InputResponseMap) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	for key, a := range all {
		raw, err := tool.Marshal(a)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out[key] = raw
	}
	return out, nil
}

// keepAnswers returns the answers to the questions that were asked.
func keepAnswers(answers map[string]json.RawMessage, asked map[string]tool.Question) map[string]json.RawMessage {
	kept := map[string]json.RawMessage{}
	for key := range asked {
		if a, ok := answers[key]; ok {
			kept[key] = a
		}
	}
	return kept
}

// continueExchange passes the client's answers to its parked call.
func (s *Server) continueExchange(ctx context.Context, like *exchange, f followUp) (mcp.Result, error) {
	answers, err := encodeAnswers(f.answers)
	if err != nil {
		return nil, err
	}
	t := s.exchanges.takeExchange(f.state, like.principal, like.digest)
	if t == nil {
		return nil, errNoExchange
	}
	select {
	case t.answers <- keepAnswers(answers, t.open):
	case <-t.done:
	}
	return s.awaitExchange(ctx, t)
}

// awaitExchange waits for the result of a call, or for its next question. If the client leaves or
// is cut off, the call ends.
func (s *Server) awaitExchange(ctx context.Context, t *exchange) (mcp.Result, error) {
	if c := clientOf(ctx); c != nil {
		defer context.AfterFunc(c.ctx, func() { t.cancel(context.Canceled) })()
	}
	var tasked <-chan struct{}
	var long <-chan time.Time
	if t.tasks {
		timer := time.NewTimer(s.cfg.Limits.TaskAfter)
		defer timer.Stop()
		tasked, long = t.begin, timer.C
	}
	for {
		select {
		case asked := <-t.asked:
			return s.exchanges.parkExchange(t, asked)
		case <-t.done:
			return t.res, t.err
		case <-ctx.Done():
			t.cancel(context.Canceled)
			<-t.done
			return t.res, t.err
		case <-tasked:
		case <-long:
		}
		if k := s.tasks.becomeTask(t, false); k != nil {
			return answerTask(k.describeTask(true))
		}
		tasked, long = nil, nil
	}
}

// parkExchange returns the result that asks the client, and keeps the call for its answers.
func (a *exchanges) parkExchange(t *exchange, asked map[string]tool.Question) (mcp.Result, error) {
	t.notify.Load().close() // its stream ends with this result
	t.open = asked
	state := stateMark + rand.Text()
	raw, err := tool.Marshal(struct {
		Type     string                   `json:"resultType"`
		Requests map[string]tool.Question `json:"inputRequests"`
		State    string                   `json:"requestState"`
	}{"input_required", asked, state})
	t.timer = time.AfterFunc(formTime, func() {
		if a.takeExchange(state, t.principal, t.digest) != nil {
			t.cancel(errUnanswered)
		}
	})
	if err != nil || !a.addExchange(state, t) {
		t.timer.Stop()
		t.cancel(errUnanswered)
		<-t.done
		return t.res, t.err
	}
	return &callResult{raw: raw, modern: true}, nil
}

// A sessionAsker asks a client up to 2025-11-25, in the stream of its call.
type sessionAsker struct {
	session      *mcp.ServerSession
	capabilities json.RawMessage
}

func (a *sessionAsker) listCapabilities() json.RawMessage { return a.capabilities }

func (a *sessionAsker) askClient(ctx context.Context,
	asked map[string]tool.Question) (map[string]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, formTime, errUnanswered)
	defer cancel()
	if c := clientOf(ctx); c != nil && asksPerson(asked) {
		select {
		case c.form <- struct{}{}:
			defer func() { <-c.form }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	answers := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		answer, err := a.askOne(ctx, asked[key])
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, &tool.Error{Kind: tool.Unavailable, Err: err, Msg: "the client did not answer the " +
				asked[key].Method + " of the tool's server: " + shortenText(err.Error())}
		}
		if answers[key], err = tool.Marshal(answer); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// asksPerson reports whether one of the questions is shown to a person. A client shows one at a
// time. A model may be asked meanwhile: it may call a tool whose server asks, too.
func asksPerson(asked map[string]tool.Question) bool {
	for _, q := range asked {
		if q.Method == "elicitation/create" {
			return true
		}
	}
	return false
}

// askOne sends one request to the client.
func (a *sessionAsker) askOne(ctx context.Context, q tool.Question) (any, error) {
	params := q.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	switch q.Method {
	case "elicitation/create":
		var p mcp.ElicitParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		return a.session.Elicit(ctx, &p)
	case "sampling/createMessage":
		ms, _ := parseMembers(params)
		if fieldOf(params, ms, "tools") == nil {
			var p mcp.CreateMessageParams
			if err := json.Unmarshal(params, &p); err != nil {
				return nil, err
			}
			return a.session.CreateMessage(ctx, &p)
		}
		var p mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		return a.session.CreateMessageWithTools(ctx, &p)
	case "roots/list":
		var p mcp.ListRootsParams
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		return a.session.ListRoots(ctx, &p)
	}
	return nil, errors.New("unknown method")
}

// nameServer returns questions whose messages to people begin with the name of the server.
func nameServer(server string, asked map[string]tool.Question) map[string]tool.Question {
	named := make(map[string]tool.Question, len(asked))
	for key, q := range asked {
		ms, _ := parseMembers(q.Params)
		if message := stringValue(fieldOf(q.Params, ms, "message")); message != "" {
			q.Params = replaceField(q.Params, ms, "message", quoteText(server+": "+message))
		}
		named[key] = q
	}
	return named
}
