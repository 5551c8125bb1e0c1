package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/tool"
)

// quickWait is the longest time that a call waits for the next connection attempt to a server that
// is down.
const quickWait = 2 * time.Second

// patientAttempts is the number of failed attempts after which calls no longer wait for another.
const patientAttempts = 3

// maxRepeats limits how often a call is sent again in a new session, because the server never
// received it. A new session may end at once, too.
const maxRepeats = 3

// maxRounds limits how often a server may ask to repeat a call with the state that it sent
// (2026-07-28).
const maxRounds = 3

// Call calls a tool and returns the result as received. See upstream.Upstream for what it waits for
// and when it repeats a call.
func (u *Upstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == nil {
		return nil, tool.Errorf(tool.Internal, "upstream %q: the call names no tool", u.cfg.Name)
	}
	args := trimSpace(c.Arguments)
	if len(args) == 0 || string(args) == "null" {
		args = []byte(`{}`)
	}
	if !isObject(args) {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: the arguments must be a JSON object", c.Tool.Path()))
	}
	if err := checkJSON(args, maxDepth); err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: the arguments: %w", c.Tool.Path(), err))
	}
	for try := 0; ; try++ {
		s, err := u.awaitReady(ctx, c.Principal.ID)
		if err != nil {
			return nil, tool.NotSent(err) // and what was sent before had no effect
		}
		if res, ok, err := u.answerFromLists(c.Tool.Method); ok {
			return res, err
		}
		if c.Tool.Method == tool.Subscribe {
			return u.subscribeResource(ctx, s, c, args)
		}
		answer, err := u.sendCall(ctx, s, c, args)
		if isFault(err, faultSession) {
			s.endSession(err)
			if try < maxRepeats { // it had no effect: the server no longer knows the session
				continue
			}
		}
		if isFault(err, faultUnsent) && try < maxRepeats && s.hasEnded(ctx, err) {
			continue // the server never received the call
		}
		u.reportCall(s, c.Principal.ID, err)
		if e, ok := wireError(err); ok && e.Code == codeHeaderMismatch && try == 0 && u.refreshTools(ctx, s) != nil {
			continue // it had no effect: the tool's schema has changed
		}
		if err != nil {
			e := u.explainError(c.Tool, err)
			e.Msg = u.redactText(e.Msg)
			return nil, e
		}
		res, err := readAnswer(c.Tool, answer)
		if err != nil {
			e := tool.Errorf(tool.Unavailable, "%s answered with an invalid tool result: %w", c.Tool.Path(), err)
			e.Answered = true
			return nil, e
		}
		return res, nil
	}
}

// readAnswer returns the result of a call. The answer to another method than tools/call is the
// structured result, so that everything that judges results sees it.
func readAnswer(t *tool.Tool, answer json.RawMessage) (*tool.Result, error) {
	switch {
	case !isObject(answer):
		return nil, errors.New("not an object")
	case t.Method != "":
		return tool.StructuredResult(answer)
	}
	return tool.ParseResult(answer)
}

// newQuery returns the request of a call.
func newQuery(c *tool.Call, args []byte) (query, error) {
	var a struct {
		URI       string            `json:"uri"`
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
		Ref       json.RawMessage   `json:"ref"`
		Argument  json.RawMessage   `json:"argument"`
		Context   json.RawMessage   `json:"context"`
	}
	if c.Tool.Method != "" {
		if err := json.Unmarshal(args, &a); err != nil {
			return query{}, tool.NotSent(tool.Errorf(tool.Invalid, "%s: the arguments: %w", c.Tool.Path(), err))
		}
	}
	switch c.Tool.Method {
	case "":
		fields := append(append([]byte(`"name":`), quoteString(c.Tool.Name)...), `,"arguments":`...)
		return query{method: "tools/call", name: c.Tool.Name, fields: append(fields, args...)}, nil
	case tool.ReadResource:
		fields := append([]byte(`"uri":`), quoteString(a.URI)...)
		return query{method: tool.ReadResource, name: a.URI, fields: fields}, nil
	case tool.GetPrompt:
		fields := append([]byte(`"name":`), quoteString(a.Name)...)
		if a.Arguments != nil {
			given, err := tool.Marshal(a.Arguments)
			if err != nil {
				return query{}, err
			}
			fields = append(append(fields, `,"arguments":`...), given...)
		}
		return query{method: tool.GetPrompt, name: a.Name, fields: fields}, nil
	case tool.Complete:
		if !isObject(a.Ref) || !isObject(a.Argument) {
			return query{}, tool.NotSent(tool.Errorf(tool.Invalid, "%s: ref and argument are required", c.Tool.Path()))
		}
		fields := append(append([]byte(`"ref":`), a.Ref...), `,"argument":`...)
		fields = append(fields, a.Argument...)
		if isObject(a.Context) {
			fields = append(append(fields, `,"context":`...), a.Context...)
		}
		return query{method: tool.Complete, fields: fields}, nil
	}
	return query{}, tool.NotSent(tool.Errorf(tool.Internal, "%s: unknown method %q", c.Tool.Path(), c.Tool.Method))
}

