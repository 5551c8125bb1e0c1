package logs

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

func TestLines(t *testing.T) {
	var b Book
	var out bytes.Buffer
	log := slog.New(b.WrapHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})))
	log.Debug("not kept")
	log.With("part", "p").WithGroup("g").Info("started", "n", 1)
	log.Error("failed", "why", strings.Repeat("ä", maxLine))
	got := b.ReadLines(t.Context(), 0, false)
	if len(got) != 2 || got[0].Text != "msg=started part=p g.n=1" || got[0].Level != "INFO" || got[0].Line != 1 {
		t.Fatalf("got %+v, want two lines", got)
	}
	if n := len(got[1].Text); n > maxLine+3 || !strings.HasSuffix(got[1].Text, "…") {
		t.Errorf("the long line has %d bytes and ends with %q; want it cut", n, got[1].Text[n-10:])
	}
	if text := out.String(); strings.Contains(text, "started") || !strings.Contains(text, "failed") {
		t.Errorf("the next handler got %.100q, want only the error", text)
	}
	for i := range 3 * maxLines {
		log.Info(strconv.Itoa(i))
	}
	got = b.ReadLines(t.Context(), got[1].Line, false)
	if len(got) > maxLines || got[len(got)-1].Text != "msg="+strconv.Itoa(3*maxLines-1) {
		t.Errorf("got %d lines up to %+v; want at most %d, up to the last", len(got), got[len(got)-1], maxLines)
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		log := slog.New(b.WrapHandler(slog.DiscardHandler))
		got := make(chan int)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			got <- len(b.ReadLines(ctx, 0, true))
			got <- len(b.ReadLines(ctx, 1, true))
		}()
		synctest.Wait()
		log.Info("one")
		if n := <-got; n != 1 {
			t.Errorf("got %d lines, want 1", n)
		}
		synctest.Wait()
		cancel()
		if n := <-got; n != 0 {
			t.Errorf("got %d lines after the end, want 0", n)
		}
	})
}
