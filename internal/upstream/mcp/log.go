package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// askForLogs asks a server of a revision before 2026-07-28, once, to send log messages. Since then
// each request asks for them itself. All levels are requested, since messages are dropped for calls
// that don't want them.
func (s *session) askForLogs(ctx context.Context) {
	if !s.logs || s.modern.Load() || s.askedLogs.Swap(true) {
		return
	}
	_, err := s.sendRequest(ctx,
		query{method: "logging/setLevel", fields: []byte(`"level":"debug"`), idle: 5 * time.Second})
	if err != nil {
		s.log.Debug("log level not set", "error", err)
	}
}

// passLog passes a log message to its call: the one in whose exchange it arrived, or else the only
// one in progress. If there are several, the message is dropped, since it may reveal what another
// caller does.
func (s *session) passLog(params json.RawMessage, from int64) {
	var v struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(params, &v) != nil {
		return
	}
	p := s.peekRequest(from)
	if from == 0 {
		p = s.onlyCall()
	}
	if p == nil || p.logs == nil {
		return
	}
	select {
	case p.logs <- tool.Log{Level: v.Level, Raw: append(json.RawMessage(nil), params...)}:
	default: // the receiver is slow: some are dropped
	}
}
