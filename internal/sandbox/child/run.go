package child

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// lastWords is how long the host has to read what a guest said before its end.
	lastWords = time.Second
	// stopTime is how long a child has to stop a Run; it has means of its own that take milliseconds.
	stopTime = 3 * time.Second
)

// A run is one Run of a sandbox, seen from the parent. The caller's goroutine writes what the guest says; another one
// reads what the host says, unless the stream pushes it.
type run struct {
	s    *Sandbox
	o    *operation
	cmd  *sandbox.Cmd
	ctx  context.Context // done when the Run is over
	asks sync.WaitGroup

	host  sandbox.Pusher // cmd.Guest, if it is one
	input sync.WaitGroup // who sends what the host says, where that has to wait
	said  atomic.Uint32  // how often it has pushed something
	left  backlog

	mu       sync.Mutex
	begun    bool        // the child has been told
	cause    error       // why it was stopped
	kill     *time.Timer // when the process is ended because the Run isn't
	late     *time.Timer // when the stream is closed because the host doesn't read
	over     bool
	asking   bool
	question []byte // that has not come whole
}

// Run runs the guest in the child. It closes cmd.Guest at the end if that has a Close method, as a process closes its end
// of a pipe: otherwise a Read of it that is under way goes on, on a goroutine that is left behind, until the other side
// ends it. When the process ends, the error is a *tool.Error of kind unavailable around a *sandbox.CrashError.
func (s *Sandbox) Run(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	if cmd.Guest == nil {
		return -1, tool.Errorf(tool.Invalid, "a guest needs a stream")
	}
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{s: s, cmd: cmd, ctx: ctx}
	if _, err = s.begin(kindRun, r); err != nil {
		return -1, err
	}
	unhook := context.AfterFunc(ctx, func() { r.stop(context.Cause(ctx)) })
	c := command{keep: cmd.Keep, asks: cmd.Ask != nil, next: cmd.Next != nil, cpu: cmd.CPU}
	_ = s.p.w.queue(kindRun, s.id, r.o.op, c.append(nil)) // where it fails, started sees it
	if p, ok := cmd.Guest.(sandbox.Pusher); ok {
		r.host = p
		p.Push(r.put)
	} else {
		r.input.Go(r.feed)
		runtime.Gosched() // the program goes in one write with the Run, if it is there already
	}
	r.started()
	res := r.pump()
	unhook()
	cancel()
	err = r.finish(res)
	if c, ok := cmd.Guest.(io.Closer); ok {
		_ = c.Close() // the other side sees the end of the stream
		r.left.close()
		r.input.Wait()
	}
	r.asks.Wait()
	cmd.Usage = res.usage
	if err != nil {
		s.mu.Lock()
		if s.unmade != nil {
			err = s.unmade
		}
		s.ended = err
		s.mu.Unlock()
		return -1, fmt.Errorf("run a guest: %w", err)
	}
	return res.exit, nil
}

// started makes sure that the child hears of the Run, and of its end where it was stopped before it began.
func (r *run) started() {
	if err := r.s.p.w.push(); err != nil {
		r.s.p.end("")
	}
	r.mu.Lock()
	r.begun = true
	stopped := r.cause != nil
	r.mu.Unlock()
	if stopped {
		r.tell(kindCancel)
	}
}

