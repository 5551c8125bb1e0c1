package preview_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/preview"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A hostile is a sandbox whose server does what serve does. The other methods are those of a rig.
type hostile struct {
	rig
	serve  func(net.Conn) // nil: connecting to the port never ends
	served sync.WaitGroup
}

// DialPort implements preview.Dialer.
func (h *hostile) DialPort(ctx context.Context, _ *preview.Maker, _ int) (net.Conn, error) {
	if h.serve == nil {
		h.served.Add(1)
		defer h.served.Done()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	inner, outer := net.Pipe()
	h.served.Go(func() { h.serve(inner) })
	return outer, nil
}

// answerSlowly reads a request, and writes a text again and again, slowly.
func answerSlowly(c net.Conn, first, text string) {
	in := bufio.NewReader(c)
	if _, err := http.ReadRequest(in); err != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, in) }()
	for ; ; first = text {
		if _, err := io.WriteString(c, first); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// TestSlowServers checks that a request for a server that never answers ends with an error, long
// before its link does, and that a slow upload and a slow answer arrive.
func TestSlowServers(t *testing.T) {
	const upload = 2_000_000
	answer := func(c net.Conn) {
		defer c.Close()
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Errorf("ReadRequest: %v", err)
			return
		}
		var size int
		for b := make([]byte, 10_000); ; size += len(b) {
			if _, err := io.ReadFull(q.Body, b); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if size != upload {
			t.Errorf("the server received %d bytes, want %d", size, upload)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for range 100 {
			time.Sleep(10 * time.Second)
			_, _ = io.WriteString(c, "x")
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  int
	}{
		"a header line without end": {func(c net.Conn) { answerSlowly(c, "HTTP/1.1 200 OK\r\nX: ", "x") }, 502},
		"headers without end":       {func(c net.Conn) { answerSlowly(c, "HTTP/1.1 200 OK\r\n", "X: x\r\n") }, 502},
		"informational answers": {func(c net.Conn) {
			answerSlowly(c, "", "HTTP/1.1 103 Early Hints\r\nX: x\r\n\r\n")
		}, 502},
		"large headers": {func(c net.Conn) {
			answerSlowly(c, "HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 10_000)+"\r\n")
		}, 502},
		"nothing is read": {func(net.Conn) {}, 502},
		"no connection":   {nil, 502},
		"a slow server":   {answer, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hostile{serve: c.serve}
				links := preview.NewServer(preview.Config{Dialer: h, Key: h, Permit: h})
				path, _, err := links.MakeLink(&preview.Maker{Call: &tool.Call{Principal: tool.Principal{ID: "ann"}},
					Sandbox: "sb_a"}, 80, 24*time.Hour)
				if err != nil {
					t.Fatalf("MakeLink: %v", err)
				}
				w := httptest.NewRecorder()
				begun := time.Now()
				links.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", path,
					strings.NewReader(strings.Repeat("x", upload))))
				switch took := time.Since(begun); {
				case w.Code != c.want:
					t.Errorf("the answer is %d %q after %v, want %d", w.Code, w.Body, took, c.want)
				case c.want == http.StatusOK && w.Body.Len() != 100:
					t.Errorf("%d bytes arrived, want 100", w.Body.Len())
				case c.want != http.StatusOK && took > 5*time.Minute:
					t.Errorf("the answer arrived after %v", took)
				}
				links.CloseAll()
				h.served.Wait() // their connections end
			})
		})
	}
}
