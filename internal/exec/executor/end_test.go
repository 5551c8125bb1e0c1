package executor_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A turnstile lets the end of an execution pass once open is closed, and sends its id on reached.
type turnstile struct {
	reached chan string
	open    chan struct{}
}

func newTurnstile() turnstile {
	return turnstile{reached: make(chan string, 1), open: make(chan struct{})}
}

func (s turnstile) pass(id string) {
	s.reached <- id
	<-s.open
}

// A slowEnd is a store of journals that blocks while the end of an execution is recorded.
type slowEnd struct {
	journal.Store
	turnstile
}

func (s slowEnd) Write(w *journal.Write) journal.Pending {
	if w.Record != nil && w.Record.State.Ended() {
		s.pass(w.ID)
	}
	return s.Store.Write(w)
}

// A slowHiding is a Privacy that blocks while the answer of a program is made, before its end is
// recorded. It hides nothing.
type slowHiding struct {
	live.Privacy
	turnstile
}

func (s slowHiding) HideTexts(_ context.Context, _ tool.Scope, texts tool.Texts) {
	if len(texts.JSON) == 1 && string(*texts.JSON[0]) == `"ended"` {
		s.pass("")
	}
}

func (slowHiding) Bring(context.Context, tool.Scope, tool.Scope, ...string) error { return nil }

// begin starts a program that ends with the value "ended", and returns the channel of its outcome.
func (s *stage) begin() chan outcome {
	done := make(chan outcome, 1)
	go func() {
		done <- s.try(context.Background(), ann, "", ops(op{Set: "x=ended"}, op{Call: "box.one"}, op{Get: "x"}))
	}()
	return done
}

// TestRunsUntilItsEndIsRecorded checks that while the end of an execution is being recorded, it
// reads as under way, and no one who waits for it is woken.
func TestRunsUntilItsEndIsRecorded(t *testing.T) {
	t.Parallel()
	gate := newTurnstile()
	var hooked []execution.State
	var tokens execution.Tokens
	s := newStage(t, func(c *executor.Config) {
		c.Journal = slowEnd{c.Journal, gate}
		c.AnswerWithin = time.Hour
		c.Supervisor = ends(func(e *execution.Execution) {
			hooked = append(hooked, e.State)
			tokens, _ = e.Count()
		})
	})
	done := s.begin()
	id := <-gate.reached
	if e, ok := s.x.Execution(id); !ok || e.State != execution.Running || len(e.Calls) != 1 {
		t.Errorf("while its end is recorded: %+v, %t, want it running with one call", e, ok)
	}
	if n := s.x.Busy(); n != 1 {
		t.Errorf("while its end is recorded: %d busy, want 1", n)
	}
	if len(hooked) != 0 {
		t.Errorf("it was reported as ended (%v) before its end was recorded", hooked)
	}
	resumed, stopped := make(chan outcome, 1), make(chan error, 1)
	go func() {
		raw, _ := tool.Marshal(map[string]string{"execution": id})
		res, err := s.x.Resume().Call(context.Background(), &tool.Call{Arguments: raw, Principal: ann})
		if err != nil {
			resumed <- outcome{err: err, failed: true}
			return
		}
		resumed <- read(t, res)
	}()
	go func() { stopped <- s.x.Stop(context.Background(), ann, id) }()
	if woken := s.x.Ended(id); woken {
		t.Error("those who wait for it were woken before its end was recorded")
	}
	close(gate.open)
	for _, c := range []chan outcome{done, resumed} {
		if o := <-c; o.failed || o.value != "ended" {
			t.Errorf("after its end was recorded: %+v, want its value", o)
		}
	}
	if err := <-stopped; kindOf(err) != tool.Conflict {
		t.Errorf("stopped while it ended: %v, want an error of kind %s", err, tool.Conflict)
	}
	if e, _ := s.x.Execution(id); e.State != execution.Done || s.x.Busy() != 0 || len(hooked) != 1 {
		t.Errorf("after its end was recorded: %s, %d busy, reported %v", e.State, s.x.Busy(), hooked)
	} else if tokens.Returned == 0 || e.Tokens != tokens {
		t.Errorf("reported with %+v tokens, and then it has %+v", tokens, e.Tokens)
	}
}

