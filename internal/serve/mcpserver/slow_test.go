package mcpserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestSlowReaderIsGivenUp checks that a client that doesn't read its answer loses its connection,
// and thus its request slot.
func TestSlowReaderIsGivenUp(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Door = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, strings.Repeat("x", 64<<20)), nil // more than a connection's buffers
	})
	cfg.Limits.WriteTime = 50 * time.Millisecond
	s := mcpserver.New(cfg)
	closed := make(chan net.Conn, 1)
	h := httptest.NewUnstartedServer(s.Handler())
	h.Config.ConnState = func(c net.Conn, to http.ConnState) {
		if to == http.StateClosed {
			closed <- c
		}
	}
	h.Start()
	defer h.Close()
	defer s.Close()
	conn, err := net.Dial("tcp", h.Listener.Addr().String())
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer conn.Close()
	body := request(1, "tools/call", `{"name":"execute","arguments":{"code":"1"}}`, "2026-07-28")
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: "+
		"application/json, text/event-stream\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: execute\r\nContent-Length: "+
		"%d\r\n\r\n%s", len(body), body)
	<-closed // the test hangs if the server waits for the client
}
