package mcpserver

import (
	"context"
	"log/slog"
)

// sdkLog returns a logger for the SDK that logs all records at level debug. What the SDK calls an
// error is usually a client's mistake, and clients must not be able to fill the log.
func sdkLog(l *slog.Logger) *slog.Logger { return slog.New(debugHandler{l.Handler()}) }

type debugHandler struct{ slog.Handler }

func (h debugHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h debugHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return debugHandler{h.Handler.WithAttrs(a)}
}

func (h debugHandler) WithGroup(n string) slog.Handler { return debugHandler{h.Handler.WithGroup(n)} }
