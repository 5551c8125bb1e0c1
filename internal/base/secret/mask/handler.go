package mask

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler that masks secrets in log records before it passes them to next.
func (m *Masker) Handler(next slog.Handler) slog.Handler {
	if m == nil {
		return next
	}
	return &handler{m, next}
}

type handler struct {
	mask *Masker
	next slog.Handler
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.mask.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.maskAttr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h *handler) WithAttrs(all []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(all))
	for i, a := range all {
		out[i] = h.maskAttr(a)
	}
	return &handler{h.mask, h.next.WithAttrs(out)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.mask, h.next.WithGroup(name)}
}

// maskAttr returns a without secrets. A value that isn't a string keeps its type if it contains no
// secret.
func (h *handler) maskAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.mask.Text(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, len(v.Group()))
		for i, g := range v.Group() {
			group[i] = h.maskAttr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		text := fmt.Sprintf("%+v", v.Any())
		if clean := h.mask.Text(text); clean != text {
			return slog.String(a.Key, clean)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
