package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ask answers a question for which the guest stands still (sandbox.Cmd.Ask). Its own time runs on, but not while a call is
// under way, as always.
func (r *run) ask(ctx context.Context, question []byte) []byte {
	r.mu.Lock()
	r.asking++
	r.messages++
	many, over := r.messages > maxMessages, r.end != nil
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.asking--
		r.naps.active = time.Now()
		r.mu.Unlock()
	}()
	var m sandbox.GuestMessage
	var a *sandbox.Answer
	err := r.guard("a question of the program", func() error {
		switch {
		case many:
			return r.refuse(tool.Errorf(tool.Limit, "the program sent more than %s messages: call and log less", group(maxMessages)))
		case over:
			return errEnded
		}
		if err := json.Unmarshal(question, &m); err != nil {
			return r.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err})
		}
		r.recorder.Said(&m, true)
		a = r.reply(ctx, &m)
		return nil
	})
	if err != nil {
		a = &sandbox.Answer{Error: guestError(err)}
	}
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: r.now()})
	if err != nil {
		r.x.cfg.Log.Error("answer a question", "execution", r.id, "error", err)
		return nil
	}
	r.recorder.Heard(session.Answer, line)
	return line
}

// reply gives the answer to a question.
func (r *run) reply(ctx context.Context, m *sandbox.GuestMessage) *sandbox.Answer {
	switch {
	case m.Call != nil:
		return r.callAndWait(ctx, m.Call)
	case m.File != nil:
		a := &sandbox.Answer{ID: m.File.ID}
		v, err := r.fileOp(m.File)
		if err != nil {
			a.Error = fileError(err)
			return a
		}
		a.Value = v
		return a
	case m.Sleep != nil:
		t := time.NewTimer(time.Duration(min(max(m.Sleep.MS, 0), maxTimer) * float64(time.Millisecond)))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-r.ctx.Done():
		}
		return &sandbox.Answer{}
	}
	return &sandbox.Answer{Error: guestError(tool.Errorf(tool.Internal, "this can't be asked"))}
}

// callAndWait makes a call and waits for its end, or that of the guest.
func (r *run) callAndWait(ctx context.Context, c *sandbox.GuestCall) *sandbox.Answer {
	a := &sandbox.Answer{ID: c.ID}
	n, path, now, err := r.admit(c)
	if err != nil {
		a.Error = guestError(r.refuse(err))
		return a
	}
	if now != nil {
		v, err := now()
		if err != nil {
			a.Error = ownError(err)
			return a
		}
		a.Value = v
		return a
	}
	turn := r.turns.join()
	done := make(chan struct{})
	r.calls.Go(func() {
		defer close(done)
		a.Value, a.Error = r.made(n, c, path, turn)
		r.unhold(len(a.Value))
	})
	select {
	case <-done:
		return a
	case <-ctx.Done():
		return &sandbox.Answer{ID: c.ID, Error: guestError(tool.AsError(context.Cause(ctx)))}
	}
}
