package demo

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Session is one MCP session of an agent with a Biplane of its own, over stdio. It is safe for concurrent use.
type Session struct{ c *client }

// Connect starts argv, which is to speak MCP over stdio, and shakes hands. The process ends with ctx, or by Close.
func Connect(ctx context.Context, argv []string) (*Session, error) {
	c, err := connect(ctx, argv)
	if err != nil {
		return nil, err
	}
	return &Session{c}, nil
}

// Close ends the process and waits for it.
func (s *Session) Close() error { return s.c.close() }

// PID is that of the process.
func (s *Session) PID() int { return s.c.cmd.Process.Pid }

// Call uses a tool and gives the text of the answer. A tool that reports failure is an error.
func (s *Session) Call(ctx context.Context, name string, args any) (string, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return "", err
	}
	return s.c.call(ctx, call{name, raw})
}

// Definitions gives what a client tells a model of each tool (name, description and input schema), as JSON.
func (s *Session) Definitions(ctx context.Context) ([]string, error) {
	defs, err := s.c.tools(ctx)
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
