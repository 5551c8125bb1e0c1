package child

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Sandbox is the parent's side of a sandbox in a child. It implements sandbox.Sandbox,
// Snapshotter and Forker. An operation that the inner driver doesn't support returns an error.
type Sandbox struct {
	p  *process
	id uint32

	mu            sync.Mutex
	last          uint32     // number of the latest operation
	pendingCreate *operation // a create that is not waited for
	createError   error      // error of that create
	current       *operation // the running operation, or nil
	closing       *operation // a close, which may run beside another operation
	ended         error      // if set, no further operation is possible
	closed        bool
	late          *time.Timer // kills the process if it doesn't close the sandbox
}

// An operation is a request that the child carries out for a sandbox.
type operation struct {
	kind kind
	*flow
	done chan result // receives one result
	run  *remoteRun  // for a kindRun
}

var errClosed = errors.New("the sandbox is closed")

// beginOperation starts an operation. Only one may be running, plus a close.
func (s *Sandbox) beginOperation(k kind, r *remoteRun) (*operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && k != kindClose:
		return nil, &tool.Error{Kind: tool.Conflict, Msg: errClosed.Error(), Err: errClosed}
	case s.p.exitError() != nil:
		return nil, s.p.exitError()
	case s.ended != nil && k != kindClose:
		return nil, tool.Errorf(tool.Conflict, "the sandbox ended with an error and can only be closed: %w", s.ended)
	case s.current != nil && k != kindClose:
		return nil, tool.Errorf(tool.Conflict, "the sandbox is running already")
	}
	s.last++
	o := &operation{kind: k, flow: newFlow(s.p.w, s.id, s.last), done: make(chan result, 1), run: r}
	if k == kindClose {
		s.closing = o
	} else {
		s.current = o
	}
	if r != nil {
		r.o = o // set here, so that every user of the sandbox who finds r also finds r.o
	}
	return o, nil
}

