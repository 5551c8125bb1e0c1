package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// taskDoor returns a door whose tool up.echo waits until release is closed, and whose tool up.other
// returns a failure.
func taskDoor() (d *door, release chan struct{}) {
	d, release = newDoor(), make(chan struct{})
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		select {
		case <-release:
			return tool.Text(false, "echoed"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	d.handle("up.other", func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(true, "it failed"), nil
	})
	return d, release
}

const taskCall = `{"name":"up_echo","arguments":{},"task":{"ttl":600000}}`

// newTask makes a call as a task, and returns the task's id.
func newTask(t *testing.T, p peer, params string) (id string) {
	t.Helper()
	got, _ := p.call(t, "tools/call", params)
	if err := json.Unmarshal(fieldOf(t, got, "result", "task", "taskId"), &id); err != nil || id == "" {
		t.Fatalf("tools/call: got %s, want a task", got)
	}
	return id
}

// about sends a request about a task, and returns the response.
func about(t *testing.T, p peer, method, id string) string {
	t.Helper()
	got, _ := p.call(t, method, `{"taskId":"`+id+`"}`)
	return got
}

// sessions runs a test with a client of 2025-11-25 on each transport.
func sessions(t *testing.T, cfg func() mcpserver.Config, f func(t *testing.T, p peer)) {
	t.Run("stdio", func(t *testing.T) { f(t, startStdio(t, mcpserver.New(cfg()), "2025-11-25")) })
	t.Run("http", func(t *testing.T) { f(t, startHTTP(t, mcpserver.New(cfg()), "2025-11-25")) })
}

// TestSessionTasks checks the tasks of revision 2025-11-25, from their creation to their results.
func TestSessionTasks(t *testing.T) {
	var release chan struct{}
	sessions(t, func() mcpserver.Config {
		var d *door
		d, release = taskDoor()
		return config(d, mcpserver.Direct)
	}, func(t *testing.T, p peer) {
		list, _ := p.call(t, "tools/list", "")
		if n := strings.Count(list, `"execution":{"taskSupport":"optional"}`); n != len(upstreamTools()) {
			t.Errorf("tools/list: got %s, want %d tools with tasks", list, len(upstreamTools()))
		}
		id := newTask(t, p, taskCall)
		got := about(t, p, "tasks/get", id)
		for _, want := range []string{`"status":"working"`, `"ttl":600000`, `"pollInterval":1000`, `"taskId":"` + id} {
			if !strings.Contains(got, want) {
				t.Errorf("tasks/get: got %s, want %s", got, want)
			}
		}
		gone := newTask(t, p, taskCall)
		if got = about(t, p, "tasks/cancel", gone); !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("tasks/cancel: got %s, want a canceled task", got)
		}
		if got = about(t, p, "tasks/cancel", gone); !strings.Contains(got, "-32602") {
			t.Errorf("tasks/cancel again: got %s, want error -32602", got)
		}
		if got = about(t, p, "tasks/result", gone); !strings.Contains(got, "-32600") {
			t.Errorf("tasks/result of a canceled task: got %s, want error -32600", got)
		}
		close(release)
		got = about(t, p, "tasks/result", id)
		for _, want := range []string{`"echoed"`, `"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}`} {
			if !strings.Contains(got, want) {
				t.Errorf("tasks/result: got %s, want %s", got, want)
			}
		}
		if got = about(t, p, "tasks/get", id); !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("tasks/get: got %s, want a completed task", got)
		}
		failed := newTask(t, p, `{"name":"up_other","arguments":{},"task":{}}`)
		if got = about(t, p, "tasks/result", failed); !strings.Contains(got, "it failed") {
			t.Errorf("tasks/result of a failed call: got %s, want its result", got)
		}
		if got = about(t, p, "tasks/get", failed); !strings.Contains(got, `"status":"failed"`) {
			t.Errorf("tasks/get of a failed call: got %s, want a failed task", got)
		}
		if got = about(t, p, "tasks/get", gone); !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("tasks/get of a canceled task: got %s, want it to stay canceled", got)
		}
		got, _ = p.call(t, "tasks/list", "")
		for _, want := range []string{id, gone, failed} {
			if strings.Count(got, want) != 1 {
				t.Errorf("tasks/list: got %s, want %s once", got, want)
			}
		}
	})
}