// errStopped is the error of a transport that sends no more: its session ends.
var errStopped = faultf(faultUnsent, "closed")

// hasEnded reports whether a session on which a message could not be sent has ended. The end of a
// process, or of a transport, is noticed in two places, one of which may be slightly later.
func (s *session) hasEnded(ctx context.Context, err error) bool {
	if s.profile.kind == kindStdio || errors.Is(err, errStopped) {
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
		case <-time.After(quickWait):
		}
	}
	return s.ctx.Err() != nil
}

// awaitReady returns the connection for a call of a principal. It waits for one that is being
// established.
func (u *Upstream) awaitReady(ctx context.Context, principal string) (*session, error) {
	limit := time.NewTimer(u.cfg.ConnectTimeout)
	defer limit.Stop()
	for {
		u.mu.Lock()
		s, wake, h := u.current, u.wake, u.snap.Health
		left := time.Until(u.next)
		u.requestServer()
		hopeless := u.closed || h.State == tool.NeedsSignIn ||
			h.State == tool.Down && (u.attempts >= patientAttempts || left > quickWait)
		var refused error
		if s != nil && s.ctx.Err() == nil {
			if ok, wait := u.breaker.allowCall(time.Now(), principal); !ok {
				refused = tool.Errorf(tool.Unavailable, "this call was not sent: calls to upstream %q are paused, "+
					"because several failed in a row (%s); try again in %s",
					u.cfg.Name, u.breaker.last, wait.Round(time.Second))
			}
		}
		u.mu.Unlock()
		switch {
		case refused != nil:
			return nil, refused
		case s != nil && s.ctx.Err() == nil:
			return s, nil
		case hopeless:
			return nil, u.unavailableError(h, left)
		}
		select {
		case <-wake:
		case <-limit.C:
			return nil, u.unavailableError(h, left)
		case <-ctx.Done():
			return nil, endedError(ctx, u.cfg.Name)
		}
	}
}

// unavailableError returns an error that says why there is no connection, and what to do.
func (u *Upstream) unavailableError(h tool.Health, next time.Duration) error {
	switch {
	case h.State == tool.NeedsSignIn:
		return tool.Errorf(tool.Unavailable, "upstream %q needs sign-in: %s", u.cfg.Name, h.Reason)
	case h.State == tool.Connecting:
		return tool.Errorf(tool.Unavailable, "upstream %q is still connecting: try again later", u.cfg.Name)
	case next > time.Second:
		return tool.Errorf(tool.Unavailable,
			"upstream %q is down: %s; the next attempt is in %s", u.cfg.Name, h.Reason, next.Round(time.Second))
	}
	return tool.Errorf(tool.Unavailable, "upstream %q is down: %s; try again later", u.cfg.Name, h.Reason)
}

// signInAdvice tells a person what to do about missing credentials.
func (u *Upstream) signInAdvice() string {
	if u.cfg.Advice != "" {
		return u.cfg.Advice
	}
	if u.header.Get("Authorization") != "" {
		return "its configured Authorization header was rejected: change it"
	}
	return "run biplane connect " + u.cfg.Name
}

