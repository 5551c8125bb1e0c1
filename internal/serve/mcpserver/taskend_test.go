package mcpserver_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTaskMemory checks that a task that has ended keeps neither its arguments nor a result for
// which there was no room.
func TestTaskMemory(t *testing.T) {
	const tasks, size = 16, 1 << 20
	d := newDoor()
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		c.Observe().OnTask()
		return tool.Text(false, strings.Repeat("x", size)), nil
	})
	cfg := config(d, mcpserver.Code)
	cfg.Limits.TaskAfter, cfg.Limits.Memory = time.Nanosecond, 3<<20
	a := taskAgent{url: startHTTP(t, mcpserver.New(cfg), "2026-07-28").url}
	before := heapSize()
	call := `{"name":"up_echo","arguments":{"text":"` + strings.Repeat("x", size) + `"}}`
	var ids []string
	for range tasks {
		var id string
		got := a.send(t, "tools/call", call)
		if err := json.Unmarshal(fieldOf(t, got, "result", "taskId"), &id); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		eventually(t, "the task has ended", func() bool {
			return !strings.Contains(a.send(t, "tasks/get", `{"taskId":"`+id+`"}`), `"working"`)
		})
	}
	d.mu.Lock()
	d.calls = nil
	d.mu.Unlock()
	if grown := heapSize() - before; grown > tasks*size/2 {
		t.Errorf("%d tasks keep %d MB, want at most %d", tasks, grown>>20, tasks*size>>21)
	}
}

// heapSize returns the bytes of the heap that are in use.
func heapSize() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestRevivedTaskForm checks that the task of an execution of an earlier process asks its client,
// and that requests at the same time see one task.
func TestRevivedTaskForm(t *testing.T) {
	requests := waitingRequest("ex_1")
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	d := newDoor()
	d.handle("biplane.resume", func(context.Context, *tool.Call) (*tool.Result, error) {
		return executionIs("waiting", "it waits")
	})
	cfg := config(d, mcpserver.Code)
	cfg.Desk = form.New(form.Config{Requests: requests, Key: key, People: anyone{}})
	a := taskAgent{url: startHTTP(t, mcpserver.New(cfg), "2026-07-28").url, forms: true}
	answers := make(chan string, 4)
	for range cap(answers) {
		go func() { answers <- a.send(t, "tasks/get", `{"taskId":"ex_1"}`) }()
	}
	for range cap(answers) {
		if got := <-answers; !strings.Contains(got, `"taskId":"ex_1"`) {
			t.Errorf("got %s, want the task ex_1", got)
		}
	}
	got := a.untilStatus(t, "ex_1", "input_required")
	if !strings.Contains(got, `"inputRequests":{"1.approval":{"method":"elicitation/create"`) {
		t.Errorf("got %s, want a form", got)
	}
}
