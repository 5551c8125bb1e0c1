package executor_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

func napping(c *executor.Config) { c.Limits.Sessions.SuspendAfter = 20 * time.Millisecond }

// suspended waits until the only running program is in the store, and no longer in memory.
func (s *stage) suspended() {
	s.t.Helper()
	eventually(s.t, "the program is suspended", func() bool {
		run, _ := s.x.Load() // it releases its slot last
		return s.p.open.Load() == 0 && s.inside.Load() > 0 && run == 0 && blobs(s.t, s) > 0
	})
}

func TestProgramsThatWaitAreSuspended(t *testing.T) {
	t.Parallel()
	s := newStage(t, napping)
	for _, session := range []string{"", "work"} {
		back := s.p.back.Load()
		done := make(chan outcome)
		go func() {
			done <- s.try(t.Context(), ann, session, ops(op{Set: "x=1"}, op{Call: "box.slow"}, op{Get: "_"},
				op{Set: "x=+2"}, op{Call: "box.slow"}, op{Get: "x"}, writeTo("a", "b")))
		}()
		s.suspended()
		if run, queued := s.x.Load(); run != 0 || queued != 0 {
			t.Errorf("%d run, %d wait, while it is suspended", run, queued)
		}
		s.slow <- struct{}{}
		eventually(t, "it is back", func() bool { return s.p.back.Load() == back+1 })
		s.suspended()
		s.slow <- struct{}{}
		if o := <-done; o.failed || o.value != `"answer of box.slow",12` {
			t.Errorf("session = %q, o.text = %s, o.err = %v, want !o.failed && o.value == `\"answer of "+
				"box.slow\",12`", session, o.text, o.err)
		}
		if n := s.p.back.Load(); n != back+2 {
			t.Errorf("%q: resumed %d times", session, n-back)
		}
	}
	s.restart()
	s.want("work", "x", "12", "disk")
	s.restart()
	if err := s.x.Sessions().End(t.Context(), ann, "work"); err != nil {
		t.Fatalf("End: %v", err)
	}
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

func TestSuspendedProgramsCanBeStopped(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { napping(c); c.AnswerWithin = 5 * time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan outcome)
	wait := func(f func()) outcome {
		go func() { done <- s.try(ctx, ann, "", ops(op{Call: "box.slow"}, op{Set: "x=1"}, op{Get: "x"})) }()
		s.suspended()
		f()
		return <-done
	}
	if o := wait(cancel); o.err == nil {
		t.Errorf("o.text = %v, want o.err != nil", o.text)
	}
	ctx = t.Context()
	o := wait(func() { s.stop() })
	holds(t, o.text, "shutting down", "1 call was made")
	s.start()
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

// TestSuspendedProgramsAreAnsweredFor checks that suspended programs are answered for and resumed
// like others.
func TestSuspendedProgramsAreAnsweredFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { napping(c); c.AnswerWithin = 200 * time.Millisecond })
	o := s.try(t.Context(), ann, "", ops(op{Call: "box.slow"}, op{Set: "x=1"}, op{Get: "x"}))
	holds(t, o.text, "It goes on. Call resume")
	id, _ := idOf(t, o.res)
	s.suspended()
	s.slow <- struct{}{}
	raw, _ := json.Marshal(map[string]string{"execution": id})
	eventually(t, "it is done", func() bool {
		res, err := s.x.Resume().Call(t.Context(), &tool.Call{Arguments: raw, Principal: ann})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		o = read(t, res)
		_, state := idOf(t, res)
		return state == "done"
	})
	if o.value != "1" {
		t.Errorf(`o.text = %v, want o.value == "1"`, o.text)
	}
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

// TestTimersOfSuspendedPrograms checks that a timer wakes a suspended program, and that a timer
// that expires soon prevents suspension.
func TestTimersOfSuspendedPrograms(t *testing.T) {
	t.Parallel()
	s := newStage(t, napping)
	for ms := 150.0; s.p.back.Load() == 0; ms *= 4 { // on a slow machine it expires before the program is suspended
		if ms > 20_000 {
			t.Fatal("it is not suspended while it waits for its timer")
		}
		done := make(chan outcome)
		go func() {
			done <- s.try(t.Context(), ann, "work",
				ops(op{Call: "box.slow", Stray: true}, op{Timer: ms}, op{Set: "x=woken"}, op{Get: "x"}))
		}()
		eventually(t, "the timer has gone off", func() bool { return s.p.back.Load() == 1 || s.x.Spoke(ann.ID) })
		s.slow <- struct{}{}
		if o := <-done; o.value != "woken" {
			t.Errorf(`o.text = %v, want o.value == "woken"`, o.text)
		}
	}
}

func TestQuestionsHoldTheSandbox(t *testing.T) {
	t.Parallel()
	s := newStage(t, napping)
	done := make(chan outcome)
	go func() {
		done <- s.try(t.Context(), ann, "", ops(op{Call: "box.gate", Stray: true}, op{Call: "box.slow", Ask: true},
			op{Get: "_"}, op{Sleep: 5}, op{Set: "x=1"}))
	}()
	eventually(t, "both are called", func() bool { return s.inside.Load() == 2 })
	time.AfterFunc(100*time.Millisecond, func() { s.slow <- struct{}{}; s.gate <- struct{}{} })
	if o := <-done; o.value != `"answer of box.slow"` {
		t.Errorf("o.text = %v, want o.value == `\"answer of box.slow\"`", o.text)
	}
	if s.p.back.Load() != 0 {
		t.Error("it was suspended while it asked")
	}
	holds(t, s.bad("", op{Call: "box.none", Ask: true}, op{Fail: "end"}).text, "1 call was made")
}