// endedError returns the error of a call whose ctx is done.
func endedError(ctx context.Context, name string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &tool.Error{Kind: tool.Timeout, Msg: fmt.Sprintf("upstream %q did not answer before the deadline", name),
			Err: context.Cause(ctx)}
	}
	return &tool.Error{Kind: tool.Canceled, Msg: "canceled", Err: context.Cause(ctx)}
}

// addCapabilities adds to the query of a call what its client can be asked, and whether it is a
// task.
func (s *session) addCapabilities(q *query, t *tool.Tool) {
	able, tasks := q.observer.ListCapabilities(), s.hasTasks(*q)
	if s.modern.Load() {
		q.meta = declareCapabilities(s.meta, able, tasks)
		return
	}
	q.meta = s.narrowCapabilities(able)
	if tasks && requiresTask(t.Raw) {
		q.fields = append(q.fields, `,"task":{}`...)
	}
}

// sendCall makes the call. It repeats the call, with the state that the server returned and the
// answers to its questions, for as many rounds as the server asks.
func (u *Upstream) sendCall(ctx context.Context, s *session, c *tool.Call, args []byte) (json.RawMessage, error) {
	q, err := newQuery(c, args)
	if err != nil {
		return nil, err
	}
	q.idle, q.observer, q.owner = u.cfg.Timeout, c.Observe(), c.Principal.ID
	if d, ok := u.cfg.timeoutOf(c.Tool); ok {
		q.idle = d
	}
	q.ceiling = max(u.cfg.MaxTime, q.idle)
	if q.wantsLogs() {
		s.askForLogs(ctx)
	}
	if c.Tool.Method == "" {
		q.params = boundHeaders(s.boundArguments(c.Tool.Name), args)
	}
	s.addCapabilities(&q, c.Tool)
	q.meta = appendTrace(ctx, q.meta)
	base := q.fields
	for repeats, rounds := 1, 0; ; {
		answer, err := s.sendRequest(ctx, q)
		if err == nil && s.hasTasks(q) {
			t, err := readTask(answer, s.modern.Load())
			if err != nil {
				return nil, err
			}
			if t != nil {
				return taskWait{s, q}.awaitTask(ctx, t)
			}
		}
		if err != nil {
			return nil, err
		}
		need, err := readNeed(answer, s.modern.Load())
		if err != nil || need == nil {
			return answer, err
		}
		q.fields = append([]byte(nil), base...)
		if len(need.Requests) > 0 {
			if rounds++; rounds > tool.MaxRounds {
				return nil, faultf(faultGarbled, "asked more than %d times in one call", tool.MaxRounds)
			}
			answers, err := s.askClient(ctx, q.observer, need.Requests)
			if err != nil {
				return nil, err
			}
			q.fields = append(append(q.fields, `,"inputResponses":`...), answers...)
		} else {
			if repeats++; repeats > maxRounds {
				return nil, faultf(faultGarbled, "asked to be called again too often")
			}
			if !sleep(ctx, retryDelay(repeats-1)) {
				return nil, ctx.Err()
			}
		}
		if len(need.State) > 0 {
			q.fields = append(append(q.fields, `,"requestState":`...), need.State...)
		}
	}
}

// reportCall reports the result of a principal's call to the breaker. If it casts doubt on the
// connection, the connection is checked.
func (u *Upstream) reportCall(s *session, principal string, err error) {
	f, isFault := faultOf(err)
	doubt := false
	u.mu.Lock()
	before := u.snap.Health
	switch {
	case err == nil, !isFault && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		u.breaker.recordSuccess() // the server answered, if only with an error
	case !isFault:
		u.breaker.recordNoVerdict()
	case f.kind == faultLost, f.kind == faultUnsent, f.kind == faultStatus && (f.status >= 500 || f.status == 429):
		u.breaker.recordFailure(time.Now(), principal, cleanLine(u.redactText(f.msg), 200), u.cfg.pace.breaks)
		doubt = true
	case f.kind == faultTimeout:
		u.breaker.recordNoVerdict()
		doubt = time.Since(time.Unix(0, s.lastReceived.Load())) >= u.cfg.Timeout // no message in all that time
	default:
		u.breaker.recordNoVerdict()
	}
	after := before
	if u.current == s {
		after = u.currentHealth()
		if before.Stale { // of the list, which calls say nothing about
			after = before
		}
	}
	u.mu.Unlock()
	if after != before {
		u.updateState(func() {
			if u.current == s {
				u.snap.Health = u.currentHealth()
			}
		})
	}
	if doubt {
		select {
		case u.probes <- s:
		default:
		}
	}
}

