package executor_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSessionLivesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	o := s.do("work", op{Set: "x=1"}, op{Get: "x"})
	holds(t, o.text, "session work (new)")
	s.want("work", "x", "1", "memory")
	o = s.do("work", op{Set: "x=+2"})
	lacks(t, o.text, "(new)")
	holds(t, o.text, "session work")
	s.want("", "x", "", "")      // alone
	s.want("other", "x", "", "") // another session
	if o := s.try(t.Context(), bob, "work", ops(op{Get: "x"})); o.value != "" || o.from != "new" {
		t.Errorf("bob sees ann's session: %q from %s", o.value, o.from)
	}
	s.restart()
	o = s.do("work", op{Get: "x"})
	if o.value != "12" || o.from != "disk" {
		t.Errorf("after a restart: %q from %s", o.value, o.from)
	}
	holds(t, o.text, "session work (resumed from disk in ", " ms)")
	s.want("work", "x", "12", "memory")
	if p := s.try(t.Context(), ann, "work", ops(op{Get: "x"}), "language", "python"); p.value != "" || p.from != "new" {
		t.Errorf("Python has the variables of TypeScript: %q from %s", p.value, p.from)
	}
	i, err := s.x.Sessions().Get(t.Context(), ann, "work")
	if err != nil || i.Programs != 6 || strings.Join(i.Languages, ",") != "python,typescript" || i.State != "hot" ||
		i.StateBytes == 0 || i.Engine != "puppet 1" {
		t.Errorf("i = %+v, err = %v", i, err)
	}
}

// TestFailureTakesBack checks that a program that fails, in any way, has no effect on variables,
// files or skills.
func TestFailureTakesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Limits.Calls = 3 })
	s.do("work", op{Set: "x=good"}, writeTo("a.txt", "good"), writeTo("skills/k.ts", "export const good = 1"))
	bad := []op{{Set: "x=bad"}, writeTo("a.txt", "bad"), writeTo("b.txt", "bad"), writeTo("skills/k.ts", "bad")}
	check := func(what string, o outcome) {
		t.Helper()
		if o.err == nil {
			holds(t, o.text, "session work is as it was before this program")
		}
		for _, from := range []string{"disk", "memory"} {
			s.want("work", "x", "good", from)
		}
		if v := s.do("work", readOf("a.txt"), op{Get: "_"}); v.value != `"good"` {
			t.Errorf("after %s the file is %s", what, v.value)
		}
		holds(t, s.bad("work", readOf("b.txt")).text, "ENOENT")
		if v := s.do("work", readOf("skills/k.ts"), op{Get: "_"}); v.value != `"export const good = 1"` {
			t.Errorf("after %s the skill is %s", what, v.value)
		}
	}
	check("an exception", s.bad("work", append(bad, op{Fail: "oops"})...))
	check("a file error", s.bad("work", append(bad, readOf("none"))...))
	o := s.try(t.Context(), ann, "work", ops(append(bad, op{Spin: true})...), "timeout_seconds", "")
	if kindOf(o.err) != tool.Invalid {
		t.Errorf("o.err = %v, want kindOf(o.err) == tool.Invalid", o.err)
	}
	s.p.spin = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan outcome)
	go func() { done <- s.try(ctx, ann, "work", ops(append(bad, op{Spin: true})...)) }()
	<-s.p.spin
	cancel()
	check("a cancellation", <-done)
}

func TestSessionsAreOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Limits.Sessions.Waiting = 20 })
	s.do("work", op{Set: "x="})
	first := make(chan outcome)
	go func() { first <- s.try(t.Context(), ann, "work", ops(op{Call: "box.slow"}, op{Set: "x=+a"})) }()
	waiting := func(n int) func() bool {
		return func() bool {
			i, err := s.x.Sessions().Get(t.Context(), ann, "work")
			run, queued := s.x.Load()
			return err == nil && i.State == "running" && run == 1 && queued == 0 && s.x.Waiting("work", ann.ID) == n
		}
	}
	eventually(t, "the first runs", waiting(1))
	var wg sync.WaitGroup
	for i := range 20 {
		letter := string(rune('b' + i))
		wg.Go(func() {
			if o := s.try(t.Context(), ann, "work", ops(op{Set: "x=+" + letter})); o.failed {
				t.Errorf("o.err = %v, o.text = %v, want !o.failed", o.err, o.text)
			}
		})
		eventually(t, "it waits", waiting(i+2))
	}
	if o := s.try(t.Context(), ann, "work", ops()); !o.failed {
		t.Error("more than may wait")
	} else {
		holds(t, o.text, "20 programs wait for session", "another session")
	}
	s.want("other", "x", "", "new") // is not blocked
	if err := s.x.Sessions().End(t.Context(), ann, "work"); kindOf(err) != tool.Conflict {
		t.Errorf("end of a session in use: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.x.Sessions().Fork(ctx, ann, "work", "copy"); kindOf(err) == "" {
		t.Error("forked while it ran")
	}
	s.slow <- struct{}{}
	if o := <-first; o.failed {
		t.Errorf("o.text = %v, want !o.failed", o.text)
	}
	wg.Wait()
	s.want("work", "x", "abcdefghijklmnopqrstu", "memory")
}

