package child

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// drainTime is how long the host may still read the guest's output after the guest has ended.
	drainTime = time.Second
	// stopTime is how long a child may take to stop a Run. It has its own means, which take
	// milliseconds.
	stopTime = 3 * time.Second
)

// A remoteRun is the parent's view of one Run. The caller's goroutine writes the guest's output to
// the stream. Another goroutine reads the host's bytes, unless the stream pushes them.
type remoteRun struct {
	s    *Sandbox
	o    *operation
	cmd  *sandbox.Cmd
	ctx  context.Context // done when the Run ends
	asks sync.WaitGroup
	// sending is the number of goroutines that wait until the child has room for what they send.
	sending atomic.Int32

	host    sandbox.Pusher // cmd.Guest, if it is a Pusher
	input   sync.WaitGroup // goroutines that send the host's bytes, if sending has to wait
	pushes  atomic.Uint32  // how often the host has pushed
	backlog backlog

	mu       sync.Mutex
	begun    bool        // the child has received the Run
	cause    error       // reason of the stop
	kill     *time.Timer // kills the process if the Run doesn't stop
	late     *time.Timer // closes the stream if the host doesn't read
	unread   *time.Timer // kills the process if it doesn't read
	over     bool
	asking   bool
	question []byte // partially received question
}

// Run runs the guest in the child. At the end it closes cmd.Guest if it has a Close method, as a
// process closes its end of a pipe. Otherwise a pending Read continues on a leaked goroutine until
// the other side closes the stream. If the process ends, the error is a *tool.Error of kind
// unavailable that wraps a *sandbox.CrashError.
func (s *Sandbox) Run(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	if cmd.Guest == nil {
		return -1, tool.Errorf(tool.Invalid, "a guest needs a stream")
	}
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &remoteRun{s: s, cmd: cmd, ctx: ctx}
	if _, err = s.beginOperation(kindRun, r); err != nil {
		return -1, err
	}
	unhook := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	c := command{keep: cmd.Keep, asks: cmd.Ask != nil, next: cmd.Next != nil, once: cmd.Once,
		cpu: cmd.CPU}
	_ = s.p.w.queue(kindRun, s.id, r.o.op, c.append(nil)) // if this fails, flushRun notices
	if p, ok := cmd.Guest.(sandbox.Pusher); ok {
		r.host = p
		p.Push(r)
	} else {
		r.input.Go(r.copyInput)
		runtime.Gosched() // sends the program and the Run in one write, if the program is already there
	}
	r.flushRun()
	res := r.pumpOutput()
	unhook()
	cancel()
	err = r.finishRun(res)
	if c, ok := cmd.Guest.(io.Closer); ok {
		_ = c.Close() // the other side sees EOF
		r.backlog.close()
		r.input.Wait()
	}
	r.asks.Wait()
	r.stopUnreadTimer()
	cmd.Usage = res.usage
	if err != nil {
		s.mu.Lock()
		if s.createError != nil {
			err = s.createError
		}
		s.ended = err
		s.mu.Unlock()
		return -1, fmt.Errorf("run a guest: %w", err)
	}
	return res.exit, nil
}

// flushRun flushes the Run to the child. If the Run was stopped before, it also sends the
// cancellation.
func (r *remoteRun) flushRun() {
	r.sending.Add(1)
	err := r.s.p.w.push() // it may also send what others have added
	r.sending.Add(-1)
	if err != nil {
		r.s.p.kill("")
	}
	r.mu.Lock()
	r.begun = true
	stopped := r.cause != nil
	r.mu.Unlock()
	if stopped {
		r.sendEmpty(kindCancel)
	}
}

// copyInput sends the host's bytes to the child.
func (r *remoteRun) copyInput() {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.cmd.Guest.Read(buf)
		if n > 0 {
			if r.sendInput(buf[:n]) != nil {
				return // the Run has ended
			}
			if n == len(buf) && n < partSize {
				buf = make([]byte, 2*n)
			}
		}
		if err != nil {
			r.hungUp(err)
			return
		}
	}
}

// A backlog is the bytes pushed by the host that could not be sent immediately.
type backlog struct {
	mu    sync.Mutex
	b     []byte
	going bool  // sendLeft is running
	end   error // error after the host's last bytes; nil: more may come
}

// close makes put discard its input.
func (l *backlog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b, l.end = nil, io.EOF
}

// AcceptPush accepts bytes pushed by the host. On the host's goroutine it sends as much as possible
// without waiting for the child.
func (r *remoteRun) AcceptPush(p []byte, end error) (took int) {
	r.pushes.Add(1)
	l := &r.backlog
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		return len(p)
	}
	if !l.going {
		var err error
		if took, err = r.o.WriteNow(p, false); err != nil {
			return len(p) // the Run has ended
		}
	}
	l.b, l.end = append(l.b, p[took:]...), end
	switch {
	case l.going:
	case len(l.b) > 0:
		l.going = true
		r.input.Go(r.sendLeft)
	case end != nil:
		r.hungUp(end)
	}
	return took
}

// sendLeft sends the backlog as fast as the child accepts it.
func (r *remoteRun) sendLeft() {
	l := &r.backlog
	for {
		l.mu.Lock()
		b, end := l.b, l.end
		l.b = nil
		l.going = len(b) > 0
		l.mu.Unlock()
		if len(b) == 0 {
			if end != nil {
				r.hungUp(end)
			}
			return
		}
		if r.sendInput(b) != nil {
			return // the Run has ended
		}
		r.host.AddCredit(len(b))
	}
}

