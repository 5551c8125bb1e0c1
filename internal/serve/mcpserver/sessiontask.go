package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// In revision 2025-11-25, the client decides which calls are tasks: those with the parameter task.
// The call's result comes from tasks/result. That request waits for the result, and asks the client
// meanwhile what the tool's server asks.

const (
	taskRevision = "2025-11-25" // the only one with these tasks

	getResult = "tasks/result"
	listTasks = "tasks/list"

	relatedTask = "io.modelcontextprotocol/related-task"

	taskTTLMost  = 24 * time.Hour
	taskGrace    = time.Minute     // how long a result is kept at least
	taskPatience = 2 * time.Second // how long the creation of a task waits for the id of its execution
	taskPage     = 100
)

// taskKey is the key in _meta that passes the parameter task, which the SDK drops.
const taskKey = "biplane.dev/task"

// moveParam moves a parameter that the SDK drops to _meta, under a key.
func moveParam(params json.RawMessage, value json.RawMessage, key string) json.RawMessage {
	if value == nil {
		return params
	}
	ms, _ := parseParts(params)
	meta := fieldOf(params, ms, "_meta")
	inner, ok := parseParts(meta)
	if !ok {
		meta, inner = json.RawMessage("{}"), nil
	}
	return replaceField(params, ms, "_meta", replaceField(meta, inner, key, value))
}

// moveTaskParams moves the parameters about tasks, which the SDK drops, to _meta.
func moveTaskParams(method string, params json.RawMessage) json.RawMessage {
	ms, ok := parseParts(params)
	switch {
	case !ok:
	case method == "tools/call":
		return moveParam(params, fieldOf(params, ms, "task"), taskKey)
	case method == listenMethod:
		wanted := fieldOf(params, ms, "notifications")
		inner, _ := parseParts(wanted)
		return moveParam(params, fieldOf(wanted, inner, "taskIds"), watchedKey)
	}
	return params
}

// moveInBody is like moveTaskParams, for a whole message.
func moveInBody(body []byte, e envelope) []byte {
	if e.method != "tools/call" && e.method != listenMethod {
		return body
	}
	ms, _ := parseParts(body)
	params := fieldOf(body, ms, "params")
	moved := moveTaskParams(e.method, params)
	if len(moved) == len(params) {
		return body
	}
	return replaceField(body, ms, "params", moved)
}

// declareTasks adds the capability to the result of initialize.
func declareTasks(res mcp.Result) (mcp.Result, error) {
	r, ok := res.(*mcp.InitializeResult)
	if !ok || r.ProtocolVersion != taskRevision {
		return res, nil
	}
	raw, err := tool.Marshal(r)
	if err != nil {
		return nil, err
	}
	ms, _ := parseParts(raw)
	able := fieldOf(raw, ms, "capabilities")
	inner, _ := parseParts(able)
	able = insertField(able, inner, "tasks", []byte(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	return &callResult{raw: replaceField(raw, ms, "capabilities", able)}, nil
}

// offerTask adds to the definition of a tool that its calls may be tasks. Biplane awaits the tasks
// of upstreams itself, so that no tool requires them.
func offerTask(definition json.RawMessage) json.RawMessage {
	ms, _ := parseParts(definition)
	execution := fieldOf(definition, ms, "execution")
	inner, ok := parseParts(execution)
	if !ok {
		execution, inner = json.RawMessage("{}"), nil
	}
	return replaceField(definition, ms, "execution",
		replaceField(execution, inner, "taskSupport", []byte(`"optional"`)))
}

// readTask returns how long the client wants its call to be kept as a task: usual if it doesn't
// say. ok is false if the call isn't a task.
func readTask(req *mcp.CallToolRequest, usual time.Duration) (ttl time.Duration, ok bool, err error) {
	value, ok := req.Params.Meta[taskKey]
	if !ok || req.ProtocolVersion() != taskRevision {
		return 0, false, nil
	}
	invalid := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "task must be an object, and its ttl a number of milliseconds"}
	task, ok := jsonvalue.AsObject(value)
	if !ok {
		return 0, false, invalid
	}
	wanted, ok := task["ttl"]
	if !ok || wanted == nil {
		return usual, true, nil
	}
	ms, ok := wanted.(float64)
	if !ok || !(ms >= 0) {
		return 0, false, invalid
	}
	return time.Duration(min(ms, float64(taskTTLMost.Milliseconds()))) * time.Millisecond, true, nil
}

// createTask makes a call as a task, and answers at once with the task.
func (s taskRequests) createTask(ctx context.Context, req *mcp.CallToolRequest, t *exchange,
	ttl time.Duration) (mcp.Result, error) {
	if err := s.tasks.room.Acquire(t.who.ID, 1); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: tool.AsError(err).Msg + "; nothing was called"}
	}
	t.tasks, t.required, t.identified = true, true, make(chan struct{}, 1)
	if !s.exchanges.runExchange(ctx, t, func(ctx context.Context, a asker) (mcp.Result, error) {
		return s.makeCall(ctx, req, t.who, a)
	}) {
		s.tasks.room.Release(t.who.ID, 1)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: notTaken}
	}
	if s.beginsExecution(ctx, req, t.who) {
		patience := time.NewTimer(taskPatience)
		defer patience.Stop()
		select {
		case <-t.identified:
		case <-t.done:
		case <-patience.C:
		case <-ctx.Done():
			s.tasks.room.Release(t.who.ID, 1)
			t.cancel(context.Canceled)
			return nil, ctx.Err()
		}
	}
	k := s.tasks.addTask(t, &task{ttl: ttl, grace: min(taskGrace, s.cfg.Limits.TaskKept), home: req.Session})
	if k == nil {
		t.cancel(context.Canceled)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: notTaken}
	}
	if isCut(ctx) {
		t.cancel(context.Canceled)
	}
	s.tasks.saveTask(k)
	state := k.describeSessionTask()
	state.Status, state.Reason = "working", ""
	raw, err := tool.Marshal(map[string]sessionTask{"task": state})
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw}, nil
}

