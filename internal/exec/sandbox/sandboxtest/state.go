package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// keeping runs several programs in one guest. State persists between them, and a program may
// continue in a later Run. The timers of processes aren't the host's.
func keeping(t *testing.T, d sandbox.Driver, l language, inProcess bool) {
	s := newStage(t, d, l.runtime)
	for i := 1; i <= 3; i++ {
		if got := s.run(l.count); got != fmt.Sprint(i) {
			t.Errorf("program %d gives %s", i, got)
		}
	}
	s.begin(l.pending, 2)
	if len(s.calls) != 3 {
		t.Fatalf("three calls, please: %q", s.heard)
	}
	for range 3 {
		s.answer(len(s.calls) - 1)
	}
	if s.done == nil || string(s.done.Value) != "[0,1,2]" {
		t.Errorf("calls that were answered in later Runs: %q", s.heard)
	}
	if !inProcess {
		s.begin(l.sleep, 3)
		if s.timer < 0 || s.timer > 50 {
			t.Fatalf("a timer, please: %q", s.heard)
		}
		if got := s.finish(rand.New(rand.NewPCG(1, 1))); got != "7" {
			t.Errorf("after a timer: %s", got)
		}
	}
	if got := s.run(l.count); got != "4" {
		t.Errorf("after all that: %s", got)
	}
}

// copying snapshots and forks a waiting guest. Each copy must continue independently from the same
// point.
func copying(t *testing.T, d sandbox.Driver, l language) {
	s := newStage(t, d, l.runtime)
	s.run(l.count)
	s.begin(l.pending, 5)
	b := s.snapshot()
	copies := map[string]*stage{"restored": s.restore(d, b), "restored again": s.restore(d, b), "forked": s.fork()}
	copies["a fork of what was restored"] = copies["restored"].fork()
	copies["original"] = s
	order := uint64(0)
	for name, c := range copies {
		order++
		if got := c.finish(rand.New(rand.NewPCG(order, 1))); got != "[0,1,2]" {
			t.Errorf("%s: the answers come to %s", name, got)
		}
		for i := 2; i < 4; i++ {
			if got := c.run(l.count); got != fmt.Sprint(i) {
				t.Errorf("%s: the count is %s, want %d", name, got, i)
			}
		}
	}
	a, f := s.run(l.random), s.fork()
	if b := f.run(l.random); a != b {
		t.Errorf("the same seed gives %s and %s", a, b)
	}
	f.begin(l.random, 99)
	if b := f.finish(nil); a == b {
		t.Errorf("two seeds give %s", a)
	}
	if got := s.run(l.clock); got != fmt.Sprint(s.at) {
		t.Errorf("the clock shows %s, want %d", got, s.at)
	}
}

// misusing requests snapshots in invalid states, and restores invalid snapshots.
func misusing(t *testing.T, d sandbox.Driver, l language) {
	s := newStage(t, d, l.runtime)
	shot := snapshotter(t, s.box)
	if _, err := shot.Snapshot(t.Context()); err == nil {
		t.Error("a snapshot before the first Run")
	}
	s.run(l.count)
	b := s.snapshot()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.box.Run(gone, &sandbox.Cmd{Guest: &tape{Reader: strings.NewReader("")}, Keep: true}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a Run for nobody: %v", err)
	}
	d2, ok := d.(sandbox.Restorer)
	if !ok {
		t.Skip("this kind doesn't make guests of bytes")
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "half": b[:len(b)/2], "one byte less": b[:len(b)-1], "one more": append(slices.Clone(b), 1),
		"text": []byte("a snapshot, please"),
	} {
		if box, err := d2.Restore(t.Context(), sandbox.Spec{}, bad); err == nil {
			_ = box.Close()
			t.Errorf("%s became a guest", name)
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		bad := slices.Clone(b)
		bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
		if box, err := d2.Restore(t.Context(), sandbox.Spec{}, bad); err == nil {
			_ = box.Close()
			t.Error("a changed snapshot became a guest")
		}
	}
	if _, err := d2.Restore(t.Context(), sandbox.Spec{Runtime: "cobol"}, b); err == nil {
		t.Error("a guest of another language")
	}
	if err := s.box.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := shot.Snapshot(t.Context()); err == nil {
		t.Error("a snapshot of what was closed")
	}
	if got := s.restore(d, b).run(l.count); got != "2" {
		t.Errorf("the right one counts %s", got)
	}
}

// determinism runs random programs with parallel calls answered in random order, timers and random
// numbers. It replays them from the host's lines, and expects the same output: in one Run or many,
// or in a guest restored in between.
func determinism(t *testing.T, d sandbox.Driver, l language) {
	check := 0
	rapid.Check(t, func(rt *rapid.T) {
		if check++; check > 12 { // a hundred take a minute, and find no more
			return
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.SampledFrom(stepKinds).Draw(rt, "step"), rapid.IntRange(0, 9).Draw(rt, "n")}
		}), 1, 8).Draw(rt, "steps")
		seed := rapid.Uint64().Draw(rt, "seed")
		order := rand.New(rand.NewPCG(seed, 3))
		s := newStage(t, d, l.runtime)
		var runs []int // number of host lines after each Run
		for program := range 2 {
			s.begin(l.program(steps), seed+uint64(program))
			for runs = append(runs, len(s.sent)); s.done == nil && s.fail == nil; runs = append(runs, len(s.sent)) {
				if !s.next(order) {
					rt.Fatalf("the guest waits for nothing: %q", s.heard)
				}
			}
			if s.fail != nil {
				rt.Fatalf("%s\nfailed: %+v", l.program(steps), s.fail.Error)
			}
		}
		again := newStage(t, d, l.runtime)
		if err := again.feed(s.sent...); err != nil {
			rt.Fatalf("feed: %v", err)
		}
		same(rt, "in one Run", again.heard, s.heard)
		if _, ok := s.box.(sandbox.Snapshotter); !ok {
			return
		}
		cut := runs[rapid.IntRange(0, len(runs)-1).Draw(rt, "cut")]
		first := newStage(t, d, l.runtime)
		if err := first.feed(s.sent[:cut]...); err != nil {
			rt.Fatalf("feed: %v", err)
		}
		second := first.restore(d, first.snapshot())
		if rest := s.sent[cut:]; len(rest) > 0 {
			if err := second.feed(rest...); err != nil {
				rt.Fatalf("feed: %v", err)
			}
		}
		same(rt, "after a restore", append(first.heard, second.heard...), s.heard)
		for _, x := range []*stage{s, again, first, second} {
			_ = x.box.Close() // the test closes them again, and sees errors
		}
	})
}

// same fails the test unless the lines are equal.
func same(t *rapid.T, how string, got, want []string) {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: the guest said nothing where it said %s", how, want[i])
		case i >= len(want):
			t.Fatalf("%s: the guest said more: %s", how, got[i])
		case got[i] != want[i]:
			t.Fatalf("%s: the guest said\n%s\nwhere it said\n%s", how, got[i], want[i])
		}
	}
}

// enduring runs a language's hostile programs.
func enduring(t *testing.T, d sandbox.Driver, l language) {
	for _, h := range l.hostiles {
		t.Run(h.name, func(t *testing.T) {
			spec := h.spec()
			spec.Runtime = l.runtime
			if err := h.check(Exec(t.Context(), t, d, spec, h.code, Host{})); err != nil {
				t.Errorf("check: %v", err)
			}
		})
	}
	checkFreshGuest(t, d, l)
}