// TestInvalidTaskRequests checks that invalid requests about tasks are refused, and that earlier
// revisions have no tasks.
func TestInvalidTaskRequests(t *testing.T) {
	d, release := taskDoor()
	close(release)
	p := startHTTP(t, mcpserver.New(config(d, mcpserver.Direct)), "2025-11-25")
	for _, c := range []struct{ method, params, want string }{
		{"tasks/get", `{"taskId":"task_unknown"}`, "-32602"},
		{"tasks/get", `{"taskId":"ex_2611232200000abcdefghijkl"}`, "-32602"},
		{"tasks/get", `{}`, "-32602"},
		{"tasks/get", `{"taskId":7}`, "error"},
		{"tasks/result", `{"taskId":"../x"}`, "-32602"},
		{"tasks/cancel", `{"taskId":"\u0000"}`, "-32602"},
		{"tasks/list", `{"cursor":"$"}`, "-32602"},
		{"tasks/list", `{"cursor":"eA"}`, "-32602"},
		{"tasks/update", `{"taskId":"x"}`, "-32601"},
		{"tools/call", `{"name":"up_echo","task":7}`, "-32602"},
		{"tools/call", `{"name":"up_echo","task":null}`, "-32602"},
		{"tools/call", `{"name":"up_echo","task":{"ttl":-1}}`, "-32602"},
		{"tools/call", `{"name":"up_echo","task":{"ttl":"long"}}`, "-32602"},
		{"tools/call", `{"name":"up_echo","task":{"ttl":1e300}}`, `"ttl":86400000`},
		{"tools/call", `{"name":"up_echo","task":{"ttl":null},"_meta":{"progressToken":1}}`, `"ttl":3600000`},
	} {
		if got, _ := p.call(t, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.method, c.params, got, c.want)
		}
	}
	early := dial(t, p.url, "2025-06-18")
	if got, _ := early.call(t, "tools/call", taskCall); !strings.Contains(got, "echoed") {
		t.Errorf("tools/call with task in 2025-06-18: got %s, want a result", got)
	}
	if got, _ := early.call(t, "tasks/list", ""); !strings.Contains(got, "-32601") {
		t.Errorf("tasks/list in 2025-06-18: got %s, want error -32601", got)
	}
	if got, _ := early.call(t, "tools/list", ""); strings.Contains(got, "taskSupport") {
		t.Errorf("tools/list in 2025-06-18: got %s, want no tasks", got)
	}
	for version, want := range map[string]bool{"2025-11-25": true, "2025-06-18": false} {
		res := p.post(t, request(0, "initialize", `{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, version),
			map[string]string{"Mcp-Session-Id": "", "MCP-Protocol-Version": version})
		if got := drain(t, res); strings.Contains(got, `"tasks":{"list":{},"cancel":{},"requests"`) != want {
			t.Errorf("initialize %s: got %s, want tasks: %v", version, got, want)
		}
	}
}

// TestRequestsWithoutParams checks that requests without params don't end the process.
func TestRequestsWithoutParams(t *testing.T) {
	p := startStdio(t, mcpserver.New(config(newDoor(), mcpserver.Code)), "2025-11-25")
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update", "skills/list",
		"skills/get", "resources/directory/read"} {
		p.write(t, `{"jsonrpc":"2.0","id":7,"method":"`+method+`"}`)
		if got := p.read(t); !strings.Contains(got, `"error"`) {
			t.Errorf("%s: got %s, want an error", method, got)
		}
	}
	p.write(t, `{"jsonrpc":"2.0","id":7,"method":"tasks/list"}`)
	if got := p.read(t); !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("tasks/list: got %s, want no tasks", got)
	}
}

// named is a transport that says who sends a request.
type named struct{ who, authorization string }

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Who", n.who)
	r.Header.Set("Authorization", n.authorization)
	return http.DefaultTransport.RoundTrip(r)
}

// byName sets how principals are told apart.
func byName(cfg *mcpserver.Config) {
	cfg.Principal = func(r *http.Request) (tool.Principal, error) {
		if who := r.Header.Get("X-Who"); who != "" {
			return tool.Principal{ID: who}, nil
		}
		return tool.Principal{}, errors.New("no one")
	}
}

// dialAs connects a client of a principal. authorization is sent with each request.
func dialAs(t *testing.T, url, version, who, authorization string) *httpPeer {
	t.Helper()
	p := &httpPeer{url: url, client: &http.Client{Transport: named{who, authorization}}, version: version}
	if version < "2026" {
		res := p.post(t, request(0, "initialize", `{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, version), nil)
		drain(t, res)
		p.session = res.Header.Get("Mcp-Session-Id")
		drain(t, p.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil))
	}
	return p
}