// exitError returns the error with which the process ended, or nil if it has not ended.
func (p *process) exitError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// handleFrame handles a frame from the child.
func (s *Sandbox) handleFrame(f frame) error {
	var r result
	if f.kind == kindResult {
		var err error
		if r, err = parseResult(f.payload); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if m := s.pendingCreate; m != nil && m.op == f.op && f.kind == kindResult {
		s.pendingCreate, s.createError = nil, r.err
		s.mu.Unlock()
		s.p.listener.unawaited = true
		return nil
	}
	o, known := s.current, f.op <= s.last
	if o == nil || o.op != f.op {
		if o = s.closing; o != nil && o.op != f.op {
			o = nil
		}
	}
	var cut *operation // operation that was running when the sandbox was closed
	if o != nil && f.kind == kindResult {
		if o == s.closing {
			s.closing, cut = nil, s.current
		}
		s.current = nil
	}
	s.mu.Unlock()
	if cut != nil {
		s.completeOperation(cut, result{err: &tool.Error{Kind: tool.Conflict, Msg: errClosed.Error(), Err: errClosed}})
	}
	switch {
	case o == nil && known:
		return nil // it ended before this frame was read
	case o == nil:
		return protocolErrorf("a frame of an operation that was never begun")
	}
	switch f.kind {
	case kindResult:
		s.completeOperation(o, r)
		return nil
	case kindCredit:
		return o.grant(f.payload)
	case kindData:
		if o.kind == kindRun || o.kind == kindSnapshot {
			return o.addBytes(f.payload)
		}
	case kindAsk:
		if o.run != nil {
			return o.run.handleQuestion(f.payload)
		}
	}
	return protocolErrorf("a frame of kind %d in an operation of kind %d", f.kind, o.kind)
}

// completeOperation completes an operation with its result.
func (s *Sandbox) completeOperation(o *operation, r result) {
	switch {
	case o.run != nil:
		o.run.startEndTimers()
	case o.kind == kindClose:
		s.handleClose(r.err)
	}
	o.finish()
	o.done <- r
}

// fail ends all running operations with err, and makes later ones fail.
func (s *Sandbox) fail(err error) {
	s.mu.Lock()
	ops := []*operation{s.current, s.closing}
	s.current, s.closing, s.ended = nil, nil, err
	s.mu.Unlock()
	for _, o := range ops {
		if o != nil {
			s.completeOperation(o, result{err: err})
		}
	}
}

// performOperation performs an operation other than a Run, and sends data along with it.
func (s *Sandbox) performOperation(ctx context.Context, k kind, payload, data []byte) (result, error) {
	o, err := s.beginOperation(k, nil)
	if err != nil {
		return result{}, err
	}
	return s.finishOperation(ctx, o, payload, data)
}

// finishOperation performs an operation that beginOperation returned.
func (s *Sandbox) finishOperation(ctx context.Context, o *operation, payload, data []byte) (result, error) {
	late := s.p.startDeadline()
	defer late.Stop()
	if len(data) > 0 {
		_ = s.p.w.queue(o.kind, s.id, o.op, payload)
		_ = o.send(data) // if this fails, the reader notices, and a result reports the error
	} else {
		s.p.send(o.kind, s.id, o.op, payload)
	}
	return s.awaitResult(ctx, o, nil)
}

// startDeadline kills the process after readyTime unless the timer is stopped: only a Run may last
// longer.
func (p *process) startDeadline() *time.Timer {
	return time.AfterFunc(readyTime, func() { p.kill("was ended because it did not answer") })
}

// send sends a control frame. On an error it kills the process; the reader then ends all
// operations.
func (p *process) send(k kind, box, op uint32, payload []byte) {
	if err := p.w.send(k, box, op, payload, nil); err != nil {
		p.kill("")
	}
}

// awaitResult waits for the result of an operation other than a Run, and passes incoming data to
// keep.
func (s *Sandbox) awaitResult(ctx context.Context, o *operation, keep func([]byte) error) (result, error) {
	there := func() bool { return len(o.more) > 0 || len(o.done) > 0 || ctx.Err() != nil }
	for {
		woken := s.p.listener.markAsleep(there)
		select {
		case <-o.more:
			woken()
			b, _ := o.take()
			if keep == nil {
				continue
			}
			if err := keep(b); err != nil {
				return result{}, err
			}
			_ = o.returnCredit(len(b)) // if this fails, a result reports the error
		case r := <-o.done:
			woken()
			if b, _ := o.take(); keep != nil && r.err == nil {
				if err := keep(b); err != nil {
					return result{}, err
				}
			}
			return r, r.err
		case <-ctx.Done():
			woken()
			return result{}, fmt.Errorf("sandbox: %w", context.Cause(ctx))
		}
	}
}

// Snapshot returns the serialized guest, if the inner driver supports that.
func (s *Sandbox) Snapshot(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("snapshot a sandbox: %w", context.Cause(ctx))
	}
	o, err := s.beginOperation(kindSnapshot, nil)
	if err != nil {
		return nil, err
	}
	late := s.p.startDeadline()
	defer late.Stop()
	s.p.send(kindSnapshot, s.id, o.op, nil)
	var all []byte
	_, err = s.awaitResult(ctx, o, func(b []byte) error {
		if most := s.p.d.cfg.Snapshot; int64(len(all)+len(b)) > most {
			return tool.Errorf(tool.Limit,
				"the sandbox holds too much to be kept: its snapshot would have more than %d MiB", most>>20)
		}
		all = append(all, b...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Fork copies the sandbox within the same process, if the inner driver supports that.
func (s *Sandbox) Fork(ctx context.Context) (sandbox.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fork a sandbox: %w", context.Cause(ctx))
	}
	o, err := s.beginOperation(kindFork, nil)
	if err != nil {
		return nil, err
	}
	copied, err := s.p.addSandbox()
	if err != nil {
		return nil, err
	}
	if _, err := s.finishOperation(ctx, o, binary.LittleEndian.AppendUint32(nil, copied.id), nil); err != nil {
		_ = copied.Close() // the child may have created it anyway
		return nil, err
	}
	return copied, nil
}

// Close destroys the sandbox and its state in the child, and stops a Run in progress. It doesn't
// wait for the child, which is killed if it doesn't respond.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	o, err := s.beginOperation(kindClose, nil)
	if err != nil {
		return nil // the process has ended, and the sandbox with it
	}
	s.mu.Lock()
	s.late = s.p.startDeadline()
	s.mu.Unlock()
	s.p.send(kindClose, s.id, o.op, nil)
	return nil
}

// handleClose is called when the child has closed the sandbox.
func (s *Sandbox) handleClose(err error) {
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	if late != nil {
		late.Stop()
	}
	s.p.removeSandbox(s)
	if err != nil && s.p.exitError() == nil {
		s.p.d.log.Warn("sandbox not closed", "error", err)
	}
}
