package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// beforeTasks runs a Biplane in mode Direct, with unprefixed names, in front of a server with
// tasks. It returns the URL for agents.
func beforeTasks(t *testing.T, revision string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := settings.Default()
	c.Mode, c.Policy = "direct", "open"
	c.Servers = []settings.Server{{Name: "jobs", Type: "http", URL: peertest.NewTaskServer(t, revision).URL}}
	d, err := daemon.New(t.Context(),
		daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0", Unprefixed: true})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	runDaemon(t, d)
	eventually(t, "the tools are listed", func() bool {
		tools, err := d.Client().Tools(t.Context())
		return err == nil && len(tools) > 10
	})
	return "http://" + d.Addr() + "/mcp"
}

// TestTasksConformance runs the conformance suite's scenarios for servers with tasks, except
// tasks-status-notifications, which the suite skips itself.
func TestTasksConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	url := beforeTasks(t, "2026-07-28")
	for _, scenario := range []string{"lifecycle", "capability-negotiation", "wire-fields", "request-state-removal",
		"mrtr-input", "request-headers", "dispatch-and-envelope", "required-task-error", "mrtr-composition"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			passesScenario(t, url, "tasks-"+scenario)
		})
	}
}

// A taskAgent is a client that supports tasks.
type taskAgent struct {
	url, key string
	forms    bool // it can show forms
}

// send sends a request, and returns the response.
func (a taskAgent) send(t *testing.T, method, params string) string {
	t.Helper()
	return a.sendAs(t, "", method, params)
}