func TestIdleSessionsAreSuspended(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Limits.Sessions.Hot = 3 })
	for _, name := range []string{"a", "b", "c", "d"} {
		s.do(name, op{Set: "x=" + name})
	}
	if n := s.p.open.Load(); n != 3 {
		t.Errorf("%d are in memory, not 3", n)
	}
	s.want("a", "x", "a", "disk")
	s.want("d", "x", "d", "memory")
	s.stop()
	s.tweak = func(c *executor.Config) { c.Limits.Sessions.Idle = 20 * time.Millisecond }
	s.start()
	s.want("d", "x", "d", "disk")
	eventually(t, "all are suspended", func() bool { return s.p.open.Load() == 0 })
	all, err := s.x.Sessions().List(t.Context(), ann)
	if err != nil || len(all) != 4 || all[0].Name != "a" || all[0].State != "suspended" {
		t.Errorf("all = %+v, err = %v, want err == nil && len(all) == 4 && all[0].Name == \"a\" && "+
			"all[0].State == \"suspended\"", all, err)
	}
	s.want("b", "x", "b", "disk")
}

func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) {
		c.Limits.Sessions.Unused, c.Limits.Sessions.MaxAge = time.Hour, 3*time.Hour
	})
	s.do("unused", op{Set: "x=1"})
	s.do("old", op{Set: "x=1"})
	for range 3 {
		s.clock.Advance(50 * time.Minute)
		s.want("old", "x", "1", "")
	}
	if all, _ := s.x.Sessions().List(t.Context(), ann); len(all) != 1 || all[0].Name != "old" {
		t.Errorf(`all = %+v, want len(all) == 1 && all[0].Name == "old"`, all)
	}
	s.want("unused", "x", "", "new")
	s.clock.Advance(50 * time.Minute)
	s.want("old", "x", "", "new")
	s.clock.Advance(2 * time.Hour)
	s.restart()
	eventually(t, "all are gone", func() bool { return blobs(t, s) == 0 })

	s.do("unused", op{Set: "x=1"})
	s.stop()
	if blobs(t, s) == 0 {
		t.Error("it is gone before its time")
	}
	s.clock.Advance(2 * time.Hour)
	s.restart()
	s.stop() // a process that ends right away tidies sessions at its end
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

func TestEndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	big := strings.Repeat("large ", 50_000)
	s.do("work", op{Set: "x=" + big}, writeTo("a.txt", big), writeTo("dir.txt", "small"))
	s.do("work", op{Set: "x=" + big + "2"}, writeTo("a.txt", big+"2"))
	if _, err := s.x.Sessions().Fork(t.Context(), ann, "work", "copy"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	if err := s.x.Sessions().End(t.Context(), ann, "work"); err != nil {
		t.Fatalf("End: %v", err)
	}
	s.restart()
	if o := s.do("copy", op{Set: "y=done"}, op{Get: "y"}); o.value != "done" || o.from != "disk" {
		t.Errorf(`o.value = %v, o.from = %v, want o.value == "done" && o.from == "disk"`, o.value, o.from)
	}
	if v, err := s.file("copy", sandbox.File{Op: "read", Path: "a.txt"}); err != nil || v != big+"2" {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	if err := s.x.Sessions().End(t.Context(), ann, "copy"); err != nil {
		t.Fatalf("End: %v", err)
	}
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if n := s.p.open.Load(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	if err := s.x.Sessions().End(t.Context(), ann, "copy"); kindOf(err) != tool.NotFound {
		t.Errorf("ended twice: %v", err)
	}
}

func TestSessionLimits(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) {
		l := &c.Limits.Sessions
		l.Size, l.Workspace, l.Files, l.Count = 2000, 100, 3, 2
	})
	s.do("work", op{Set: "x=1"})
	o := s.bad("work", op{Set: "x=" + strings.Repeat("y", 3000)})
	holds(t, o.text, "the session would be", "the most is 2 KB", "session work is as it was before")
	s.want("work", "x", "1", "disk")
	holds(t, s.bad("work", writeTo("a", strings.Repeat("z", 101))).text, "EFBIG")
	holds(t, s.bad("work", writeTo("a", "1"), writeTo("b", "1"), writeTo("c", "1"), writeTo("d", "1")).text, "EDQUOT")
	s.do("two")
	full := s.bad("three", op{Call: "box.one"})
	holds(t, full.text, "2 sessions already", "biplane sessions end")
	if strings.Contains(full.text, "ended well") || strings.Contains(full.text, "box.one") {
		t.Errorf("the program ran, though there is no room for what it leaves: %s", full.text)
	}
	if o := s.try(t.Context(), bob, "three", ops()); o.failed {
		t.Error("ann's sessions count for bob:", o.text)
	}
	for _, name := range []string{".x", "a/b", "../x", "a b", "ä", "x\x00", strings.Repeat("x", 65)} {
		if o := s.try(t.Context(), ann, name, ops()); kindOf(o.err) != tool.Invalid {
			t.Errorf("%q, o.err = %v, o.text = %s, want kindOf(o.err) == tool.Invalid", name, o.err, o.text)
		}
	}
}

