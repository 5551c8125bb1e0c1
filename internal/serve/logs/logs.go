// Package logs keeps the newest lines of the log in memory, so that the API can show them.
package logs

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/api"
)

// Bounds of what is kept.
const (
	maxLines = 2000
	maxLine  = 8 << 10 // bytes; longer lines are cut
)

// A Book keeps the newest lines. The zero Book is empty. It is safe for concurrent use.
type Book struct {
	mu      sync.Mutex
	lines   []api.LogLine
	last    int64
	changed chan struct{} // closed at the next line; nil: no one waits
}

// WrapHandler returns a handler that adds records to the book, at level info and above, and passes
// them to next. The records must have no secrets.
func (b *Book) WrapHandler(next slog.Handler) slog.Handler {
	return &handler{b, next, nil}
}

// ReadLines returns the lines after the one with a number, oldest first. If there are none and wait
// is true, it waits for one until ctx is done.
func (b *Book) ReadLines(ctx context.Context, after int64, wait bool) []api.LogLine {
	for {
		b.mu.Lock()
		at, _ := slices.BinarySearchFunc(b.lines, after+1, func(l api.LogLine, n int64) int { return int(l.Line - n) })
		found := slices.Clone(b.lines[at:])
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if len(found) > 0 || !wait {
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *Book) addLine(l api.LogLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	l.Line = b.last
	if len(b.lines) >= maxLines {
		b.lines = slices.Delete(b.lines, 0, maxLines/10)
	}
	b.lines = append(b.lines, l)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

type handler struct {
	book *Book
	next slog.Handler
	with []func(slog.Handler) slog.Handler // what WithAttrs and WithGroup have added
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		var text bytes.Buffer
		var line slog.Handler = slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: dropHead})
		for _, add := range h.with {
			line = add(line)
		}
		if err := line.Handle(ctx, r); err != nil {
			return err
		}
		whole := strings.TrimSuffix(text.String(), "\n")
		if len(whole) > maxLine {
			whole = strings.ToValidUTF8(whole[:maxLine], "") + "…"
		}
		h.book.addLine(api.LogLine{Time: r.Time.UTC(), Level: r.Level.String(), Text: whole})
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// dropHead drops the time and the level, which a line has in separate fields.
func dropHead(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(all []slog.Attr) slog.Handler {
	return &handler{h.book, h.next.WithAttrs(all), append(slices.Clone(h.with),
		func(t slog.Handler) slog.Handler { return t.WithAttrs(all) })}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.book, h.next.WithGroup(name), append(slices.Clone(h.with),
		func(t slog.Handler) slog.Handler { return t.WithGroup(name) })}
}
