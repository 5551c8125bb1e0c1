package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A call of a client that supports tasks (2026-07-28, extension io.modelcontextprotocol/tasks)
// becomes a task if it is long, or if the tool's server makes it one. It stays one call, authorized
// and recorded once. The task of an execution has the execution's id. After a restart, it is
// recreated from the result of resume (storedtask.go). For tasks of 2025-11-25 see sessiontask.go.

const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	getTask    = "tasks/get"
	updateTask = "tasks/update"
	cancelTask = "tasks/cancel"

	taskPause   = time.Second     // interval between requests of the client
	taskKept    = time.Hour       // how long a task is kept after its end, by default
	taskRevival = 2 * time.Second // how long tasks/get waits for a task that is made again

	executionMark = "ex_" // begins the id of an execution
)

var (
	taskMethods        = []string{getTask, updateTask, cancelTask}           // of 2026-07-28
	sessionTaskMethods = []string{getTask, getResult, listTasks, cancelTask} // of 2025-11-25
)

// An ExecutionStopper stops executions.
type ExecutionStopper interface {
	// Stop stops an execution of a principal.
	Stop(ctx context.Context, p tool.Principal, id string) error
}

// tasks are the calls that became tasks.
type tasks struct {
	exchanges *exchanges
	store     TaskStore     // of executions; may be nil
	kept      time.Duration // how long a task is kept after its end
	log       *slog.Logger
	life      context.Context // done when the server is closed
	room      *queue.Shares   // for tasks
	bytes     *queue.Shares   // of results

	mu  sync.Mutex
	all map[taskName]*task
}

// A taskName identifies a task. No principal can name a task of another one, or use up its id.
type taskName struct{ owner, profile, id string }

func newTasks(life context.Context, cfg Config, t *exchanges) *tasks {
	return &tasks{exchanges: t, store: cfg.Tasks, kept: cfg.Limits.TaskKept, log: cfg.Log, life: life,
		room:  queue.NewShares("tasks", "kept", int64(cfg.Limits.Tasks)),
		bytes: queue.NewShares("bytes of task results", "kept", cfg.Limits.Memory), all: map[taskName]*task{}}
}

// A task is a call that became a task.
type task struct {
	id       string
	owner    tool.Principal
	exchange *exchange
	ttl      time.Duration      // how long the client wants it to be kept after its creation
	grace    time.Duration      // how long it is kept after its end at least
	home     *mcp.ServerSession // that is notified of its states; nil: none
	again    bool               // an earlier process had it

	mu       sync.Mutex
	change   chan struct{} // closed when the state changes
	asking   bool          // a client is being asked the open questions
	created  time.Time
	updated  time.Time
	state    string
	reason   string
	result   json.RawMessage // of a completed task
	failure  bool            // the result has isError set
	err      *jsonrpc.Error  // of a failed one
	rounds   int
	open     map[string]tool.Question   // without an answer, by the key that the client knows
	keys     map[string]string          // the keys of the tool's server, by those of open
	answers  map[string]json.RawMessage // by the keys of the tool's server
	canceled bool
	ended    chan struct{} // closed after the end
}

// taskState is a task on the wire.
type taskState struct {
	Type     string                   `json:"resultType,omitempty"`
	ID       string                   `json:"taskId"`
	Status   string                   `json:"status"`
	Reason   string                   `json:"statusMessage,omitempty"`
	Created  string                   `json:"createdAt"`
	Updated  string                   `json:"lastUpdatedAt"`
	TTLMs    int64                    `json:"ttlMs"`
	PauseMs  int64                    `json:"pollIntervalMs"`
	Requests map[string]tool.Question `json:"inputRequests,omitempty"`
	Result   json.RawMessage          `json:"result,omitempty"`
	Error    *jsonrpc.Error           `json:"error,omitempty"`
	Meta     mcp.Meta                 `json:"_meta,omitempty"`
}

// declaresTasks reports whether a client supports tasks.
func declaresTasks(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Extensions[tasksExtension] != nil
}

// newTaskID returns the id of the task of t.
func (t *exchange) newTaskID() string {
	if id, _ := t.execution.Load().(string); id != "" {
		return id
	}
	return "task_" + rand.Text()
}

// signalTask makes the call a task, now rather than later.
func (t *exchange) signalTask() {
	select {
	case t.begin <- struct{}{}:
	default: // it was signaled before
	}
}