// sendAs is send as a principal of byName.
func (a taskAgent) sendAs(t *testing.T, who, method, params string) string {
	t.Helper()
	var p struct{ TaskID, Name string }
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	body := strings.Replace(request(1, method, params, "2026-07-28"), `clientCapabilities":{}`,
		`clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	if a.forms {
		body = strings.Replace(body, `Capabilities":{`, `Capabilities":{"elicitation":{"form":{}},`, 1)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("http.NewRequest: %v", err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Mcp-Method": method,
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Name": p.TaskID + p.Name, "Authorization": "Bearer " + a.key,
		"X-Who": who} {
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close()
	got := messages(res.Header.Get("Content-Type"), drain(t, res))
	return got[len(got)-1]
}

// untilStatus asks for a task until it has a status, and returns the response.
func (a taskAgent) untilStatus(t *testing.T, id, status string) (got string) {
	t.Helper()
	eventually(t, "the task is "+status, func() bool {
		got = a.send(t, "tasks/get", `{"taskId":"`+id+`"}`)
		return strings.Contains(got, `"status":"`+status+`"`)
	})
	return got
}

// reopened returns a function that starts a daemon with sign-in, always on the same data folder,
// and returns a function that stops it.
func reopened(t *testing.T) func() (*daemon.Daemon, func()) {
	t.Helper()
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return func() (*daemon.Daemon, func()) {
		t.Helper()
		c := settings.Default()
		c.Policy, c.Auth = "open", &settings.Auth{Keys: true}
		d, err := daemon.New(t.Context(), daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0",
			Recover: true})
		if err != nil {
			t.Fatalf("daemon.New: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := errors.Join(<-done, d.Close()); err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		})
		t.Cleanup(stop)
		return d, stop
	}
}

// TestListedAfterRestart checks that tasks/list has the tasks of executions after a restart, before
// they are asked for, and that asking changes neither their times nor their place in the list.
func TestListedAfterRestart(t *testing.T) {
	t.Parallel()
	open := reopened(t)
	d, stop := open()
	var keys [2]string
	for i, name := range []string{"ann", "eve"} {
		k, err := d.Client().Keys().Create(t.Context(), api.KeyRequest{Name: name})
		if err != nil {
			t.Fatalf("CreateKey: %v", err)
		}
		keys[i] = "Bearer " + k.Key
	}
	ann := dialAs(t, "http://"+d.Addr()+"/mcp", "2025-11-25", "", keys[0])
	var ids []string
	for _, code := range []string{"return 6 * 7", "throw new Error('broken')", "await sleep(600000)"} {
		ids = append(ids, newTask(t, ann, `{"name":"execute","arguments":{"code":`+strconv.Quote(code)+
			`},"task":{"ttl":7200000}}`))
	}
	brief := newTask(t, ann, `{"name":"resume","arguments":{"execution":"ex_unknown"},"task":{}}`) // no execution
	for _, id := range ids[:2] {
		about(t, ann, "tasks/result", id)
	}
	ann.call(t, "tools/call", `{"name":"execute","arguments":{"code":"return 'no task'"}}`)
	before, _ := ann.call(t, "tasks/list", "")
	stop()

	d, _ = open()
	ann = dialAs(t, "http://"+d.Addr()+"/mcp", "2025-11-25", "", keys[0])
	eve := dialAs(t, "http://"+d.Addr()+"/mcp", "2025-11-25", "", keys[1])
	if got, _ := eve.call(t, "tasks/list", ""); !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("tasks/list of another principal: got %s, want no tasks", got)
	}
	was, now := readTasks(t, before), listAll(t, ann)
	if got := slices.Collect(taskIDs(now)); !slices.Equal(got, ids) {
		t.Fatalf("tasks/list: got %q, want %q without %s", got, ids, brief)
	}
	for i, want := range []string{"completed", "failed", "working"} {
		if now[i].Status != want || now[i].Created != was[i].Created || now[i].TTL != 7200000 {
			t.Errorf("task %d: got %+v, want status %s, and the times of %+v", i, now[i], want, was[i])
		}
	}
	if got := about(t, ann, "tasks/result", ids[0]); !strings.Contains(got, `"text":"42"`) {
		t.Errorf("tasks/result: got %s, want 42", got)
	}
	again := listAll(t, ann)
	if got := slices.Collect(taskIDs(again)); !slices.Equal(got, ids) || again[0].Created != was[0].Created {
		t.Errorf("tasks/list after tasks/result: got %+v, want %q as before", again, ids)
	}
	eventually(t, "the execution goes on", func() bool {
		return strings.Contains(about(t, ann, "tasks/get", ids[2]), `"status":"working"`)
	})
	if got := about(t, ann, "tasks/cancel", ids[2]); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("tasks/cancel: got %s, want a canceled task", got)
	}
}

// A wireTask is a task of a list in revision 2025-11-25.
type wireTask struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Created string `json:"createdAt"`
	TTL     int64  `json:"ttl"`
}

// readTasks returns the tasks of a response to tasks/list.
func readTasks(t *testing.T, response string) (list []wireTask) {
	t.Helper()
	if err := json.Unmarshal(fieldOf(t, response, "result", "tasks"), &list); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return list
}

func listAll(t *testing.T, p peer) []wireTask {
	t.Helper()
	got, _ := p.call(t, "tasks/list", "")
	return readTasks(t, got)
}

func taskIDs(list []wireTask) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, x := range list {
			if !yield(x.ID) {
				return
			}
		}
	}
}

// TestExecutionTasks checks the tasks of executions: only the principal can use them, canceling one
// stops the execution, and they survive a restart.
func TestExecutionTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	open := reopened(t)
	d, stop := open()
	var agents []taskAgent
	for _, name := range []string{"ann", "eve"} {
		k, err := d.Client().Keys().Create(t.Context(), api.KeyRequest{Name: name})
		if err != nil {
			t.Fatalf("CreateKey: %v", err)
		}
		agents = append(agents, taskAgent{url: "http://" + d.Addr() + "/mcp", key: k.Key})
	}
	ann, eve := agents[0], agents[1]
	code := func(text string) string { return `{"name":"execute","arguments":{"code":` + strconv.Quote(text) + `}}` }
	if got := ann.send(t, "tools/call", code("return 1 + 1")); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("a short program: got %s, want a result", got)
	}
	var slow [2]string
	var calls sync.WaitGroup
	for i, text := range []string{"await sleep(11000); return 6 * 7", "await sleep(50000); return 1"} {
		calls.Go(func() { slow[i] = ann.send(t, "tools/call", code(text)) })
	}
	calls.Wait()
	var ids [2]string
	for i, got := range slow {
		if !strings.Contains(got, `"resultType":"task"`) {
			t.Fatalf("a long program: got %s, want a task", got)
		}
		if err := json.Unmarshal(fieldOf(t, got, "result", "taskId"), &ids[i]); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
	}
	others := func() {
		t.Helper()
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			got := eve.send(t, method, `{"taskId":"`+ids[0]+`","inputResponses":{}}`)
			if !strings.Contains(got, "-32602") {
				t.Errorf("%s of another principal: got %s, want error -32602", method, got)
			}
		}
	}
	others()
	if got := ann.send(t, "tasks/cancel", `{"taskId":"`+ids[1]+`"}`); !strings.Contains(got, `"complete"`) {
		t.Errorf("tasks/cancel: got %s, want an empty result", got)
	}
	ann.untilStatus(t, ids[1], "cancelled")
	got := ann.send(t, "tools/call", `{"name":"resume","arguments":{"execution":"`+ids[1]+`"}}`)
	if !strings.Contains(got, `"state":"failed"`) {
		t.Errorf("resume after tasks/cancel: got %s, want a stopped execution", got)
	}
	if got := ann.untilStatus(t, ids[0], "completed"); !strings.Contains(got, `"text":"42"`) {
		t.Errorf("tasks/get: got %s, want 42", got)
	}
	stop()
	d, _ = open()
	ann.url, eve.url = "http://"+d.Addr()+"/mcp", "http://"+d.Addr()+"/mcp"
	others()
	if got := ann.untilStatus(t, ids[0], "completed"); !strings.Contains(got, `"text":"42"`) {
		t.Errorf("tasks/get after a restart: got %s, want 42", got)
	}
	others()
	early := dialAs(t, ann.url, "2025-11-25", "", "Bearer "+ann.key)
	if got := about(t, early, "tasks/result", ids[0]); !strings.Contains(got, `"text":"42"`) {
		t.Errorf("tasks/result in 2025-11-25 after a restart: got %s, want 42", got)
	}
	own := newTask(t, early, `{"name":"execute","arguments":{"code":"return 6 * 9"},"task":{}}`)
	got = about(t, early, "tasks/result", own)
	if !strings.HasPrefix(own, "ex_") || !strings.Contains(got, `"text":"54"`) {
		t.Errorf("tasks/result of %s: got %s, want 54, and the id of an execution", own, got)
	}
	for _, id := range []string{"ex_2611232200000abcdefghijkl", "task_unknown", "", "../x"} {
		if got := ann.send(t, "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, "-32602") {
			t.Errorf("tasks/get %q: got %s, want error -32602", id, got)
		}
	}
}

// TestTooManyTasks checks that calls beyond the limit don't become tasks, and that results beyond
// the limit are errors.
func TestTooManyTasks(t *testing.T) {
	d := newDoor()
	release := make(chan struct{})
	d.handle("up.echo", func(context.Context, *tool.Call) (*tool.Result, error) {
		<-release
		return tool.Text(false, strings.Repeat("x", 600)), nil
	})
	cfg := config(d, mcpserver.Code)
	cfg.Limits.Tasks, cfg.Limits.TaskAfter, cfg.Limits.Memory = 8, time.Millisecond, 4096
	p := startHTTP(t, mcpserver.New(cfg), "2026-07-28")
	a := taskAgent{url: p.url}
	const call = `{"name":"up_echo","arguments":{}}`
	var ids []string
	for range 8 {
		var id string
		if err := json.Unmarshal(fieldOf(t, a.send(t, "tools/call", call), "result", "taskId"), &id); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		ids = append(ids, id)
	}
	answers := make(chan string, 3)
	for range cap(answers) {
		go func() { answers <- a.send(t, "tools/call", call) }()
	}
	eventually(t, "all calls are under way", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.calls) == 11
	})
	close(release)
	for range cap(answers) {
		if got := <-answers; !strings.Contains(got, "xxx") {
			t.Errorf("got %s, want the result", got)
		}
	}
	completed := 0
	for _, id := range ids {
		eventually(t, "the task has ended", func() bool {
			got := a.send(t, "tasks/get", `{"taskId":"`+id+`"}`)
			if strings.Contains(got, `"completed"`) {
				completed++
			} else if strings.Contains(got, `"failed"`) && !strings.Contains(got, "too much memory") {
				t.Errorf("got %s, want the limit", got)
			}
			return !strings.Contains(got, `"working"`)
		})
	}
	if completed == 0 || completed == len(ids) {
		t.Errorf("%d of %d results are kept, want some", completed, len(ids))
	}
}

// TestTaskForm checks that the client of a task decides on what the execution waits for.
func TestTaskForm(t *testing.T) {
	requests := waitingRequest("ex_1")
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	d := newDoor()
	began := make(chan struct{})
	d.handle("biplane.execute", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		c.Observe().OnExecution("ex_1")
		<-began
		return executionIs("waiting", "it waits")
	})
	d.handle("biplane.resume", func(context.Context, *tool.Call) (*tool.Result, error) {
		if r, err := requests.Get(t.Context(), ""); err != nil || r.State == approval.Pending {
			return executionIs("waiting", "it waits")
		}
		return executionIs("done", "it is done")
	})
	cfg := config(d, mcpserver.Code)
	cfg.Limits.TaskAfter = time.Millisecond
	cfg.Desk = form.New(form.Config{Requests: requests, Key: key, People: anyone{}})
	a := taskAgent{url: startHTTP(t, mcpserver.New(cfg), "2026-07-28").url, forms: true}
	got := a.send(t, "tools/call", `{"name":"execute","arguments":{"code":"1"}}`)
	if !strings.Contains(got, `"taskId":"ex_1"`) {
		t.Fatalf("got %s, want the task ex_1", got)
	}
	close(began)
	got = a.untilStatus(t, "ex_1", "input_required")
	if !strings.Contains(got, `"inputRequests":{"1.approval":{"method":"elicitation/create"`) {
		t.Errorf("got %s, want a form", got)
	}
	for _, answers := range []string{`{"2.approval":{"action":"accept"}}`, `{"1.approval":7}`, `{}`} {
		a.send(t, "tasks/update", `{"taskId":"ex_1","inputResponses":`+answers+`}`)
		got = a.send(t, "tasks/get", `{"taskId":"ex_1"}`)
		if !strings.Contains(got, `"status":"input_required"`) {
			t.Errorf("after %s: got %s, want input_required", answers, got)
		}
	}
	a.send(t, "tasks/update", `{"taskId":"ex_1","inputResponses":{"1.approval":{"action":"accept","content":`+
		`{"decision":"approve"}}}}`)
	if got = a.untilStatus(t, "ex_1", "completed"); !strings.Contains(got, "it is done") {
		t.Errorf("got %s, want the result", got)
	}
}