// hungUp handles the end of the host's bytes.
func (r *remoteRun) hungUp(end error) {
	if end != io.EOF {
		r.stop(fmt.Errorf("read the guest stream: %w", end))
		return
	}
	select {
	case <-r.o.over:
	default:
		// the caller may hold locks, so this must not block
		if _, err := r.s.p.w.sendNow(kindEnd, r.s.id, r.o.op, nil, false); err != nil {
			r.s.p.kill("")
		}
	}
}

// sendInput sends bytes of the host. It fails if the Run has ended.
func (r *remoteRun) sendInput(b []byte) error {
	r.sending.Add(1)
	defer r.sending.Add(-1)
	return r.o.send(b)
}

// sendEmpty sends a frame without a payload if the Run has not ended.
func (r *remoteRun) sendEmpty(k kind) {
	r.sending.Add(1)
	defer r.sending.Add(-1)
	select {
	case <-r.o.over:
	default:
		r.s.p.send(k, r.s.id, r.o.op, nil)
	}
}

// pumpOutput writes the guest's output to the host until the result arrives.
func (r *remoteRun) pumpOutput() result {
	there := func() bool { return len(r.o.more) > 0 || len(r.o.done) > 0 }
	var res result
	unread, over := false, false
	for {
		woken := r.s.p.listener.markAsleep(there)
		select {
		case <-r.o.more:
		case res = <-r.o.done:
			over = true
		}
		woken()
		pushes := r.pushes.Load()
		b, _ := r.o.take()
		if len(b) > 0 && !unread {
			if _, err := r.cmd.Guest.Write(b); err != nil {
				unread = true
				r.sendEmpty(kindUnread)
				if !sandbox.HungUp(err) {
					r.stop(fmt.Errorf("write to the guest stream: %w", err))
				}
			}
		}
		if len(b) > 0 {
			r.sending.Add(1)
			r.o.AddCredit(len(b))
			r.sending.Add(-1)
		}
		if over {
			return res
		}
		if r.pushes.Load() == pushes {
			runtime.Gosched() // let the goroutine that answers run before the one that waits for the guest
		}
	}
}

// stop tells the child to stop the guest, and kills the child if it doesn't. The first cause is
// kept.
func (r *remoteRun) stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil || r.over {
		return
	}
	r.cause = cause
	r.kill = time.AfterFunc(stopTime, func() { r.s.p.kill("was ended because it did not stop a program") })
	if r.begun {
		r.asks.Go(func() { r.sendEmpty(kindCancel) }) // a write may block, and the caller of stop must not
	}
}

// startEndTimers is called when the result has arrived: the host gets drainTime to read the rest,
// and the child gets stopTime to read what is being sent to it.
func (r *remoteRun) startEndTimers() {
	c, ok := r.cmd.Guest.(io.Closer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if ok {
		r.late = time.AfterFunc(drainTime, func() { _ = c.Close() })
	}
	r.unread = time.AfterFunc(stopTime, func() {
		if r.sending.Load() > 0 {
			r.s.p.kill("was ended because it did not read what was sent to a program")
		}
	})
}

// stopUnreadTimer is called when nothing is being sent any more.
func (r *remoteRun) stopUnreadTimer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unread != nil {
		r.unread.Stop()
	}
}

// finishRun stops the Run's timers, drops a partial question, and returns the Run's error.
func (r *remoteRun) finishRun(res result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, t := range []*time.Timer{r.kill, r.late} {
		if t != nil {
			t.Stop()
		}
	}
	n := len(r.question)
	r.question = nil
	_ = r.s.p.countPartial(-n)
	if r.cause != nil {
		return r.cause
	}
	return res.err
}

// answerQuestion answers a question. An empty question asks for the next line.
func (r *remoteRun) answerQuestion(question []byte) []byte {
	switch {
	case len(question) == 0 && r.cmd.Next != nil:
		return r.cmd.Next(r.ctx)
	case r.cmd.Ask != nil:
		return r.cmd.Ask(r.ctx, question)
	}
	return nil
}

// handleQuestion handles a part of a question, and answers it when it is complete.
func (r *remoteRun) handleQuestion(payload []byte) error {
	number, more, text, err := parsePart(payload)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return nil
	case r.cmd.Ask == nil && r.cmd.Next == nil:
		return protocolErrorf("a question that no one answers")
	case r.asking:
		return protocolErrorf("a question before the answer to the last one")
	case len(r.question)+len(text) > maxAsk:
		return protocolErrorf("a question of more than %d MiB", maxAsk>>20)
	}
	if err := r.s.p.countPartial(len(text)); err != nil {
		return err
	}
	r.question = append(r.question, text...)
	if more {
		return nil
	}
	q := r.question
	r.question, r.asking = nil, true
	r.asks.Go(func() {
		defer func() { _ = r.s.p.countPartial(-len(q)) }()
		answer := r.answerQuestion(q)
		if len(answer) > maxAsk {
			r.stop(tool.Errorf(tool.Limit, "%w", tooLong("the answer to a question of the program")))
			return
		}
		r.mu.Lock()
		r.asking = false
		r.mu.Unlock()
		if r.ctx.Err() == nil {
			r.sending.Add(1)
			defer r.sending.Add(-1)
			// if this fails, a result reports the error
			_ = sendParts(r.s.p.w, kindAnswer, r.s.id, r.o.op, number, answer)
		}
	})
	return nil
}