// explainError returns an error for the caller: which tool, what happened, whether it may have
// taken effect.
func (u *Upstream) explainError(t *tool.Tool, err error) *tool.Error {
	path := t.Path()
	if e, ok := wireError(err); ok && !isFault(err, faultSignIn, faultScope, faultSession) {
		return answeredError(path, e)
	}
	var in inputRequired
	if errors.As(err, &in) {
		return tool.Errorf(tool.Conflict, "%s asks for input (%s), and the client of this call can't be asked: "+
			"pass it as an argument if the tool accepts one, or use another tool", path, in.what)
	}
	f, ok := faultOf(err)
	if !ok {
		e := tool.AsError(err)
		if e.Kind == tool.Timeout {
			return &tool.Error{Kind: tool.Timeout,
				Msg: path + " did not answer before the deadline; whether it took effect is unknown", Err: err}
		}
		return e
	}
	switch f.kind {
	case faultTimeout:
		return &tool.Error{Kind: tool.Timeout, Err: err,
			Msg: fmt.Sprintf("%s: %s; whether it took effect is unknown", path, f.msg)}
	case faultSize:
		return &tool.Error{Kind: tool.Limit, Err: err, Msg: fmt.Sprintf("%s %s: ask for less", path, f.msg)}
	case faultScope:
		return &tool.Error{Kind: tool.Denied, Err: err, Unsent: true,
			Msg: fmt.Sprintf("%s requires more rights than the sign-in granted: upstream %q %s; %s", path, u.cfg.Name,
				f.msg, u.signInAdvice())}
	case faultSignIn:
		return &tool.Error{Kind: tool.Unavailable, Err: err, Unsent: true,
			Msg: fmt.Sprintf("upstream %q needs sign-in: it %s; %s", u.cfg.Name, f.msg, u.signInAdvice())}
	case faultUnsent, faultSession:
		return &tool.Error{Kind: tool.Unavailable, Err: err, Unsent: true,
			Msg: fmt.Sprintf("upstream %q: %s; %s was not called", u.cfg.Name, f.msg, path)}
	}
	return &tool.Error{Kind: tool.Unavailable, Err: err, Answered: f.kind == faultStatus && isAnswer(f.status),
		Msg: fmt.Sprintf("upstream %q: %s; whether %s took effect is unknown", u.cfg.Name, f.msg, path)}
}

// isAnswer reports whether an HTTP status comes from a working server: it is about the request, or
// about a bug that the request triggered.
func isAnswer(status int) bool {
	return status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout ||
		status == http.StatusInternalServerError
}

// answeredError returns the error of a call to which the server responded with an error.
func answeredError(path string, e *jsonrpc.Error) *tool.Error {
	msg := cleanLine(e.Message, 2000)
	lower := strings.ToLower(msg)
	kind := tool.Unavailable
	switch {
	case e.Code == jsonrpc.CodeMethodNotFound,
		e.Code == jsonrpc.CodeInvalidParams &&
			(strings.Contains(lower, "unknown tool") || strings.Contains(lower, "not found")):
		kind = tool.NotFound
	case e.Code == jsonrpc.CodeInvalidParams, e.Code == jsonrpc.CodeInvalidRequest:
		kind = tool.Invalid
	}
	return &tool.Error{Kind: kind, Err: e, Answered: true,
		Msg: fmt.Sprintf("%s failed: %s (JSON-RPC error %d)", path, msg, e.Code)}
}