// feed sends what the host says.
func (r *run) feed() {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.cmd.Guest.Read(buf)
		if n > 0 {
			if r.o.send(buf[:n]) != nil {
				return // the Run is over
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

// A backlog is what a host that pushes has said and could not be sent at once.
type backlog struct {
	mu    sync.Mutex
	b     []byte
	going bool  // sendLeft is at it
	end   error // how it ends
}

// close makes put take nothing any more.
func (l *backlog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b, l.end = nil, io.EOF
}

// put takes what the host pushes: on its goroutine it is sent, as far as that needs no waiting for the child.
func (r *run) put(p []byte, end error) (took int) {
	r.said.Add(1)
	l := &r.left
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		return len(p)
	}
	if !l.going {
		var err error
		if took, err = r.o.sendNow(p); err != nil {
			return len(p) // the Run is over
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

// sendLeft sends what put could not, as the child takes it.
func (r *run) sendLeft() {
	l := &r.left
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
		if r.o.send(b) != nil {
			return // the Run is over
		}
		r.host.Took(len(b))
	}
}

// hungUp hears how what the host says has ended.
func (r *run) hungUp(end error) {
	if end != io.EOF {
		r.stop(fmt.Errorf("read the guest stream: %w", end))
		return
	}
	select {
	case <-r.o.over:
	default:
		if _, err := r.s.p.w.sendNow(kindEnd, r.s.id, r.o.op, nil); err != nil { // whoever says it may hold locks
			r.s.p.end("")
		}
	}
}

// tell sends a frame without a payload while the Run is under way.
func (r *run) tell(k kind) {
	select {
	case <-r.o.over:
	default:
		r.s.p.send(k, r.s.id, r.o.op, nil)
	}
}

// pump hands what the guest says to the host, until the result is there.
func (r *run) pump() result {
	deaf := false
	write := func() {
		b, _ := r.o.take()
		if len(b) == 0 {
			return
		}
		if !deaf {
			if _, err := r.cmd.Guest.Write(b); err != nil {
				deaf = true
				r.tell(kindDeaf)
				if !sandbox.HungUp(err) {
					r.stop(fmt.Errorf("write to the guest stream: %w", err))
				}
			}
		}
		_ = r.o.took(len(b)) // where it fails, a result says why
	}
	there := func() bool { return len(r.o.more) > 0 || len(r.o.done) > 0 }
	for {
		woken := r.s.p.ears.sleeping(there)
		select {
		case <-r.o.more:
			woken()
			said := r.said.Load()
			write()
			if r.said.Load() == said {
				runtime.Gosched() // who is to answer goes before who waits for the guest
			}
		case res := <-r.o.done:
			woken()
			write()
			return res
		}
	}
}

// stop makes the child stop the guest, and ends it where it doesn't. The first cause counts.
func (r *run) stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil || r.over {
		return
	}
	r.cause = cause
	r.kill = time.AfterFunc(stopTime, func() { r.s.p.end("was ended because it did not stop a program") })
	if r.begun {
		r.asks.Go(func() { r.tell(kindCancel) }) // a write may wait, and whoever stops may not
	}
}

// hurry hears that the result is there: the host has a moment to read the rest.
func (r *run) hurry() {
	c, ok := r.cmd.Guest.(io.Closer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok && !r.over {
		r.late = time.AfterFunc(lastWords, func() { _ = c.Close() })
	}
}

// finish ends the Run for all who have a part in it, and gives its error.
func (r *run) finish(res result) error {
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
	_ = r.s.p.hoard(-n)
	if r.cause != nil {
		return r.cause
	}
	return res.err
}

// reply answers a question. One without a byte is for the next line.
func (r *run) reply(question []byte) []byte {
	switch {
	case len(question) == 0 && r.cmd.Next != nil:
		return r.cmd.Next(r.ctx)
	case r.cmd.Ask != nil:
		return r.cmd.Ask(r.ctx, question)
	}
	return nil
}

// asked takes a part of a question, and has it answered when it is whole.
func (r *run) asked(payload []byte) error {
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
		return breached("a question where nobody answers")
	case r.asking:
		return breached("a question before the answer to the last one")
	case len(r.question)+len(text) > maxAsk:
		return breached("a question of more than %d MiB", maxAsk>>20)
	}
	if err := r.s.p.hoard(len(text)); err != nil {
		return err
	}
	r.question = append(r.question, text...)
	if more {
		return nil
	}
	q := r.question
	r.question, r.asking = nil, true
	r.asks.Go(func() {
		defer func() { _ = r.s.p.hoard(-len(q)) }()
		answer := r.reply(q)
		if len(answer) > maxAsk {
			r.stop(tool.Errorf(tool.Limit, "%w", tooLong("the answer to a question of the program")))
			return
		}
		r.mu.Lock()
		r.asking = false
		r.mu.Unlock()
		if r.ctx.Err() == nil {
			_ = sendParts(r.s.p.w, kindAnswer, r.s.id, r.o.op, number, answer) // where it fails, a result says why
		}
	})
	return nil
}
