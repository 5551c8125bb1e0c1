package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// Log messages reach the call that wants them, and no other.
func TestLogs(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "logs", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&sdk.Tool{Name: "work", InputSchema: schema},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			//lint:ignore SA1019 servers of the field still log
			req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning",
				Data: json.RawMessage(`{"big":9007199254740993}`)})
			return &sdk.CallToolResult{}, nil
		})
	for name, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
				&sdk.StreamableHTTPOptions{Stateless: stateless}))
			t.Cleanup(srv.Close)
			up, err := mcp.New(mcp.Config{Name: "logs", URL: srv.URL, Type: "http"})
			if err != nil {
				t.Fatalf("mcp.New: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() { up.Run(ctx) })
			t.Cleanup(func() { cancel(); run.Wait() })
			deadline := time.Now().Add(2 * time.Minute)
			for up.Snapshot().Health.State != tool.Ready && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			work := &tool.Tool{Upstream: "logs", Name: "work", InputSchema: schema}
			for range 2 {
				var got []tool.Log
				c := &tool.Call{Tool: work, Observer: logWatch{logs: &got}}
				if _, err := up.Call(t.Context(), c); err != nil {
					t.Fatalf("Call: %v", err)
				}
				if len(got) != 1 || got[0].Level != "warning" ||
					!strings.Contains(string(got[0].Raw), `"data":{"big":9007199254740993}`) {
					t.Errorf("logs: %s", got)
				}
				if _, err := up.Call(t.Context(), &tool.Call{Tool: work}); err != nil {
					t.Fatalf("Call: %v", err)
				}
			}
		})
	}
}

// A logWatch is an Observer of log messages.
type logWatch struct {
	tool.NoObserver
	logs *[]tool.Log
}

func (logWatch) WantsLogs() bool                       { return true }
func (w logWatch) OnLog(_ context.Context, l tool.Log) { *w.logs = append(*w.logs, l) }
