package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A TaskServer is an MCP server over HTTP whose tools are tasks, with the tools that the
// conformance suite requires, and some that behave badly. It speaks revision 2025-11-25 or
// 2026-07-28.
type TaskServer struct {
	URL    string
	modern bool

	mu       sync.Mutex
	tasks    map[string]*serverTask
	asked    map[string]chan json.RawMessage // answers by the id of the server's request
	requests map[string]int                  // by method
}

// A serverTask is a task of a TaskServer.
type serverTask struct {
	id, tool  string
	label     string
	ends      time.Time
	questions []string // keys without an answer
	answers   map[string]json.RawMessage
	canceled  bool
}

type taskMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Name      string          `json:"name"`
		TaskID    string          `json:"taskId"`
		Task      json.RawMessage `json:"task"`
		Version   string          `json:"protocolVersion"`
		Arguments struct {
			Name    string  `json:"name"`
			Label   string  `json:"label"`
			Seconds float64 `json:"seconds"`
		} `json:"arguments"`
		Answers map[string]json.RawMessage `json:"inputResponses"`
		Meta    struct {
			Capabilities struct {
				Extensions map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

const tasksExtension = "io.modelcontextprotocol/tasks"

// taskTools has the tools of a TaskServer, and whether their calls must be tasks.
var taskTools = []struct{ name, support string }{
	{"greet", "forbidden"}, {"slow_compute", "optional"}, {"failing_job", "required"},
	{"protocol_error_job", "required"}, {"confirm_delete", "required"}, {"multi_input", "required"},
	{"test_tool_with_task", "required"}, {"never_ends", "required"}, {"changes_id", "required"},
	{"asks_forever", "required"}, {"odd_status", "required"}, {"job", "required"},
}

// NewTaskServer starts a TaskServer that ends with the test.
func NewTaskServer(t testing.TB, revision string) *TaskServer {
	t.Helper()
	s := &TaskServer{modern: revision >= "2026-07-28", tasks: map[string]*serverTask{},
		asked: map[string]chan json.RawMessage{}, requests: map[string]int{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// CountRequests returns how many requests of a method arrived.
func (s *TaskServer) CountRequests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[method]
}

// ServeHTTP answers one message.
func (s *TaskServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m taskMessage
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		http.Error(w, "only messages are accepted", http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.requests[m.Method]++
	waiting := s.asked[string(m.ID)]
	s.mu.Unlock()
	switch {
	case m.Method == "" && waiting != nil:
		waiting <- m.Result
		fallthrough
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "tasks/result" && !s.modern:
		s.streamResult(r.Context(), w, &m)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, s.formatReply(m.ID, s.answerRequest(&m)))
}

// formatReply returns a response with an answer: a result, or an error that begins with "error".
func (s *TaskServer) formatReply(id json.RawMessage, answer string) string {
	if rest, ok := cutError(answer); ok {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, rest)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, answer)
}

func cutError(answer string) (string, bool) {
	if len(answer) > 5 && answer[:5] == "error" {
		return answer[5:], true
	}
	return "", false
}

func textResult(text string, failed bool) string {
	return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}],"isError":%t}`, text, failed)
}

// answerRequest returns the answer to a request.
func (s *TaskServer) answerRequest(m *taskMessage) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case "server/discover":
		if s.modern {
			return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},` +
				`"extensions":{"` + tasksExtension + `":{}}},"ttlMs":0,"cacheScope":"private"}`
		}
	case "initialize":
		if !s.modern {
			return `{"protocolVersion":"2025-11-25","serverInfo":{"name":"tasks","version":"1"},"capabilities":` +
				`{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}`
		}
	case "ping":
		return `{}`
	case "tools/list":
		list := ""
		for i, t := range taskTools {
			if i > 0 {
				list += ","
			}
			list += fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"execution":{"taskSupport":%q}}`, t.name,
				t.support)
		}
		return `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + list + `]}`
	case "tools/call":
		return s.callTool(m)
	case "tasks/get", "tasks/update", "tasks/cancel":
		t := s.tasks[m.Params.TaskID]
		if t == nil {
			return `error{"code":-32602,"message":"no such task"}`
		}
		return s.handleTask(m, t)
	}
	return `error{"code":-32601,"message":"method not found"}`
}