// becomeTask makes a call a task. It returns nil if the call can't become one: it has asked its
// client in another way, or there are too many tasks. If again is set and the execution has a task
// already, it returns that.
func (a *tasks) becomeTask(t *exchange, again bool) *task {
	if a.room.Acquire(t.who.ID, 1) != nil {
		return nil
	}
	k := &task{grace: a.kept, again: again}
	if again {
		a.restoreTask(t, k)
		return a.addTask(t, k)
	}
	k = a.addTask(t, k)
	a.saveTask(k)
	return k
}

// addTask adds the task k of a call, for which there is room. If it returns nil, the room is free
// again.
func (a *tasks) addTask(t *exchange, k *task) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		a.room.Release(t.who.ID, 1)
		return nil
	}
	now := time.Now().Truncate(time.Microsecond) // as it is stored
	k.id, k.owner, k.exchange, k.updated, k.state = t.newTaskID(), t.who, t, now, "working"
	if k.created.IsZero() {
		k.created = now
	}
	k.ended, k.change = make(chan struct{}), make(chan struct{})
	change := k.change // before the task can change
	a.mu.Lock()
	if other := a.all[k.name()]; other != nil { // of a call that resumes the same execution
		if k.again {
			a.mu.Unlock()
			a.room.Release(t.who.ID, 1)
			return other
		}
		k.id = "task_" + rand.Text()
	}
	a.all[k.name()] = k
	a.mu.Unlock()
	if !a.exchanges.startExchange(func() { a.followTask(k) }) {
		a.forgetTask(k)
		return nil
	}
	if k.home != nil {
		a.watchTask(a.life, k, change, func() {
			sendTask(a.life, k.home, taskStatus, k.describeSessionTask())
		})
	}
	t.task = k
	return k
}

func (k *task) name() taskName { return taskName{k.owner.ID, k.owner.Profile, k.id} }

// lookupTask returns a task of a principal, or nil if there is none.
func (a *tasks) lookupTask(p tool.Principal, id string) *task {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[taskName{p.ID, p.Profile, id}]
}

// hasEnded reports whether the state is final. k.mu is held.
func (k *task) hasEnded() bool { return k.state != "working" && k.state != "input_required" }

// announce tells those who wait for it that the state has changed. k.mu is held.
func (k *task) announce() {
	close(k.change)
	k.change = make(chan struct{})
}

// seal prevents that the call becomes a task. It returns false if it has become one, or will.
func (t *exchange) seal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.required {
		return false
	}
	t.sealed = true
	return t.task == nil
}

// forgetTask deletes a task.
func (a *tasks) forgetTask(k *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all[k.name()] == k {
		delete(a.all, k.name())
		a.room.Release(k.owner.ID, 1)
		a.bytes.Release(k.owner.ID, int64(len(k.result)))
	}
}

// cancelTasks cancels the tasks of a principal.
func (a *tasks) cancelTasks(principal string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.all {
		if k.owner.ID == principal {
			k.exchange.cancel(context.Canceled)
		}
	}
}

// followTask keeps the state of a task until it ends.
func (a *tasks) followTask(k *task) {
	if n := k.exchange.notify.Load(); n != nil && k.home == nil {
		n.close() // its stream ends with the answer that created the task
	}
	defer close(k.ended)
	patience := time.NewTimer(formTime)
	defer patience.Stop()
	for {
		select {
		case asked := <-k.exchange.asked:
			patience.Reset(formTime)
			k.addQuestions(asked)
			continue
		case <-patience.C:
			if k.isAsking() {
				k.exchange.cancel(errUnanswered)
			}
			continue
		case <-k.exchange.done:
		}
		break
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.updated, k.open = time.Now(), nil
	raw, err := k.exchange.readOutcome()
	k.exchange.forgetOutcome()
	switch {
	case k.state == "cancelled": // the client knows
	case k.canceled && (err != nil || isFailure(raw)):
		k.state = "cancelled"
	case err == nil && a.bytes.Acquire(k.owner.ID, int64(len(raw))) == nil:
		k.state, k.result, k.failure = "completed", raw, isFailure(raw)
	case err == nil:
		k.state, k.err = "failed", &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: "the result can't be kept: the results of tasks take too much memory"}
	default:
		k.state, k.err = "failed", err
	}
	if k.err != nil {
		k.reason = k.err.Message
	}
	time.AfterFunc(k.lifetime(k.updated)-k.updated.Sub(k.created), func() { a.forgetTask(k) })
	k.announce()
}

