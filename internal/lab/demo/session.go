package demo

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Session is one MCP session of an agent with its own Biplane process, over stdio. It is safe for
// concurrent use.
type Session struct{ c *client }

// Connect starts argv, which must speak MCP over stdio, and performs the handshake. The process
// ends with ctx, or by Close.
func Connect(ctx context.Context, argv []string) (*Session, error) {
	c, err := connectClient(ctx, argv)
	if err != nil {
		return nil, err
	}
	return &Session{c}, nil
}

// Close ends the process and waits for it.
func (s *Session) Close() error { return s.c.close() }

// PID returns the process ID.
func (s *Session) PID() int { return s.c.cmd.Process.Pid }

// CallTool calls a tool and returns the text of the result, or an error if the tool reports
// failure.
func (s *Session) CallTool(ctx context.Context, name string, args any) (string, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return "", err
	}
	return s.c.callTool(ctx, call{name, raw})
}

// ListDefinitions returns what a client shows a model of each tool, as JSON.
func (s *Session) ListDefinitions(ctx context.Context) ([]string, error) {
	return ListDefinitions(ctx, s.c)
}

// ListDefinitions returns what a client shows a model of each tool of a server (name, description
// and input schema), as JSON.
func ListDefinitions(ctx context.Context, r Requester) ([]string, error) {
	defs, err := listTools(ctx, r)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(defs))
	for i, d := range defs {
		text, err := tool.Marshal(d)
		if err != nil {
			return nil, err
		}
		out[i] = string(text)
	}
	return out, nil
}
