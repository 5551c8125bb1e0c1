package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A client is an agent's client software: it starts `biplane mcp` and speaks MCP with it over
// stdio.
type client struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr *tail
	done   chan struct{} // closed when the read loop has ended

	mu      sync.Mutex
	next    int
	pending map[int]chan message
	err     error // why no more responses arrive
}

// A definition is the part of a tool's definition that client software shows to a model. The other
// parts (annotations, output schema) stay in the client.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// A call is a tool call as a model writes it.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// grace is how long a process may take to exit after its input has ended.
const grace = 10 * time.Second

// connectClient starts argv and performs the handshake. The process ends with ctx.
func connectClient(ctx context.Context, argv []string) (*client, error) {
	c := &client{pending: map[int]chan message{}, done: make(chan struct{}), stderr: &tail{}}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Stderr = c.stderr
	c.cmd.WaitDelay = grace
	c.cmd.Cancel = func() error {
		if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
			return c.cmd.Process.Kill() // Windows has no such signal
		}
		return nil
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.programName(), err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.programName(), err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.programName(), err)
	}
	go c.readMessages(out)
	_, err = c.SendRequest(ctx, "initialize", Initialize{
		Client: Peer{Name: "biplane-demo", Version: "1"}, Protocol: protocol,
	})
	if err == nil {
		err = c.sendMessage(message{Method: "notifications/initialized"})
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// programName returns the name of the program.
func (c *client) programName() string { return filepath.Base(c.cmd.Path) }

// close ends the process by closing its input, as clients do.
func (c *client) close() error {
	_ = c.in.Close()
	stop := time.AfterFunc(grace, func() { _ = c.cmd.Process.Kill() })
	defer stop.Stop()
	<-c.done
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w%s", c.programName(), err, c.stderr.lastLines())
	}
	return nil
}

func (c *client) readMessages(out io.Reader) {
	defer close(c.done)
	lines := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			c.err = tool.Errorf(tool.Unavailable, "%s ended%s", c.programName(), c.stderr.lastLines())
			for _, ch := range c.pending {
				close(ch)
			}
			c.pending = map[int]chan message{}
			c.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue // a notification
		}
		if m.Method != "" {
			_ = c.sendMessage(message{ID: m.ID, Error: &rpcError{-32601, "no method " + m.Method}})
			continue
		}
		var id int
		if json.Unmarshal(m.ID, &id) != nil {
			continue
		}
		c.mu.Lock()
		ch := c.pending[id]
		delete(c.pending, id)
		c.mu.Unlock()
		if ch != nil {
			ch <- m
		}
	}
}

func (c *client) sendMessage(m message) error {
	m.JSONRPC = "2.0"
	b, err := tool.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	_, err = c.in.Write(append(b, '\n'))
	return err
}

// SendRequest sends a request, and waits for its result.
func (c *client) SendRequest(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := tool.Marshal(params)
	if err != nil {
		return nil, err
	}
	ch := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.pending[id] = ch
	c.mu.Unlock()
	if err := c.sendMessage(message{ID: json.RawMessage(fmt.Sprint(id)), Method: method, Params: raw}); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m, ok := <-ch:
		switch {
		case !ok:
			c.mu.Lock()
			defer c.mu.Unlock()
			return nil, c.err
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, m.Error)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// A Requester sends requests to an MCP server and returns their results.
type Requester interface {
	SendRequest(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// listTools lists all tools, page by page.
func listTools(ctx context.Context, c Requester) ([]definition, error) {
	var all []definition
	params := map[string]string{}
	for range 100 {
		raw, err := c.SendRequest(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("tools/list: %w", err)
		}
		for _, t := range page.Tools {
			all = append(all, definition(t))
		}
		if page.Next == "" {
			return all, nil
		}
		params["cursor"] = page.Next
	}
	return nil, errors.New("tools/list: more than 100 pages")
}

// callTool calls a tool and returns the text of the result: what a model would read.
func (c *client) callTool(ctx context.Context, k call) (string, error) {
	raw, err := c.SendRequest(ctx, "tools/call", k)
	if err != nil {
		return "", err
	}
	r, err := tool.ParseResult(raw)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, b := range r.Content {
		var t tool.TextBlock
		if err := json.Unmarshal(b, &t); err != nil || t.Type != "text" {
			return "", fmt.Errorf("%s answered with something other than text", k.Name)
		}
		texts = append(texts, t.Text)
	}
	text := strings.Join(texts, "\n")
	if r.IsError {
		return "", fmt.Errorf("%s failed: %s", k.Name, text)
	}
	return text, nil
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write writes p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - 2000; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// lastLines returns the text for an error message.
func (t *tail) lastLines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := bytes.TrimSpace(t.buf); len(s) > 0 {
		return "; it said:\n" + string(s)
	}
	return ""
}