// beginsExecution reports whether a request calls execute.
func (s taskRequests) beginsExecution(ctx context.Context, req *mcp.CallToolRequest, p tool.Principal) bool {
	t := s.resolveName(ctx, p, req.Params.Name)
	return t != nil && t.Path() == s.builtin.pathOf("execute")
}

// sessionTask is a task on the wire in revision 2025-11-25.
type sessionTask struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Reason  string `json:"statusMessage,omitempty"`
	Created string `json:"createdAt"`
	Updated string `json:"lastUpdatedAt"`
	TTL     int64  `json:"ttl"`
	Pause   int64  `json:"pollInterval"`
}

// describeSessionTask returns the state of a task for clients of revision 2025-11-25, where a
// result with isError means that the task has failed.
func (k *task) describeSessionTask() sessionTask {
	v := k.describeTask(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.Status == "completed" && k.failure {
		v.Status = "failed"
	}
	return sessionTask{v.ID, v.Status, v.Reason, v.Created, v.Updated, v.TTLMs, v.PauseMs}
}

// handleSessionTask answers a request about a task in revision 2025-11-25.
func (s taskRequests) handleSessionTask(ctx context.Context, method string, r *mcp.ServerRequest[*taskRequest],
	p tool.Principal) (mcp.Result, error) {
	if method == listTasks {
		return s.listTasks(ctx, p, r.Params.Cursor, min(taskPage, s.cfg.Limits.PageSize))
	}
	k, err := s.findTask(ctx, r, p)
	if err != nil {
		return nil, err
	}
	switch method {
	case getResult:
		return s.awaitResult(ctx, r, k)
	case cancelTask:
		if !s.stopTask(ctx, k, true) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: "the task has ended: it can't be canceled"}
		}
	}
	raw, err := tool.Marshal(k.describeSessionTask())
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw}, nil
}

// awaitResult answers tasks/result: it waits for the end of a task. Meanwhile it asks the client
// what the task asks, unless another request does.
func (s taskRequests) awaitResult(ctx context.Context, r *mcp.ServerRequest[*taskRequest],
	k *task) (mcp.Result, error) {
	asks := &sessionAsker{r.Session, encodeCapabilities(r.ClientCapabilities())}
	for {
		k.mu.Lock()
		change, over := k.change, k.hasEnded()
		asked := k.takeQuestions()
		k.mu.Unlock()
		switch {
		case over:
			return k.answerResult(clientOf(ctx))
		case asked != nil:
			answers, err := asks.askClient(ctx, relateQuestions(asked, k.id))
			if k.finishAsking(ctx, answers, err); ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeQuestions returns the open questions of a task unless a client is being asked. k.mu is held.
func (k *task) takeQuestions() map[string]tool.Question {
	if k.asking || len(k.open) == 0 {
		return nil
	}
	k.asking = true
	return maps.Clone(k.open)
}

// finishAsking stores the answers to the questions of a task, or that its client refused to answer.
// If ctx is done, the client has left, and another request may ask.
func (k *task) finishAsking(ctx context.Context, answers map[string]json.RawMessage, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking = false
	switch {
	case err == nil:
		k.storeAnswers(answers)
		return
	case ctx.Err() == nil && !k.hasEnded():
		k.open, k.state, k.updated = nil, "working", time.Now()
		select {
		case k.exchange.refused <- err:
		default:
		}
	}
	k.announce()
}

// relateQuestions returns questions with the id of their task.
func relateQuestions(asked map[string]tool.Question, id string) map[string]tool.Question {
	related := encodeTaskID(id)
	out := make(map[string]tool.Question, len(asked))
	for key, q := range asked {
		if q.Params == nil {
			q.Params = json.RawMessage("{}")
		}
		if ms, ok := parseMembers(q.Params); ok {
			q.Params = addMeta(q.Params, ms, relatedTask, related)
		}
		out[key] = q
	}
	return out
}

// encodeTaskID returns the value in _meta that names a task.
func encodeTaskID(id string) json.RawMessage {
	raw, err := tool.Marshal(map[string]string{"taskId": id})
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	return raw
}

// answerResult returns the result of a task that has ended. The client gets the labels of the
// connection that made the call, before the result.
func (k *task) answerResult(c *client) (mcp.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if from := k.exchange.from; c != nil && from != nil && from != c {
		if err := c.addLabels(from.labels.All()); err != nil {
			return nil, err
		}
	}
	switch {
	case k.err != nil:
		return nil, k.err
	case k.result == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the task was canceled: it has no result"}
	}
	ms, _ := parseParts(k.result)
	return &callResult{raw: addMeta(k.result, ms, relatedTask, encodeTaskID(k.id))}, nil
}