// taskServer starts a server that tells principals apart, and returns its URL.
func taskServer(t *testing.T, cfg mcpserver.Config) string {
	t.Helper()
	byName(&cfg)
	return startServer(t, mcpserver.New(cfg))
}

// TestTasksOfOthers checks that no principal can use, list or even block the task of another one,
// in either revision, and that a principal's own sessions share their tasks.
func TestTasksOfOthers(t *testing.T) {
	d, release := taskDoor()
	url := taskServer(t, config(d, mcpserver.Direct))
	ann, eve := dialAs(t, url, "2025-11-25", "ann", ""), dialAs(t, url, "2025-11-25", "eve", "")
	id := newTask(t, ann, taskCall)
	own := newTask(t, eve, taskCall)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if got := about(t, eve, method, id); !strings.Contains(got, "-32602") {
			t.Errorf("%s of another principal: got %s, want error -32602", method, got)
		}
	}
	if got, _ := eve.call(t, "tasks/list", ""); strings.Contains(got, id) || !strings.Contains(got, own) {
		t.Errorf("tasks/list: got %s, want %s alone", got, own)
	}
	modern := taskAgent{url: url}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := modern.sendAs(t, "eve", method, `{"taskId":"`+id+`","inputResponses":{}}`); !strings.Contains(got,
			"-32602") {
			t.Errorf("%s of another principal in 2026-07-28: got %s, want error -32602", method, got)
		}
	}
	close(release)
	again := dialAs(t, url, "2025-11-25", "ann", "")
	if got := about(t, again, "tasks/result", id); !strings.Contains(got, "echoed") {
		t.Errorf("tasks/result in another session: got %s, want the result", got)
	}
	if got := modern.sendAs(t, "ann", "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, "echoed") {
		t.Errorf("tasks/get in 2026-07-28: got %s, want the result", got)
	}
}

// TestTaskLabels checks that a session that reads the result of another session's task gets the
// labels of its data.
func TestTaskLabels(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "private"), c.Observe().OnLabels([]string{"pii"})
	})
	d.handle("up.other", func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, ""), nil })
	url := taskServer(t, config(d, mcpserver.Direct))
	first, second := dialAs(t, url, "2025-11-25", "ann", ""), dialAs(t, url, "2025-11-25", "ann", "")
	id := newTask(t, first, taskCall)
	if got := about(t, second, "tasks/result", id); !strings.Contains(got, "private") {
		t.Fatalf("tasks/result: got %s, want the result", got)
	}
	second.call(t, "tools/call", `{"name":"up_other"}`)
	if got := d.last(t).Labels; !slices.Equal(got, []string{"pii"}) {
		t.Errorf("a later call of the session has the labels %q, want pii", got)
	}
}