// TestRunsWhileItsAnswerIsMade checks that lists, details and watchers report an execution as
// running while its answer is made, and completely once it has ended.
func TestRunsWhileItsAnswerIsMade(t *testing.T) {
	t.Parallel()
	gate := newTurnstile()
	s := newStage(t, func(c *executor.Config) { c.Privacy = slowHiding{turnstile: gate} })
	done := s.begin()
	<-gate.reached
	all, err := s.x.Executions(t.Context(), ann, journal.Query{})
	if err != nil || len(all) != 1 || all[0].State != journal.Running {
		t.Fatalf("while its answer is made: %+v, %v, want one that runs", all, err)
	}
	id := all[0].ID
	if d, err := s.x.Details(t.Context(), ann, id); err != nil || d.State != journal.Running || d.Error != nil ||
		len(d.Calls) != 1 {
		t.Errorf("while its answer is made: %+v, %v, want it running with one call", d, err)
	}
	var seen []*execution.Details
	watched := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		watched <- s.x.Watch(context.Background(), ann, id, func(d *execution.Details) error {
			if seen = append(seen, d); len(seen) == 1 {
				close(first)
			}
			return nil
		})
	}()
	<-first
	close(gate.open)
	if o := <-done; o.value != "ended" {
		t.Errorf("its answer: %+v", o)
	}
	if err := <-watched; err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	last := seen[len(seen)-1]
	if seen[0].State != journal.Running || last.State != journal.Done || string(last.Value) != `"ended"` ||
		len(last.Calls) != 1 {
		t.Errorf("watched it %s, and then %s with value %s and %d calls", seen[0].State, last.State, last.Value,
			len(last.Calls))
	}
}

// A fullAtEnd is a store of journals that fails to record the end of an execution.
type fullAtEnd struct{ journal.Store }

func (s fullAtEnd) Write(w *journal.Write) journal.Pending {
	if w.Record != nil && w.Record.State.Ended() {
		return nothing{}
	}
	return s.Store.Write(w)
}

// TestEndThatCantBeRecorded checks that an execution ends here if its end can't be recorded, that
// Stop reports that, and that the next process doesn't take it for ended.
func TestEndThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Journal = fullAtEnd{c.Journal} })
	s.p.spin = make(chan struct{})
	done := make(chan outcome, 1)
	go func() { done <- s.try(context.Background(), ann, "", ops(op{Spin: true})) }()
	<-s.p.spin
	all, err := s.x.Executions(t.Context(), ann, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
	}
	id := all[0].ID
	if err := s.x.Stop(t.Context(), ann, id); kindOf(err) != tool.Unavailable {
		t.Errorf("stopped it: %v, want an error of kind %s that says what was not written", err, tool.Unavailable)
	} else {
		holds(t, err.Error(), "could not be written down")
	}
	if o := <-done; !o.failed {
		t.Errorf("its answer: %+v", o)
	}
	rec, err := s.db.Executions(s.key).Get(t.Context(), id)
	if err != nil || rec == nil || rec.State.Ended() {
		t.Errorf("the store has %+v, %v, want an execution that has not ended", rec, err)
	}
}

// TestDetailsOfWhatJustEnded checks that details are complete if an execution ends after its
// journal was read.
func TestDetailsOfWhatJustEnded(t *testing.T) {
	t.Parallel()
	var j *endsWhileRead
	s := newStage(t, func(c *executor.Config) {
		j = &endsWhileRead{Store: c.Journal}
		c.Journal = j
	})
	done := make(chan outcome, 1)
	go func() {
		done <- s.try(context.Background(), ann, "", ops(op{Set: "x=ended"}, op{Call: "box.slow"}, op{Get: "x"}))
	}()
	eventually(t, "its call is under way", func() bool { return s.inside.Load() == 1 })
	all, err := s.x.Executions(t.Context(), ann, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
	}
	j.end = func() { s.slow <- struct{}{}; <-done }
	d, err := s.x.Details(t.Context(), ann, all[0].ID)
	if err != nil || d.State != journal.Done || string(d.Value) != `"ended"` || len(d.Calls) != 1 ||
		d.Calls[0].Ended.IsZero() {
		raw, _ := json.Marshal(d)
		t.Errorf("%s, %v, want the value and one call that has ended", raw, err)
	}
}

// An endsWhileRead is a store of journals that calls end once, after it has read one.
type endsWhileRead struct {
	journal.Store
	end func()
}

func (s *endsWhileRead) Parts(ctx context.Context, id string) ([][]byte, error) {
	parts, err := s.Store.Parts(ctx, id)
	if end := s.end; end != nil {
		s.end = nil
		end()
	}
	return parts, err
}

// TestEndsWhileTheProcessDoes checks that an execution goes on in the next process if its journal
// was closed before its end was recorded.
func TestEndsWhileTheProcessDoes(t *testing.T) {
	t.Parallel()
	gate := newTurnstile()
	var goesOn []bool
	s := newStage(t, func(c *executor.Config) {
		c.Privacy = slowHiding{turnstile: gate}
		c.Supervisor = ends(func(e *execution.Execution) { goesOn = append(goesOn, e.GoesOn) })
	})
	done := s.begin()
	<-gate.reached
	all, err := s.x.Executions(t.Context(), ann, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.x.Close() }()
	eventually(t, "its journal is closed", func() bool { return s.x.Frozen(all[0].ID) })
	close(gate.open)
	<-done
	if err := <-closed; err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	if len(goesOn) != 1 || !goesOn[0] {
		t.Errorf("reported that it goes on: %v, want true, once", goesOn)
	}
	rec, err := s.db.Executions(s.key).Get(t.Context(), all[0].ID)
	if err != nil || rec == nil || rec.State.Ended() {
		t.Errorf("the store has %+v, %v, want an execution that has not ended", rec, err)
	}
}
