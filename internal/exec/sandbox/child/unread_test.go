package child

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A pipePeer is a child process at the other end of a pipe, which holds no bytes.
type pipePeer struct{ net.Conn }

func (p pipePeer) kill()         { _ = p.Close() }
func (p pipePeer) wait() string  { return "was killed" }
func (p pipePeer) memory() int64 { return 0 }

// A waitingGuest is a guest stream whose host sends its bytes, if it has any, and then waits until
// the stream is closed.
type waitingGuest struct {
	bytes  chan []byte
	closed chan struct{}
	once   sync.Once
}

func newWaitingGuest() *waitingGuest {
	return &waitingGuest{bytes: make(chan []byte, 1), closed: make(chan struct{})}
}

func (g *waitingGuest) Read(p []byte) (int, error) {
	select {
	case b := <-g.bytes:
		return copy(p, b), nil
	case <-g.closed:
		return 0, io.EOF
	}
}

func (g *waitingGuest) Write(p []byte) (int, error) { return len(p), nil }

func (g *waitingGuest) Close() error {
	g.once.Do(func() { close(g.closed) })
	return nil
}

// TestEndUnread checks that a Run ends, and the process with it, if the process sends the result
// and reads nothing more, whatever the host is sending to it.
func TestEndUnread(t *testing.T) {
	for name, c := range map[string]struct{ ask, input bool }{"an answer": {ask: true}, "input": {input: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, outer := net.Pipe()
				p := newProcess(&Driver{log: slog.New(slog.DiscardHandler)})
				p.peer, p.w = pipePeer{outer}, newWriter(outer)
				p.listener = newListener(outer, false, p.handleFrame)
				listened := make(chan error, 1)
				go func() { listened <- p.listener.run() }()
				box, err := p.addSandbox()
				if err != nil {
					t.Fatalf("addSandbox: %v", err)
				}
				g := newWaitingGuest()
				ended := make(chan error, 1)
				go func() {
					_, err := box.Run(t.Context(), &sandbox.Cmd{Guest: g,
						Ask: func(context.Context, []byte) []byte { return make([]byte, maxPayload) }})
					ended <- err
				}()
				f, err := newReader(inner).next()
				if err != nil || f.kind != kindRun {
					t.Fatalf("the child received %+v, %v, want a Run", f, err)
				}
				if c.ask {
					err = sendParts(newWriter(inner), kindAsk, f.box, f.op, 1, []byte("why?"))
				} else {
					g.bytes <- []byte("a line\n")
				}
				synctest.Wait() // it is being sent
				if err == nil {
					err = newWriter(inner).send(kindResult, f.box, f.op, result{exit: 7}.append(nil), nil)
				}
				if err != nil {
					t.Fatalf("send: %v", err)
				}
				if err := <-ended; err != nil {
					t.Errorf("Run: %v, want the result that the child sent", err)
				}
				if err := <-listened; err == nil || p.usable() {
					t.Errorf("the process that reads nothing is kept: %v", err)
				}
			})
		})
	}
}