func TestForkIsIndependent(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.do("a", op{Set: "x=1"}, writeTo("f.txt", "1"))
	i, err := s.x.Sessions().Fork(t.Context(), ann, "a", "b")
	if err != nil || i.Name != "b" || i.Programs != 1 || i.Files != 1 {
		t.Fatalf(`i = %+v, err = %v, want err == nil && i.Name == "b" && i.Programs == 1 && i.Files == 1`, i, err)
	}
	if n := s.p.forked.Load(); n != 1 {
		t.Errorf("%d forks in memory", n)
	}
	s.do("a", op{Set: "x=2"}, writeTo("f.txt", "2"))
	s.want("b", "x", "1", "memory")
	if v := s.do("b", readOf("f.txt"), op{Get: "_"}); v.value != `"1"` {
		t.Errorf("v.value = %v, want v.value == `\"1\"`", v.value)
	}
	s.restart()
	if _, err := s.x.Sessions().Fork(t.Context(), ann, "a", "c"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	s.do("c", op{Set: "x=3"})
	s.want("a", "x", "2", "disk")
	s.want("b", "x", "1", "disk")
	s.restart()
	s.want("c", "x", "3", "disk")
	if a, b := s.do("a", op{Seed: true}).value, s.do("b", op{Seed: true}).value; a == b || len(a) != 64 {
		t.Errorf("the same randomness: %s", a)
	}
	for to, kind := range map[string]tool.Kind{"a": tool.Conflict, "b": tool.Conflict, ".x": tool.Invalid} {
		if _, err := s.x.Sessions().Fork(t.Context(), ann, "a", to); kindOf(err) != kind {
			t.Errorf("fork to %s: %v", to, err)
		}
	}
	if _, err := s.x.Sessions().Fork(t.Context(), ann, "none", "new"); kindOf(err) != tool.NotFound {
		t.Errorf("fork of nothing: %v", err)
	}
}

// TestLateAnswers checks that the next program of a session receives the answers to calls of an
// earlier program that arrived after its end.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	done := make(chan outcome)
	go func() {
		done <- s.try(t.Context(), ann, "work",
			ops(op{Call: "box.slow", Stray: true}, op{Call: "box.gate"}, op{Set: "x=1"}))
	}()
	eventually(t, "both are made", func() bool { return s.inside.Load() == 2 })
	s.gate <- struct{}{}
	eventually(t, "the program has ended", func() bool { return s.inside.Load() == 1 })
	s.slow <- struct{}{}
	if o := <-done; o.failed {
		t.Fatalf("o.text = %v, want !o.failed", o.text)
	}
	s.restart()
	s.want("work", "x", "1", "disk")
	s.want("work", "late1", `"answer of box.slow"`, "memory")
}

func TestWithoutSnapshotsThereAreNoSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.p.plain = true
	holds(t, s.bad("work", op{Get: "x"}).text, "no sessions")
}

// TestCrashOfAnIdleGuest checks that a session whose guest was in a crashed process is restored
// from the store without an error.
func TestCrashOfAnIdleGuest(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.do("work", op{Set: "x=1"}, writeTo("a.txt", "1"))
	s.want("work", "x", "1", "memory")
	s.p.crash.Store(s.p.made.Load() + s.p.back.Load() + 1)
	s.p.made.Add(1) // sandboxes created from now on belong to another process
	s.want("work", "x", "1", "disk")
	s.want("work", "x", "1", "memory")
}

// TestCrashBeforeAProgramBegins checks that a program whose process died before it began is started
// in another one, but only once: a second crash has a cause.
func TestCrashBeforeAProgramBegins(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "new"} {
		s := newStage(t, nil)
		next := s.p.made.Load() + s.p.back.Load() + 1 // when the next guest is created
		s.p.crash.Store(next + 2)
		if o := s.bad(session, op{Set: "x=1"}); !strings.Contains(o.text, "was killed") &&
			!strings.Contains(o.text, "process") {
			t.Errorf("twice: %s", o.text)
		}
		next = s.p.made.Load() + s.p.back.Load() + 1
		s.p.crash.Store(next + 1)
		if o := s.do(session, op{Set: "x=1"}, op{Get: "x"}); o.value != "1" {
			t.Errorf("once: %s", o.value)
		}
	}
}
