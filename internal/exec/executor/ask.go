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

// ask answers a question on which the guest blocks (sandbox.Cmd.Ask). The program's own time
// continues to run, except while a call is outstanding.
func (r *run) ask(ctx context.Context, question []byte) []byte {
	if h := r.history.Answer(); h != nil {
		return r.answerAgain(question, h)
	}
	r.state.mu.Lock()
	r.state.suspension.asking++
	r.state.messages++
	many, over := r.state.messages > maxMessages, r.state.end != nil
	r.state.mu.Unlock()
	defer func() {
		r.state.mu.Lock()
		r.state.suspension.asking--
		r.state.suspension.active = time.Now()
		r.state.mu.Unlock()
	}()
	var m sandbox.GuestMessage
	var a *sandbox.Answer
	made := false
	err := r.guard("a question of the program", func() error {
		switch {
		case many:
			return r.refuse(tool.Over(execution.OutputLimit, "the program sent more than %s messages: call and log less", prose.Group(maxMessages)))
		case over:
			return errEnded
		}
		if err := json.Unmarshal(question, &m); err != nil {
			return r.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err})
		}
		r.history.recordQuestion(question, &m)
		a, made = r.reply(ctx, &m)
		return nil
	})
	if err != nil {
		a = &sandbox.Answer{Error: guestError(err)}
	}
	at := r.now()
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: at})
	if err != nil {
		r.x.cfg.Log.Error("answer a question", "execution", r.id, "error", err)
		return nil
	}
	call := int64(0)
	if made {
		call = a.ID
	}
	r.history.recordAnswer(line, call, at)
	return line
}

// reply returns the answer to a question, and reports whether it is the outcome of a call.
func (r *run) reply(ctx context.Context, m *sandbox.GuestMessage) (_ *sandbox.Answer, made bool) {
	switch {
	case m.Call != nil:
		return r.callAndWait(ctx, m.Call)
	case m.File != nil:
		a := &sandbox.Answer{ID: m.File.ID}
		v, err := r.files.perform(m.File)
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
		case <-r.ctx.Done():
		}
		if r.plan != nil {
			r.plan.timer(m.Sleep.MS)
			r.plan.wake()
		}
		return &sandbox.Answer{}, false
	}
	return &sandbox.Answer{Error: guestError(tool.Errorf(tool.Internal, "this can't be asked"))}, false
}

// callAndWait makes a call and waits until it ends or ctx is done. It reports whether the answer is
// the outcome of the call.
func (r *run) callAndWait(ctx context.Context, c *sandbox.GuestCall) (_ *sandbox.Answer, made bool) {
	a := &sandbox.Answer{ID: c.ID}
	c, asked := r.plain(c)
	n, path, now, err := r.admit(c, asked)
	if err != nil {
		a.Error = guestError(r.refuse(err))
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
	if k := r.history.Call(c.ID); k != nil {
		if err := r.restore(n, c, path, k); err != nil {
			a.Error = guestError(r.refuse(err))
			return a, false
		}
		if k.Known() {
			a.Value, a.Error = k.Value, k.Failure
			r.state.releaseCall(0)
			return a, true
		}
	}
	turn := r.state.table.turns.Join()
	done := make(chan struct{})
	r.state.table.running.Go(func() {
		defer close(done)
		a.Value, a.Error = r.made(n, c, path, turn)
		r.state.releaseCall(len(a.Value))
	})
	select {
	case <-done:
		return a, true
	case <-ctx.Done():
		return &sandbox.Answer{ID: c.ID, Error: guestError(tool.AsError(context.Cause(ctx)))}, false
	}
}
