package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// askForLogs tells a server of a revision before 2026-07-28, once, that log messages are wanted; since then each request
// says so itself. Whoever doesn't want them doesn't get them, so all levels are asked for.
func (s *session) askForLogs(ctx context.Context) {
	if !s.logs || s.modern.Load() || s.askedLogs.Swap(true) {
		return
	}
	_, err := s.request(ctx, query{method: "logging/setLevel", fields: []byte(`"level":"debug"`), idle: 5 * time.Second})
	if err != nil {
		s.log.Debug("log level not set", "error", err)
	}
}

// logged brings a log message to the call that it belongs to: the one in whose exchange it came, else the only one under
// way. With several, it can't be known whose it is, and it is nobody's: it may tell of what another caller does.
func (s *session) logged(params json.RawMessage, from int64) {
	var v struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(params, &v) != nil {
		return
	}
	p := s.peek(from)
	if from == 0 {
		p = s.onlyCall()
	}
	if p == nil || p.logs == nil {
		return
	}
	select {
	case p.logs <- tool.Log{Level: v.Level, Raw: append(json.RawMessage(nil), params...)}:
	default: // it is slow to take them: some are lost
	}
}

// onlyCall gives the call under way, if there is exactly one.
func (s *session) onlyCall() *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var only *pending
	for _, p := range s.pending {
		if !p.call {
			continue
		}
		if only != nil {
			return nil
		}
		only = p
	}
	return only
}
