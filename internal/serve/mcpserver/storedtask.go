package mcpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A TaskStore stores which executions are tasks, so that they are still listed after a restart.
type TaskStore interface {
	// SaveTask adds or replaces a task.
	SaveTask(ctx context.Context, t *journal.Task) error
	// LoadTask returns a task of a principal and profile that has not expired, or nil.
	LoadTask(ctx context.Context, principal, profile, id string) (*journal.Task, error)
	// ListTasks returns the tasks that match q and have not expired, oldest first.
	ListTasks(ctx context.Context, q journal.TaskQuery) ([]journal.Task, error)
}

// saveTask stores a task of an execution; k may be nil. Other tasks end with the process.
func (a *tasks) saveTask(k *task) {
	if k == nil || a.store == nil || !strings.HasPrefix(k.id, executionMark) {
		return
	}
	err := a.store.SaveTask(a.life, &journal.Task{ID: k.id, Principal: k.owner.ID, Profile: k.owner.Profile,
		Created: k.created, TTL: k.ttl, Grace: k.grace})
	if err != nil {
		a.log.Warn("a task is not listed after a restart", "task", k.id, "error", err)
	}
}

// restoreTask sets when the task of an execution was created by an earlier process, and how long it
// is kept. It changes nothing if the execution was no task.
func (a *tasks) restoreTask(t *exchange, k *task) {
	if a.store == nil {
		return
	}
	// If it can't be read, the task begins now.
	old, err := a.store.LoadTask(a.life, t.who.ID, t.who.Profile, t.newTaskID())
	if err == nil && old != nil {
		k.created, k.ttl, k.grace = old.Created, old.TTL, old.Grace
	}
}

// reviveTask recreates the task of an execution that an earlier process had. The gateway decides
// whether the principal may resume the execution.
func (s taskRequests) reviveTask(ctx context.Context, r *mcp.ServerRequest[*taskRequest], p tool.Principal) *task {
	id := r.Params.ID
	if !strings.HasPrefix(id, executionMark) || s.builtin.pathOf("resume") == "" {
		return nil
	}
	args, err := tool.Marshal(map[string]string{"execution": id})
	if err != nil {
		return nil
	}
	t := &exchange{principal: p.ID, who: p, capabilities: encodeCapabilities(r.ClientCapabilities()),
		taskConversion: taskConversion{tasks: true, required: true}}
	t.execution.Store(id)
	req := &mcp.CallToolRequest{Session: r.Session, Extra: r.Extra,
		Params: &mcp.CallToolParamsRaw{Meta: r.Params.Meta, Name: "resume", Arguments: args}}
	if !s.exchanges.runExchange(ctx, t, func(ctx context.Context, a asker) (mcp.Result, error) {
		return s.makeCall(ctx, req, p, a)
	}) {
		return nil
	}
	wait := time.NewTimer(taskRevival)
	defer wait.Stop()
	select {
	case <-t.done:
		if raw, err := t.readOutcome(); err != nil || isFailure(raw) && isUnknown(raw) {
			return nil
		}
	case <-wait.C:
	case <-ctx.Done():
	}
	k := s.tasks.becomeTask(t, true)
	if k == nil || k.exchange != t {
		t.cancel(context.Canceled)
		return k
	}
	if isEnded(t) { // the client sees the result at once
		<-k.ended
	}
	return k
}

func isEnded(t *exchange) bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// isUnknown reports whether a result says that there is no such execution.
func isUnknown(raw json.RawMessage) bool {
	var v struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var e errorMeta
	return json.Unmarshal(raw, &v) == nil && json.Unmarshal(v.Meta[MetaError], &e) == nil && e.Kind != ""
}

// A listedTask is a task in a list, with its position.
type listedTask struct {
	sessionTask
	at string
}

// taskPosition returns the position of a task in a list: texts are ordered like times.
func taskPosition(created time.Time, id string) string {
	return fmt.Sprintf("%020d %s", created.UnixMicro(), id)
}

// parseCursor returns the position that a cursor contains. The next page begins after it. A cursor
// stays valid when the task at its position is gone. An empty cursor is the start.
func parseCursor(cursor string) (after string, created time.Time, id string, err error) {
	if cursor == "" {
		return "", time.Time{}, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	digits, id, ok := strings.Cut(string(raw), " ")
	micros, bad := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok || bad != nil {
		return "", time.Time{}, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: "unknown cursor: list the tasks from the start"}
	}
	created = time.UnixMicro(micros)
	return taskPosition(created, id), created, id, nil
}

// listTasks returns a page of a principal's tasks, oldest first: those of this process, and those
// of earlier ones that no client has asked for since.
func (s taskRequests) listTasks(ctx context.Context, p tool.Principal, cursor string, size int) (mcp.Result, error) {
	after, created, id, err := parseCursor(cursor)
	if err != nil {
		return nil, err
	}
	list := s.tasks.listOwn(p, after)
	if s.cfg.Tasks != nil {
		stored, err := s.cfg.Tasks.ListTasks(ctx, journal.TaskQuery{Principal: p.ID, Profile: p.Profile,
			After: created, AfterID: id, Limit: size + 1})
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: tool.AsError(err).Msg}
		}
		for _, t := range stored {
			if !slices.ContainsFunc(list, func(own listedTask) bool { return own.ID == t.ID }) {
				list = append(list, listedTask{describeOldTask(t), taskPosition(t.Created, t.ID)})
			}
		}
	}
	slices.SortFunc(list, func(x, y listedTask) int { return cmp.Compare(x.at, y.at) })
	page := struct {
		Tasks  []sessionTask `json:"tasks"`
		Cursor string        `json:"nextCursor,omitempty"`
	}{Tasks: []sessionTask{}}
	if len(list) > size {
		list = list[:size]
		page.Cursor = base64.RawURLEncoding.EncodeToString([]byte(list[size-1].at))
	}
	for _, t := range list {
		page.Tasks = append(page.Tasks, t.sessionTask)
	}
	raw, err := tool.Marshal(page)
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw}, nil
}

// listOwn returns the tasks of this process that a principal has after a position.
func (a *tasks) listOwn(p tool.Principal, after string) (list []listedTask) {
	a.mu.Lock()
	own := slices.Collect(maps.Values(a.all))
	a.mu.Unlock()
	for _, k := range own {
		at := taskPosition(k.created, k.id)
		if k.owner.ID == p.ID && k.owner.Profile == p.Profile && at > after {
			list = append(list, listedTask{k.describeSessionTask(), at})
		}
	}
	return list
}

// describeOldTask returns the state of a task of an earlier process. Whether it waits for its
// client is known once the client asks for it.
func describeOldTask(t journal.Task) sessionTask {
	status, updated, end := "working", t.Created, t.Ended
	switch {
	case !t.State.Ended():
		end = time.Now()
	case t.State == journal.Done:
		status, updated = "completed", end
	default:
		status, updated = "failed", end
	}
	k := task{created: t.Created, ttl: t.TTL, grace: t.Grace}
	return sessionTask{ID: t.ID, Status: status, Created: formatTaskTime(t.Created), Updated: formatTaskTime(updated),
		TTL: k.lifetime(end).Milliseconds(), Pause: taskPause.Milliseconds()}
}