// lifetime returns how long a task that ends at a time is kept after its creation.
func (k *task) lifetime(end time.Time) time.Duration { return max(k.ttl, end.Sub(k.created)+k.grace) }

// isFailure reports whether a result has isError set.
func isFailure(raw json.RawMessage) bool {
	ms, _ := parseParts(raw)
	return string(fieldOf(raw, ms, "isError")) == "true"
}

// readOutcome returns the result of a call that has ended, or its JSON-RPC error.
func (t *exchange) readOutcome() (json.RawMessage, *jsonrpc.Error) {
	r, ok := t.res.(*callResult)
	var wire *jsonrpc.Error
	switch {
	case errors.As(t.err, &wire):
		return nil, wire
	case t.err != nil || !ok:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call failed inside Biplane"}
	}
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the result is invalid"}
	}
	return raw, nil
}

// forgetOutcome frees what a task doesn't need after its end, which it may outlive by hours.
func (t *exchange) forgetOutcome() {
	t.res, t.err = nil, nil
	t.notify.Store(nil)
}

// taskError returns the JSON-RPC error with which a server ended a task, or nil for other calls and
// errors.
func taskError(t *exchange, err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if t == nil || t.seal() || !errors.As(err, &wire) {
		return nil
	}
	return &jsonrpc.Error{Code: wire.Code, Message: tool.AsError(err).Msg}
}

// addQuestions makes a task wait for answers. The keys that the client sees are unique in the task.
func (k *task) addQuestions(asked map[string]tool.Question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hasEnded() { // canceled, and so is the call
		return
	}
	k.rounds++
	k.open, k.keys = map[string]tool.Question{}, map[string]string{}
	k.answers, k.updated, k.state = map[string]json.RawMessage{}, time.Now(), "input_required"
	for key, q := range asked {
		name := strconv.Itoa(k.rounds) + "." + key
		k.open[name], k.keys[name] = q, key
	}
	k.announce()
}

func (k *task) isAsking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open) > 0
}

// addAnswers stores the answers to open questions. When there are none left, the call continues.
func (k *task) addAnswers(answers map[string]json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.storeAnswers(answers)
}

// storeAnswers is addAnswers. k.mu is held.
func (k *task) storeAnswers(answers map[string]json.RawMessage) {
	if len(k.open) == 0 {
		return
	}
	for name, a := range answers {
		if q, ok := k.open[name]; ok && len(a) <= q.MaxBytes() && len(a) > 0 && a[0] == '{' {
			k.answers[k.keys[name]] = a
			delete(k.open, name)
		}
	}
	k.updated = time.Now()
	if len(k.open) > 0 {
		return
	}
	k.state = "working"
	select {
	case k.exchange.answers <- k.answers: // there is room: one set of answers for each set of questions
	default:
	}
	k.announce()
}

// describeTask returns the state of a task. created means that it is the answer that creates the
// task.
func (k *task) describeTask(created bool) taskState {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := taskState{Type: "complete", ID: k.id, Status: k.state, Reason: k.reason,
		Created: formatTaskTime(k.created), Updated: formatTaskTime(k.updated), PauseMs: taskPause.Milliseconds(),
		Requests: maps.Clone(k.open), Result: k.result, Error: k.err}
	end := k.updated
	if !k.hasEnded() {
		end = time.Now()
	}
	v.TTLMs = k.lifetime(end).Milliseconds()
	if created {
		v.Type, v.Requests, v.Result, v.Error = "task", nil, nil, nil
	}
	return v
}

// formatTaskTime returns a time as tasks have it.
func formatTaskTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// answerTask returns the state of a task as a result.
func answerTask(v taskState) (mcp.Result, error) {
	raw, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw, modern: true}, nil
}

// A taskRequest is a request about a task.
type taskRequest struct {
	mcp.ParamsBase
	ID      string                     `json:"taskId"`
	Cursor  string                     `json:"cursor"`
	Answers map[string]json.RawMessage `json:"inputResponses"`
}

// taskRequests answers requests about tasks.
type taskRequests struct{ *Server }

