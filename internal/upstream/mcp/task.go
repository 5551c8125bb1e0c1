package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A server may answer a call with a task, whose result comes later. Such a call ends with its task.
// In 2026-07-28 tasks are an extension, and the server decides which calls are tasks. In 2025-11-25
// the client decides: Biplane asks for a task where a tool requires it.

const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	pollUsual = time.Second
	pollLeast = 100 * time.Millisecond
	pollMost  = 30 * time.Second

	maxTaskID = 1 << 10
	maxStatus = 500 // bytes of a task's message that are passed on
)

// The states of a task.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// A task is a task as the server describes it, in either revision.
type task struct {
	ID       string                   `json:"taskId"`
	Status   string                   `json:"status"`
	Message  string                   `json:"statusMessage"`
	Interval float64                  `json:"pollInterval"`   // 2025-11-25, milliseconds
	Pause    float64                  `json:"pollIntervalMs"` // 2026-07-28
	Requests map[string]tool.Question `json:"inputRequests"`
	Result   json.RawMessage          `json:"result"`
	Error    json.RawMessage          `json:"error"`
}

// hasTasks reports whether the calls of q can be tasks: the server supports them, and the caller
// can wait.
func (f features) hasTasks(q query) bool {
	return f.tasks && q.method == "tools/call" && q.observer.AwaitsTasks()
}

// requiresTask reports whether a definition says that calls of the tool must be tasks.
func requiresTask(definition json.RawMessage) bool {
	var v struct {
		Execution struct {
			Support string `json:"taskSupport"`
		} `json:"execution"`
	}
	return bytes.Contains(definition, []byte(`"taskSupport"`)) && json.Unmarshal(definition, &v) == nil &&
		v.Execution.Support == "required"
}

// readTask returns the task that answers a call, or nil if answer is a result. modern says which
// revision the server speaks.
func readTask(answer json.RawMessage, modern bool) (*task, error) {
	var created struct {
		task
		Type string `json:"resultType"`
		Task *task  `json:"task"`
	}
	if !bytes.Contains(answer, []byte(`"taskId"`)) || json.Unmarshal(answer, &created) != nil {
		return nil, nil
	}
	t := created.Task
	if modern {
		if t = &created.task; created.Type != "task" {
			return nil, nil
		}
	}
	if t != nil && (t.ID == "" || len(t.ID) > maxTaskID) {
		return nil, faultf(faultGarbled, "answered with a task without a valid id")
	}
	return t, nil
}

// choosePause returns the time to wait before the next request about the task.
func (t *task) choosePause() time.Duration {
	ms := t.Interval + t.Pause // the server sends one of them
	if !(ms > 0) {
		return pollUsual
	}
	return time.Duration(min(max(ms, float64(pollLeast.Milliseconds())), float64(pollMost.Milliseconds()))) *
		time.Millisecond
}

// A taskWait waits for the task that answered a call.
type taskWait struct {
	*session
	call query
}

// awaitTask waits for the result of t. If the wait ends early, it cancels the task.
func (w taskWait) awaitTask(ctx context.Context, t *task) (json.RawMessage, error) {
	ceiling := w.call.ceiling
	if ceiling <= 0 {
		ceiling = defaultMaxTime
	}
	bounded, cancel := context.WithTimeout(ctx, ceiling)
	defer cancel()
	answer, err := w.pollTask(bounded, t)
	if _, answered := wireError(err); err != nil && !answered {
		w.sendLater(w.newMessage(w.lastID.Add(1), w.newTaskQuery("tasks/cancel", t.ID)))
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, faultf(faultTimeout, "its task did not end within %s", ceiling)
	}
	return answer, err
}

// newTaskQuery returns a request about the task.
func (w taskWait) newTaskQuery(method, id string) query {
	return query{method: method, name: id, idle: w.call.idle, meta: w.call.meta, owner: w.call.owner,
		fields: append([]byte(`"taskId":`), quoteString(id)...)}
}

// pollTask requests the state of a task until it has ended.
func (w taskWait) pollTask(ctx context.Context, t *task) (json.RawMessage, error) {
	w.call.observer.OnTask()
	began, rounds, answered := time.Now(), 0, map[string]bool{}
	for created := true; ; created = false {
		switch t.Status {
		case taskWorking:
		case taskInput, taskCompleted, taskFailed:
			if created { // only tasks/get returns the questions and the result
				break
			}
			if t.Status != taskInput {
				return w.endTask(ctx, t)
			}
			if !w.modern.Load() { // the server asks while it is asked for the result
				return w.sendRequest(ctx, w.resultQuery(t.ID))
			}
			open := map[string]tool.Question{}
			for key, request := range t.Requests {
				if !answered[key] {
					open[key] = request
				}
			}
			if len(open) == 0 {
				break // it has not read the last answers yet
			}
			if rounds++; rounds > tool.MaxRounds {
				return nil, faultf(faultGarbled, "asked more than %d times in one call", tool.MaxRounds)
			}
			answers, err := w.askClient(ctx, w.call.observer, open)
			if err != nil {
				return nil, err
			}
			update := w.newTaskQuery("tasks/update", t.ID)
			update.fields = append(append(update.fields, `,"inputResponses":`...), answers...)
			if _, err := w.sendRequest(ctx, update); err != nil {
				return nil, err
			}
			for key := range open {
				answered[key] = true
			}
		case taskCancelled:
			return nil, &tool.Error{Kind: tool.Canceled, Answered: true,
				Msg: "the server canceled the task" + t.formatReason()}
		default:
			return nil, faultf(faultGarbled, "sent a task of unknown status %q", cleanLine(t.Status, 60))
		}
		if t.Message != "" && w.call.observer.WantsProgress() {
			w.call.observer.OnProgress(ctx, tool.Progress{Done: time.Since(began).Seconds(),
				Message: cleanLine(t.Message, maxStatus)})
		}
		if !sleep(ctx, t.choosePause()) {
			return nil, ctx.Err()
		}
		raw, err := w.sendRequest(ctx, w.newTaskQuery("tasks/get", t.ID))
		if err != nil {
			return nil, err
		}
		var next task
		if err := json.Unmarshal(raw, &next); err != nil {
			return nil, faultf(faultGarbled, "answered tasks/get with an invalid task: %w", err)
		}
		if next.ID != t.ID {
			return nil, faultf(faultGarbled, "answered tasks/get with another task")
		}
		t = &next
	}
}

// endTask returns the result of a task that has ended, or its error.
func (w taskWait) endTask(ctx context.Context, t *task) (json.RawMessage, error) {
	switch {
	case !w.modern.Load():
		return w.sendRequest(ctx, w.resultQuery(t.ID))
	case t.Status == taskFailed && len(t.Error) > 0:
		return nil, readError(t.Error)
	case t.Status == taskFailed:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the task failed" + t.formatReason()}
	case !isObject(t.Result):
		return nil, faultf(faultGarbled, "completed a task without a result")
	}
	return t.Result, nil
}

// resultQuery returns the request for the result of a task (2025-11-25), in which the server may
// ask. It may take as long as the task.
func (w taskWait) resultQuery(id string) query {
	r := w.newTaskQuery(taskResult, id)
	r.observer, r.idle, r.ceiling = w.call.observer, 0, w.call.ceiling
	return r
}

const taskResult = "tasks/result"

// formatReason returns the server's message about a task, to be appended to an error.
func (t *task) formatReason() string {
	if text := cleanLine(strings.TrimSpace(t.Message), maxStatus); text != "" {
		return ": " + text
	}
	return ""
}
