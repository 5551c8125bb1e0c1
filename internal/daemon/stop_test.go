package daemon_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAStopTakesNoProgramAlong checks that a program that runs when its process is stopped
// continues in the next one, even if its client waits for it. The client gets a notification.
func TestAStopTakesNoProgramAlong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, mayDecide)
	reached, release := make(chan struct{}, 2), make(chan struct{})
	slow := func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		reached <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "at last"}}}, nil
	}
	p.mcp.AddTool(&mcp.Tool{Name: "slow", Description: "Reads", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		InputSchema: json.RawMessage(`{"type":"object"}`)}, slow)
	until(t, func() bool {
		_, err := d.Client().Tool(t.Context(), "till.slow")
		return err == nil
	})
	key := approverKey(t, d)
	answer := make(chan string, 1)
	go func() { answer <- raw(t, d, key, "execute", `{"code":"return await callTool(\"till.slow\", {})"}`, "") }()
	<-reached
	stop()
	text := <-answer
	id := regexp.MustCompile(`ex_[a-z0-9]+`).FindString(text)
	if !strings.Contains(text, "goes on when biplane does") || id == "" {
		t.Fatalf("answered %s", text)
	}
	if !strings.Contains(text, "1 call was made until now") || strings.Contains(text, "ended") {
		t.Errorf("it goes on, and was said to have ended: %s", text)
	}
	close(release)
	d = again(t, dir, p)
	if text := raw(t, d, key, "resume", `{"execution":"`+id+`"}`, ""); !strings.Contains(text, "at last") {
		t.Errorf("resumed: %s", text)
	}
}
