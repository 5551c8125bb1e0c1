package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/lab/demo"
	"github.com/biplane-dev/biplane/internal/tool"
)

// overHTTP measures a program over Streamable HTTP, with its own server.
func (r *runner) overHTTP(ctx context.Context, a arguments, want string) (_ Figure, err error) {
	config := filepath.Join(r.dir, "http.json")
	if err := os.WriteFile(config, []byte(`{"policy":"open","mcpServers":{}}`), 0o600); err != nil {
		return Figure{}, err
	}
	own, err := r.startServer(ctx, config, "data-http")
	if err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, stopServer(own.cmd)) }()
	s, err := dialWeb(ctx, own.url)
	if err != nil {
		return Figure{}, err
	}
	defer func() { _ = s.Close() }()
	do := func() error {
		text, err := s.CallTool(ctx, "execute", a)
		return checkAnswer(text, err, want)
	}
	if _, err := repeatCalls(ctx, r.countRounds(50), do); err != nil { // warm up
		return Figure{}, err
	}
	took, err := repeatCalls(ctx, r.countRounds(300), do)
	if err != nil {
		return Figure{}, err
	}
	return durationFigure("execute_http", took), nil
}

// stopServer interrupts a server, and waits for its end.
func stopServer(cmd *exec.Cmd) error {
	if err := cmd.Cancel(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = cmd.Wait() // it was interrupted
	return nil
}

// A web is an MCP session over Streamable HTTP.
type web struct {
	http http.Client
	url  string
	id   string // of the session
	next int
}

// revision is the newest MCP revision that has sessions over HTTP.
const revision = "2025-11-25"

// dialWeb performs the handshake.
func dialWeb(ctx context.Context, url string) (*web, error) {
	s := &web{url: url}
	if _, err := s.SendRequest(ctx, "initialize", demo.Initialize{
		Client: demo.Peer{Name: "biplane-bench", Version: "1"}, Protocol: revision,
	}); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	if _, err := s.SendRequest(ctx, "notifications/initialized", nil); err != nil {
		return nil, fmt.Errorf("initialized: %w", err)
	}
	return s, nil
}

// callParams are the parameters of tools/call.
type callParams struct {
	Arguments any    `json:"arguments"`
	Name      string `json:"name"`
}

// An rpcMessage is a request or notification.
type rpcMessage struct {
	ID      int    `json:"id,omitempty"`
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// CallTool calls a tool and returns the text of the first block of its result.
func (s *web) CallTool(ctx context.Context, name string, args any) (string, error) {
	raw, err := s.SendRequest(ctx, "tools/call", callParams{args, name})
	if err != nil {
		return "", err
	}
	res, err := tool.ParseResult(raw)
	if err != nil {
		return "", err
	}
	var b tool.TextBlock
	if len(res.Content) > 0 {
		if err := json.Unmarshal(res.Content[0], &b); err != nil {
			return "", err
		}
	}
	if res.IsError {
		return "", fmt.Errorf("%s failed: %s", name, b.Text)
	}
	return b.Text, nil
}

// SendRequest sends a message, and waits for its answer if it is a request.
func (s *web) SendRequest(ctx context.Context, method string, params any) (json.RawMessage, error) {
	m := rpcMessage{JSONRPC: "2.0", Method: method}
	if params != nil {
		s.next++
		m.ID, m.Params = s.next, params
	}
	body, err := tool.Marshal(m)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		req.Header.Set("MCP-Protocol-Version", revision)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("status %d: %.200s", resp.StatusCode, text)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		s.id = id
	}
	if params == nil {
		return nil, nil
	}
	return answerIn(text, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"))
}

// answerIn returns the answer in a body: the body itself, or the event that has a result or an
// error.
func answerIn(body []byte, events bool) (json.RawMessage, error) {
	candidates := [][]byte{body}
	if events {
		candidates = nil
		for l := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(l, []byte("data:")); ok {
				candidates = append(candidates, bytes.TrimSpace(data))
			}
		}
	}
	for _, c := range candidates {
		var m struct {
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(c, &m); err != nil {
			continue // an event without a message
		}
		switch {
		case m.Error != nil:
			return nil, errors.New(m.Error.Message)
		case m.Result != nil:
			return m.Result, nil
		}
	}
	return nil, fmt.Errorf("no answer in %.200q", body)
}