// callTool answers tools/call.
func (s *TaskServer) callTool(m *taskMessage) string {
	name, args := m.Params.Name, m.Params.Arguments
	_, able := m.Params.Meta.Capabilities.Extensions[tasksExtension]
	if !s.modern {
		able = m.Params.Task != nil
	}
	switch {
	case name == "greet":
		return textResult("Hello, "+args.Name+"!", false)
	case name == "slow_compute" && !able:
		return textResult("computed", false)
	case !able && s.modern:
		return `error{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":` +
			`{"extensions":{"` + tasksExtension + `":{}}}}}`
	case !able:
		return `error{"code":-32601,"message":"call this tool as a task"}`
	case name == "test_tool_with_task" && s.modern && m.Params.Answers == nil:
		return `{"resultType":"input_required","inputRequests":{"user_name":` + formatQuestion("Who?", "name") + `}}`
	}
	t := &serverTask{id: fmt.Sprint("task-", len(s.tasks)), tool: name, label: string(m.Params.Answers["user_name"]),
		ends: time.Now().Add(time.Duration(args.Seconds * float64(time.Second))), answers: map[string]json.RawMessage{}}
	switch name {
	case "never_ends":
		t.ends = t.ends.Add(time.Hour)
	case "confirm_delete", "asks_forever":
		t.questions = []string{"q1"}
	case "multi_input":
		t.questions = []string{"q1", "q2"}
	}
	s.tasks[t.id] = t
	if !s.modern {
		return `{"task":` + s.formatTask(t, t.id) + `}`
	}
	return `{"resultType":"task",` + s.formatTask(t, t.id)[1:]
}

func formatQuestion(message, field string) string {
	return fmt.Sprintf(`{"method":"elicitation/create","params":{"mode":"form","message":%q,"requestedSchema":`+
		`{"type":"object","properties":{%q:{"type":"string"}}}}}`, message, field)
}

// readStatus returns the state of a task.
func (t *serverTask) readStatus() string {
	switch {
	case t.canceled:
		return "cancelled"
	case len(t.questions) > 0:
		return "input_required"
	case time.Now().Before(t.ends):
		return "working"
	case t.tool == "protocol_error_job":
		return "failed"
	case t.tool == "odd_status":
		return "levitating"
	}
	return "completed"
}

// formatTask returns a task as JSON.
func (s *TaskServer) formatTask(t *serverTask, id string) string {
	names := [2]string{"ttl", "pollInterval"}
	if s.modern {
		names = [2]string{"ttlMs", "pollIntervalMs"}
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"statusMessage":"step \u001b[31m one","createdAt":`+
		`"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z",%q:60000,%q:1}`, id, t.readStatus(), names[0],
		names[1])
}

// handleTask answers a request about a task.
func (s *TaskServer) handleTask(m *taskMessage, t *serverTask) string {
	switch m.Method {
	case "tasks/cancel":
		t.canceled = true
	case "tasks/update":
		var left []string
		for _, key := range t.questions {
			if a, ok := m.Params.Answers[key]; ok {
				t.answers[key] = a
			} else {
				left = append(left, key)
			}
		}
		if t.questions = left; t.tool == "asks_forever" {
			t.questions = []string{fmt.Sprint("q", len(t.answers)+1)}
		}
	default:
		id := t.id
		if t.tool == "changes_id" {
			id = "task-0"
		}
		body := s.formatTask(t, id)
		body = body[:len(body)-1]
		switch t.readStatus() {
		case "input_required":
			body += `,"inputRequests":{`
			for i, key := range t.questions {
				if i > 0 {
					body += ","
				}
				body += fmt.Sprintf("%q:%s", key, formatQuestion("Really?", "confirm"))
			}
			body += "}"
		case "completed":
			body += `,"result":` + t.formatResult()
		case "failed":
			body += `,"error":{"code":-32603,"message":"the job broke"}`
		}
		return body + `,"resultType":"complete"}`
	}
	return `{"resultType":"complete"}`
}

// formatResult returns the result of a completed task.
func (t *serverTask) formatResult() string {
	switch {
	case t.tool == "failing_job":
		return textResult("the job failed", true)
	case t.label != "":
		return textResult("for "+t.label, false)
	case len(t.answers) > 0:
		return textResult(fmt.Sprintf("q1=%s q2=%s", t.answers["q1"], t.answers["q2"]), false)
	}
	return textResult("done", false)
}

// streamResult answers tasks/result (2025-11-25): it asks the task's questions, waits for the task,
// and sends its result.
func (s *TaskServer) streamResult(ctx context.Context, w http.ResponseWriter, m *taskMessage) {
	s.mu.Lock()
	t := s.tasks[m.Params.TaskID]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) {
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	if t == nil {
		send(s.formatReply(m.ID, `error{"code":-32602,"message":"no such task"}`))
		return
	}
	for _, key := range t.questions {
		answers := make(chan json.RawMessage, 1)
		id := fmt.Sprintf("%q", t.id+key)
		s.mu.Lock()
		s.asked[id] = answers
		s.mu.Unlock()
		send(`{"jsonrpc":"2.0","id":` + id + `,` + formatQuestion("Really?", "confirm")[1:])
		select {
		case a := <-answers:
			s.mu.Lock()
			t.answers[key] = a
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
	s.mu.Lock()
	t.questions = nil
	left := time.Until(t.ends)
	s.mu.Unlock()
	select {
	case <-time.After(left):
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.readStatus() == "failed" {
		send(s.formatReply(m.ID, `error{"code":-32603,"message":"the job broke"}`))
		return
	}
	send(s.formatReply(m.ID, t.formatResult()))
}
