package child

import (
	"context"
	"io"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// run runs the guest, with the parent as its host.
func (b *box) run(t *task, c command) result {
	made, err := b.inner()
	if err != nil {
		return result{err: err}
	}
	cmd := &sandbox.Cmd{Guest: &stream{task: t}, Keep: c.keep, Once: c.once, CPU: c.cpu}
	if c.asks {
		cmd.Ask = t.ask
	}
	if c.next {
		cmd.Next = func(ctx context.Context) []byte { return t.ask(ctx, nil) }
	}
	exit, err := made.Run(t.ctx, cmd)
	return result{exit: exit, usage: cmd.Usage, err: err}
}

// A stream is the guest stream of a task. It writes and pushes as the task's flow does.
type stream struct {
	*task
	left []byte // received bytes that were not read yet; used only by Read
}

// Read reads the host's bytes.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		var ended bool
		if s.left, ended = s.take(); len(s.left) > 0 {
			break
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-s.more:
		case <-s.over:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, s.returnCredit(n)
}

// Write sends the guest's output to the host.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Listen polls the socket briefly (see pollTime) if polling is likely to succeed.
func (s *stream) Listen(there func() bool) { s.listener.listen(there) }

// Close ends the stream when the driver no longer needs it.
func (s *stream) Close() error {
	s.finish()
	return nil
}

// ask sends a question to the parent and returns the answer, or nil when the run is stopped. Only
// the guest's own driver stops it, through ctx; a request of the parent is not enough. A guest that
// continued in between would ask again, and break the protocol.
func (t *task) ask(ctx context.Context, question []byte) []byte {
	if len(question) > maxAsk {
		return nil
	}
	t.mu.Lock()
	t.count++
	number := t.count
	t.asking, t.answer = true, nil
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.asking, t.answer = false, nil
	}()
	if sendParts(t.w, kindAsk, t.box, t.op, number, question) != nil {
		return nil
	}
	// otherwise the socket may go unread for a while
	t.listener.listen(func() bool { return len(t.answers) > 0 || ctx.Err() != nil })
	select {
	case all := <-t.answers:
		return all
	case <-ctx.Done():
	}
	return nil
}

// handleAnswer handles a part of an answer. An answer that is no longer awaited is dropped.
func (t *task) handleAnswer(payload []byte) error {
	number, more, text, err := parsePart(payload)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case number > t.count:
		return protocolErrorf("an answer to a question that was not asked")
	case !t.asking || number != t.count:
		return nil
	case len(t.answer)+len(text) > maxAsk:
		return protocolErrorf("an answer of more than %d MiB", maxAsk>>20)
	}
	if t.answer = append(t.answer, text...); !more {
		t.asking = false
		t.answers <- t.answer // never blocks: a question has one answer
	}
	return nil
}
