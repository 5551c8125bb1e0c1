package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// answerQuestion answers a question on which the guest blocks (sandbox.Cmd.Ask). The program's own
// time continues to run, except while a call is outstanding.
func (d *dialog) answerQuestion(ctx context.Context, question []byte) []byte {
	if h := d.history.Answer(); h != nil {
		return d.repeatAnswer(question, h)
	}
	d.state.mu.Lock()
	d.state.suspension.asking++
	d.state.messages++
	many, over := d.state.messages > maxMessages, d.state.end != nil
	d.state.mu.Unlock()
	defer func() {
		d.state.mu.Lock()
		d.state.suspension.asking--
		d.state.suspension.active = time.Now()
		d.state.mu.Unlock()
	}()
	var m sandbox.GuestMessage
	var a *sandbox.Answer
	made := false
	err := d.guard("a question of the program", func() error {
		switch {
		case many:
			return d.refuse(tool.Over(execution.OutputLimit, "the program sent more than %s messages: call and log less", prose.Group(maxMessages)))
		case over:
			return errEnded
		}
		if err := json.Unmarshal(question, &m); err != nil {
			return d.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err})
		}
		d.history.recordQuestion(question, &m)
		a, made = d.findAnswer(ctx, &m)
		return nil
	})
	if err != nil {
		a = &sandbox.Answer{Error: guestError(err)}
	}
	at := d.now()
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: at})
	if err != nil {
		d.x.cfg.Log.Error("answer a question", "execution", d.id, "error", err)
		return nil
	}
	call := int64(0)
	if made {
		call = a.ID
	}
	d.history.recordAnswer(line, call, at)
	return line
}

// findAnswer returns the answer to a question, and reports whether it is the outcome of a call.
func (d *dialog) findAnswer(ctx context.Context, m *sandbox.GuestMessage) (_ *sandbox.Answer, made bool) {
	switch {
	case m.Call != nil:
		return d.callAndWait(ctx, m.Call)
	case m.File != nil:
		a := &sandbox.Answer{ID: m.File.ID}
		v, err := d.files.perform(m.File)
		if err != nil {
			a.Error = fileError(err)
			return a, false
		}
		a.Value = v
		return a, false
	case m.Sleep != nil:
		t := time.NewTimer(time.Duration(min(max(m.Sleep.MS, 0), maxTimer) * float64(time.Millisecond)))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-d.ctx.Done():
		}
		if d.plan != nil {
			d.plan.timer(m.Sleep.MS)
			d.plan.wake()
		}
		return &sandbox.Answer{}, false
	}
	return &sandbox.Answer{Error: guestError(tool.Errorf(tool.Internal, "this can't be asked"))}, false
}

// callAndWait makes a call and waits until it ends or ctx is done. It reports whether the answer is
// the outcome of the call.
func (d *dialog) callAndWait(ctx context.Context, c *sandbox.GuestCall) (_ *sandbox.Answer, made bool) {
	a := &sandbox.Answer{ID: c.ID}
	c, asked := d.calls.simplify(c)
	n, path, now, err := d.calls.addCall(c, asked)
	if err != nil {
		a.Error = guestError(d.refuse(err))
		return a, false
	}
	if now != nil {
		v, err := now()
		if err != nil {
			a.Error = ownError(err)
			return a, false
		}
		a.Value = v
		return a, false
	}
	if k := d.history.Call(c.ID); k != nil {
		if err := d.calls.restoreCall(n, c, path, k); err != nil {
			a.Error = guestError(d.refuse(err))
			return a, false
		}
		if k.Known() {
			a.Value, a.Error = k.Value, k.Failure
			d.state.releaseCall(0)
			return a, true
		}
	}
	turn := d.state.table.turns.Join()
	done := make(chan struct{})
	d.state.table.running.Go(func() {
		defer close(done)
		a.Value, a.Error = d.calls.makeCall(n, c, path, turn)
		d.state.releaseCall(len(a.Value))
	})
	select {
	case <-done:
		return a, true
	case <-ctx.Done():
		return &sandbox.Answer{ID: c.ID, Error: guestError(tool.AsError(context.Cause(ctx)))}, false
	}
}