// TestTaskFlood checks that a principal's tasks are limited, that another principal finds room
// meanwhile, and that tasks expire and make room.
func TestTaskFlood(t *testing.T) {
	d, release := taskDoor()
	cfg := config(d, mcpserver.Direct)
	cfg.Limits.Tasks, cfg.Limits.TaskKept, cfg.Limits.PageSize = 8, time.Millisecond, 3
	url := taskServer(t, cfg)
	ann, eve := dialAs(t, url, "2025-11-25", "ann", ""), dialAs(t, url, "2025-11-25", "eve", "")
	const brief = `{"name":"up_echo","arguments":{},"task":{"ttl":0}}`
	ids := map[string]bool{}
	for range 8 {
		ids[newTask(t, eve, brief)] = true
	}
	for range 3 {
		if got, _ := eve.call(t, "tools/call", brief); !strings.Contains(got, "nothing was called") {
			t.Fatalf("a task too many: got %s, want an error", got)
		}
	}
	id := newTask(t, ann, brief)
	listed, cursor := 0, ""
	for {
		got, _ := eve.call(t, "tasks/list", `{"cursor":"`+cursor+`"}`)
		var page struct {
			Tasks  []struct{ TaskID string }
			Cursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(fieldOf(t, got, "result"), &page); err != nil || len(page.Tasks) > 3 {
			t.Fatalf("tasks/list: got %s, %v, want at most 3 tasks", got, err)
		}
		for _, x := range page.Tasks {
			if !ids[x.TaskID] {
				t.Errorf("tasks/list: got %s, want only own tasks once", x.TaskID)
			}
			delete(ids, x.TaskID)
		}
		listed += len(page.Tasks)
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if listed != 8 {
		t.Errorf("tasks/list: got %d tasks, want 8", listed)
	}
	if got := about(t, ann, "tasks/get", id); !strings.Contains(got, `"working"`) {
		t.Errorf("a task beyond its ttl that still runs: got %s, want it", got)
	}
	close(release)
	eventually(t, "the tasks have expired", func() bool {
		got, _ := eve.call(t, "tasks/list", "")
		return strings.Contains(got, `"tasks":[]`) && strings.Contains(about(t, ann, "tasks/get", id), "-32602")
	})
	newTask(t, eve, brief)
}

// TestTaskNotices checks that the session that created a task is notified of its states.
func TestTaskNotices(t *testing.T) {
	d, release := taskDoor()
	url := taskServer(t, config(d, mcpserver.Direct))
	ann := dialAs(t, url, "2025-11-25", "ann", "")
	open := func(p *httpPeer) *bufio.Reader {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatalf("http.NewRequest: %v", err)
		}
		p.header(t, r.Header, "")
		res, err := p.client.Do(r)
		if err != nil {
			t.Fatalf("GET: %v", err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return bufio.NewReader(res.Body)
	}
	heard := open(ann)
	canceled, id := newTask(t, ann, taskCall), newTask(t, ann, taskCall)
	about(t, ann, "tasks/cancel", canceled)
	await(t, heard, `"method":"notifications/tasks/status","params":{"taskId":"`+canceled+`","status":"cancelled"`)
	close(release)
	await(t, heard, `"method":"notifications/tasks/status","params":{"taskId":"`+id+`","status":"completed"`)

	p := startStdio(t, mcpserver.New(config(d, mcpserver.Direct)), "2025-11-25")
	got, notes := p.call(t, "tools/call", taskCall) // the task may have ended before the answer is written
	if err := json.Unmarshal(fieldOf(t, got, "result", "task", "taskId"), &id); err != nil {
		t.Fatalf("tools/call: got %s, want a task", got)
	}
	isCompleted := func(line string) bool {
		return strings.Contains(line, `"method":"notifications/tasks/status","params":{"taskId":"`+id+
			`","status":"completed"`)
	}
	for found := slices.ContainsFunc(notes, isCompleted); !found; {
		found = isCompleted(p.read(t))
	}
}

// A subscribed is a stream of notifications, which end closes.
type subscribed struct {
	*bufio.Reader
	end func() error
}

// listenTo opens a subscription to tasks in revision 2026-07-28.
func listenTo(t *testing.T, url, who, ids string) subscribed {
	t.Helper()
	p := &httpPeer{url: url, client: &http.Client{Transport: named{who: who}}, version: "2026-07-28"}
	body := strings.Replace(request(9, "subscriptions/listen", `{"notifications":{"taskIds":[`+ids+`]}}`, p.version),
		`clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	res := p.post(t, body, nil)
	t.Cleanup(func() { res.Body.Close() })
	return subscribed{bufio.NewReader(res.Body), res.Body.Close}
}

// TestTaskSubscriptions checks that clients of 2026-07-28 can listen to tasks of their principal,
// and learn nothing about those of others.
func TestTaskSubscriptions(t *testing.T) {
	d, release := taskDoor()
	cfg := config(d, mcpserver.Direct)
	cfg.Limits.TaskAfter, cfg.Limits.Subscriptions = time.Millisecond, 1
	url := taskServer(t, cfg)
	a := taskAgent{url: url}
	got := a.sendAs(t, "ann", "tools/call", `{"name":"up_echo","arguments":{}}`)
	var id string
	if err := json.Unmarshal(fieldOf(t, got, "result", "taskId"), &id); err != nil {
		t.Fatalf("tools/call: got %s, want a task", got)
	}
	eve := listenTo(t, url, "eve", `"`+id+`","task_unknown",7`)
	await(t, eve.Reader, `"taskIds":[]`)
	await(t, eve.Reader, `"result"`) // there is nothing to wait for
	ann := listenTo(t, url, "ann", `"`+id+`","`+id+`","task_unknown"`)
	await(t, ann.Reader, `"taskIds":["`+id+`"]`)
	await(t, ann.Reader, `"method":"notifications/tasks","params":{"taskId":"`+id+`","status":"working"`)
	full := listenTo(t, url, "ann", `"`+id+`"`)
	await(t, full.Reader, `"taskIds":[]`) // there is no room for another subscription
	close(release)
	await(t, ann.Reader, `"status":"completed"`)
	if err := ann.end(); err != nil {
		t.Fatalf("close the stream: %v", err)
	}
	var late subscribed
	eventually(t, "there is room again", func() bool {
		late = listenTo(t, url, "ann", `"`+id+`"`)
		line, err := late.ReadString('\n')
		for err == nil && !strings.Contains(line, "taskIds") {
			line, err = late.ReadString('\n')
		}
		return strings.Contains(line, id)
	})
	await(t, late.Reader, `"status":"completed"`)

	p := &httpPeer{url: url, client: &http.Client{Transport: named{who: "ann"}}, version: "2026-07-28"}
	got, _ = p.call(t, "subscriptions/listen", `{"notifications":{"taskIds":["`+id+`"]}}`)
	if !strings.Contains(got, "-32021") {
		t.Errorf("without the extension: got %s, want error -32021", got)
	}
}

// TestTypeScriptTasks lets the client of the TypeScript SDK make a call as a task, whose tool asks
// its user twice.
func TestTypeScriptTasks(t *testing.T) {
	node := peertest.Node(t)
	sdk := filepath.Dir(peertest.Module(t, "@modelcontextprotocol/sdk/package.json"))
	url := startServer(t, mcpserver.New(config(asking(), mcpserver.Direct)))
	script := filepath.Join("testdata", "tasks.mjs")
	out, err := exec.CommandContext(t.Context(), node, script, sdk, url).CombinedOutput()
	var seen struct {
		ID, Text, Status                             string
		Again                                        bool
		Refused                                      int
		Messages, Related, Notified, Support, Listed []string
	}
	if err != nil || json.Unmarshal(out, &seen) != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	if seen.Status != "completed" || !seen.Again || strings.Count(seen.Text, `"blue"`) != 2 || seen.Refused != -32602 {
		t.Errorf("got %s, want a completed task with two answers, which can't be canceled", out)
	}
	if len(seen.Related) != 2 || seen.Related[0] != seen.ID || seen.Related[1] != seen.ID {
		t.Errorf("the questions are related to %q, want %s twice", seen.Related, seen.ID)
	}
	if !slices.Equal(seen.Listed, []string{seen.ID}) || !slices.Equal(seen.Support, []string{"optional", "optional"}) {
		t.Errorf("got tasks %q and support %q, want %s and optional tasks", seen.Listed, seen.Support, seen.ID)
	}
}
