package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

func TestStdioAnswersBeforeItEnds(t *testing.T) { synctest.Test(t, stdioAnswersBeforeItEnds) }

func stdioAnswersBeforeItEnds(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		select {
		case <-time.After(5 * time.Second): // the input is closed before that
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return tool.Text(false, "done"), nil
	})
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up_echo"}}` // no newline at the end
	var out bytes.Buffer
	if err := mcpserver.New(config(d, mcpserver.Code)).ServeStdio(t.Context(), strings.NewReader(in),
		&out); err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], `"done"`) {
		t.Errorf("output: %q", lines)
	}
}

func TestStdioDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up_echo"}}` + "\n"
		start := time.Now()
		if err := mcpserver.New(config(d, mcpserver.Code)).ServeStdio(t.Context(), strings.NewReader(in),
			io.Discard); err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("ended after %v", got)
		}
	})
}

func TestStdioEndsWithItsContext(t *testing.T) {
	d := newDoor()
	started, over := make(chan struct{}), make(chan struct{})
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(started)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("the call ends because of %v", cause)
		}
		close(over)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	in, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcpserver.New(config(d, mcpserver.Code)).ServeStdio(ctx, in, io.Discard) }()
	io.WriteString(w, hello+`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up_echo"}}`+"\n")
	<-started
	interrupt := errors.New("interrupted")
	cancel(interrupt)
	if err := <-done; !errors.Is(err, interrupt) {
		t.Errorf("gave %v", err)
	}
	<-over
	if _, err := io.WriteString(w, "x"); err == nil {
		t.Error("the input is still read")
	}
}

func TestStdioSurvivesBadLines(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Limits.Body = 1 << 16
	p := startStdio(t, mcpserver.New(cfg), "2025-11-25")
	for line, want := range map[string]string{
		"hello": `{"jsonrpc":"2.0","error":{"code":-32700,"message":"message is not valid JSON"}}`,
		"17":    `{"jsonrpc":"2.0","error":{"code":-32600,"message":"message is not a JSON-RPC object"}}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"id must be ` +
			`a string, or an integer of at most 2^53"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"batches ` +
			`are not supported: send one message a line"}}`,
		`{"id":77,"method":"ping"}`: `{"jsonrpc":"2.0","id":77,"error":{"code":-32600,"message":"message is not ` +
			`JSON-RPC 2.0: ` +
			`invalid message version tag \"\"; expected \"2.0\""}}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<16) +
			`","method":"ping"}`: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"message is larger than 65536 ` +
			`bytes"}}`,
		strings.Repeat("[", 5000): `{"jsonrpc":"2.0","error":{"code":-32600,"message":"message nests deeper than ` +
			`1000 levels"}}`,
	} {
		p.write(t, line)
		if got := p.read(t); got != want {
			t.Errorf("%.60s:\nwant %s\ngot  %s", line, want, got)
		}
	}
	p.write(t, "\n  \r")
	p.write(t, `{"jsonrpc":"2.0","id":"`+strings.Repeat("y", 60000)+`","method":"nonesuch"}`+"\r")
	if got := p.read(t); !strings.Contains(got, "-32601") {
		t.Errorf("a long id: %.100s", got)
	}
	if res, _ := p.call(t, "ping", ""); !strings.Contains(res, `"result":{}`) {
		t.Errorf("ping: %s", res)
	}
}

// A lateWriter returns from Write only after others had a chance to run.
type lateWriter struct{ io.Writer }

func (w lateWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	for range 100 {
		runtime.Gosched()
	}
	return n, err
}

// TestReusedID checks that an id is free once the peer has read the response.
func TestReusedID(t *testing.T) {
	inR, in := io.Pipe()
	outR, out := io.Pipe()
	defer in.Close()
	defer outR.Close()
	go mcpserver.New(config(newDoor(), mcpserver.Code)).ServeStdio(t.Context(), inR, lateWriter{out})
	lines := bufio.NewScanner(outR)
	for i := range 100 {
		if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":7,"method":"ping"}`+"\n"); err != nil {
			t.Fatalf("io.WriteString: %v", err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), `"result":{}`) {
			t.Fatalf("ping %d: got %s, %v, want a result", i, lines.Text(), lines.Err())
		}
	}
}

func TestStdioCancellation(t *testing.T) {
	d := newDoor()
	started, over := make(chan struct{}, 1), make(chan struct{}, 1)
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		over <- struct{}{}
		return nil, ctx.Err()
	})
	p := startStdio(t, mcpserver.New(config(d, mcpserver.Code)), "2025-11-25")
	p.write(t, `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"up_echo"}}`)
	<-started
	p.write(t, `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"up_echo"}}`)
	if got := p.read(t); !strings.Contains(got, "still in progress") {
		t.Errorf("an id twice: %s", got)
	}
	p.write(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c","reason":"changed my `+
		`mind"}}`)
	<-over
	p.read(t) // the SDK answers canceled requests, too
	if res, _ := p.call(t, "ping", ""); !strings.Contains(res, `"result":{}`) {
		t.Errorf("ping: %s", res)
	}
}

// TestStdioFlood checks that a client that sends without reading is slowed down.
func TestStdioFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(newDoor(), mcpserver.Code)
		cfg.Limits.StdioPending = 8
		in, w := io.Pipe()
		outR, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mcpserver.New(cfg).ServeStdio(ctx, in, out) }()
		io.WriteString(w, strings.Split(hello, "\n")[0]+"\n")
		io.ReadFull(outR, make([]byte, 1)) // it has started to answer; nothing is read from here on
		written, finished := 0, make(chan struct{})
		go func() {
			defer close(finished)
			for ; written < 10_000; written++ {
				if _, err := io.WriteString(w, `{"jsonrpc":"2.0","id":"`+strings.Repeat("p", written+1)+
					`","method":"ping"}`+"\n"); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		select {
		case <-finished:
			t.Error("all was taken in")
		default:
		}
		cancel()
		outR.Close()
		<-done
		<-finished
		if written > 20 {
			t.Errorf("took in %d requests", written)
		}
	})
}