// handleTask answers a request about a task.
func (s taskRequests) handleTask(ctx context.Context, method string,
	r *mcp.ServerRequest[*taskRequest]) (mcp.Result, error) {
	p := s.principalOf(ctx, r.ClientInfo())
	switch version := r.ProtocolVersion(); {
	case version == taskRevision && slices.Contains(sessionTaskMethods, method):
		return s.handleSessionTask(ctx, method, r, p)
	case !isModern(version) || !slices.Contains(taskMethods, method):
		return nil, methodNotFound(method)
	case !declaresTasks(r.ClientCapabilities()):
		return nil, errNoTasks
	}
	k, err := s.findTask(ctx, r, p)
	if err != nil {
		return nil, err
	}
	switch method {
	case getTask:
		return answerTask(k.describeTask(false))
	case updateTask:
		k.addAnswers(r.Params.Answers)
	case cancelTask:
		s.stopTask(ctx, k, false)
	}
	return &callResult{raw: json.RawMessage(`{"resultType":"complete"}`), modern: true}, nil
}

// findTask returns the task that a principal asks for.
func (s taskRequests) findTask(ctx context.Context, r *mcp.ServerRequest[*taskRequest],
	p tool.Principal) (*task, error) {
	k := s.tasks.lookupTask(p, r.Params.ID)
	if k == nil {
		k = s.reviveTask(ctx, r, p)
	}
	if k == nil {
		return nil, errNoTask
	}
	return k, nil
}

var (
	errNoTask = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "there is no such task: it may have expired"}
	errNoTasks = &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities,
		Message: "the client must declare the extension " + tasksExtension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
)

// stopTask cancels a task, and returns false if it has ended. If final is set, it is canceled
// whatever its call still returns.
func (s taskRequests) stopTask(ctx context.Context, k *task, final bool) bool {
	k.mu.Lock()
	if k.hasEnded() {
		k.mu.Unlock()
		return false
	}
	if k.canceled = true; final {
		k.state, k.updated, k.open = "cancelled", time.Now(), nil
		k.announce()
	}
	k.mu.Unlock()
	if id, _ := k.exchange.execution.Load().(string); id != "" && s.cfg.Executions != nil {
		// It fails if the execution has just ended.
		_ = s.cfg.Executions.Stop(ctx, k.owner, id)
	}
	k.exchange.cancel(&tool.Error{Kind: tool.Canceled, Msg: "the client canceled the task"})
	return true
}

// completeCall makes a call, and asks its client to decide what waits for people. If the call is a
// task, it asks through the task, and continues until the execution has ended.
func (s *Server) completeCall(ctx context.Context, req *mcp.CallToolRequest, c *tool.Call, notify *notifier,
	t *exchange) (*tool.Result, *form.Form, error) {
	for {
		res, f, err := s.inPlace(ctx, req, c, notify, t != nil)
		if err != nil || t == nil || !t.tasks {
			return res, f, err
		}
		next := *req
		params := *req.Params
		next.Params = &params
		params.RequestState, params.InputResponses = "", nil
		if f != nil {
			if t.seal() {
				return nil, f, nil
			}
			if params.InputResponses, err = askForm(ctx, t, f); err != nil {
				return nil, nil, err
			}
			params.RequestState = f.State
			req = &next
			continue
		}
		id := s.builtin.executionIn(c, res, waiting, running, queued)
		if id == "" {
			return res, nil, nil
		}
		t.execution.Store(id)
		t.signalTask()
		select {
		case <-time.After(taskPause):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		req, c = &next, s.builtin.newResume(c, id)
	}
}

// askForm shows a form to the client of a task.
func askForm(ctx context.Context, t *exchange, f *form.Form) (mcp.InputResponseMap, error) {
	params, err := tool.Marshal(formParams{"form", f.Message, f.Schema})
	if err != nil {
		return nil, err
	}
	answers, err := t.askClient(ctx, map[string]tool.Question{formKey: {Method: "elicitation/create", Params: params}})
	if err != nil {
		return nil, err
	}
	var r mcp.ElicitResult
	if err := json.Unmarshal(answers[formKey], &r); err != nil {
		return nil, tool.Errorf(tool.Invalid, "the answer to the form is invalid: %w", err)
	}
	return mcp.InputResponseMap{formKey: &r}, nil
}
