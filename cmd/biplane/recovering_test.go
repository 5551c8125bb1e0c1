package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// A wreck is the state after a kill: the data folder, the ledger, and the driver's data about both.
type wreck struct {
	folder string
	jobs   []*job
	counts map[string]int
	signed []string
	writes map[string][]string
	asked  map[string]int
}

// wrecked saves the current state to return to later. No process may be running.
func (c *crash) wrecked(jobs []*job) *wreck {
	c.Helper()
	c.still()
	w := &wreck{folder: c.TempDir(), jobs: jobs, counts: maps.Clone(c.counts), signed: slices.Clone(c.signed)}
	w.asked, w.writes = c.ledger.of("")
	copyFolder(c.T, w.folder, c.data())
	return w
}

// back restores the state after the kill.
func (c *crash) back(w *wreck) {
	c.Helper()
	c.kill()
	c.still()
	if err := os.RemoveAll(c.data()); err != nil {
		c.Fatalf("os.RemoveAll: %v", err)
	}
	copyFolder(c.T, c.data(), w.folder)
	c.counts, c.signed = maps.Clone(w.counts), slices.Clone(w.signed)
	c.ledger.restore(w.asked, w.writes)
}

// still waits until the ledger no longer works for a dead process.
func (c *crash) still() {
	c.Helper()
	waitFor(c.T, "nothing is under way at the ledger", c.ledger.quiet)
}

// copyFolder copies files and folders, but no sockets.
func copyFolder(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
}

// stepped starts a process that logs each change it makes to the data folder, and dies before the
// n-th one; 0: never.
func (c *crash) stepped(n int) (steps string) {
	c.Helper()
	steps = filepath.Join(c.dir, "steps")
	if err := os.RemoveAll(steps); err != nil {
		c.Fatalf("os.RemoveAll: %v", err)
	}
	c.start("BIPLANE_TEST_STEPS="+steps, "BIPLANE_TEST_FOLDER="+c.data(), "BIPLANE_TEST_STEP="+strconv.Itoa(n))
	return steps
}

// restOrDie waits until the process is dead or nothing runs in it any more. It reports whether it
// is dead.
func (c *crash) restOrDie() (dead bool) {
	c.Helper()
	c.mu.Lock()
	end := c.dead
	c.mu.Unlock()
	rest := api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting}}
	waitFor(c.T, "the process dies, or is at rest", func() bool {
		select {
		case <-end:
			dead = true
			return true
		default:
		}
		page, err := c.client().Executions(c.ctx, rest)
		return err == nil && len(page.Executions) == 0 && c.ledger.quiet()
	})
	return dead
}

// A relapse is how a recovery is killed, and then the next one. The kill is before a change to the
// data folder, counted from 1, or at a step of a write at the ledger.
type relapse struct {
	change, again int
	trap          trap
}

func (r relapse) String() string {
	if r.trap.key != "" {
		return fmt.Sprintf("at %s %s, dropped %v, then at change %d", r.trap.key, r.trap.step, r.trap.drop, r.again)
	}
	return fmt.Sprintf("at change %d, then at change %d", r.change, r.again)
}

// relapse kills recoveries of a wreck, and checks the result of the last one. It returns the
// changes that were not made.
func (c *crash) relapse(w *wreck, r relapse) (at []string) {
	c.Helper()
	c.back(w)
	at = c.dies(r)
	c.begin()
	c.rest()
	c.rounds++
	if !c.check(plan{after: 1}, w.jobs) {
		c.Fatalf("recovery killed %s (%s)", r, strings.Join(at, "; "))
	}
	return at
}

// dies starts processes that are killed.
func (c *crash) dies(r relapse) (at []string) {
	c.Helper()
	for i, n := range []int{r.change, r.again} {
		if i == 1 && n == 0 {
			break
		}
		if trap := r.trap; i == 0 && trap.key != "" {
			steps := c.stepped(0)
			trap.fire = c.killer()
			c.ledger.set(&trap)
			c.restOrDie()
			c.ledger.set(nil)
			at = append(at, last(c.T, steps))
		} else {
			steps := c.stepped(n)
			c.restOrDie()
			at = append(at, last(c.T, steps))
		}
		c.kill()
		c.still()
	}
	return at
}

// last returns the last line of a file.
func last(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		return "no change" // it died before it could log anything
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// changesOf recovers w without another kill, and returns how many changes the recovery made.
func (c *crash) changesOf(w *wreck) int {
	c.Helper()
	c.back(w)
	steps := c.stepped(0)
	if c.restOrDie() {
		c.Fatal("the process has ended")
	}
	text := last(c.T, steps)
	c.kill()
	n, err := strconv.Atoi(strings.Fields(text)[0])
	if err != nil {
		c.Fatalf("text = %q, err = %v, want nil", text, err)
	}
	return n
}

// left returns a relapse for each step of each write that a wreck's programs have yet to make.
func (w *wreck) left() (all []relapse) {
	for _, j := range w.jobs {
		for i := range writes {
			key := j.label + strconv.Itoa(i)
			if w.asked[key] > 0 {
				continue
			}
			for _, t := range []trap{{step: arrived}, {step: arrived, drop: true}, {step: applied}, {step: answered}} {
				t.key = key
				all = append(all, relapse{trap: t})
			}
		}
	}
	return all
}

// firsts are the kills whose recoveries are killed. One is during all programs' reads, so that all
// continue, and one is early. Some are in the middle, in each language, and two are late in a
// session.
var firsts = []plan{
	{kind: 0, write: -1, step: looked, slow: true},
	{kind: 0, write: 0, step: answered}, {kind: 1, write: 4, step: answered}, {kind: 2, write: -1, step: looked},
	{kind: 3, write: 6, step: applied}, {kind: 2, write: 9, step: answered}, {kind: 3, write: 9, step: answered},
}

// TestCrashRecovering kills recoveries. After a kill at one of a few moments it kills the next
// process: before each of its changes to the data folder, and at each step of each of its writes.
// Mostly it also kills the one after that, at a random change. Then it lets one recover.
// BIPLANE_CRASH is the maximum number of kills for each moment. Without it, there are a few for
// one. BIPLANE_CRASH_FIRST selects one of the moments, 0 to 6.
func TestCrashRecovering(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	if runtime.GOOS != "linux" {
		t.Skip("nothing here stops a process before each change that it makes")
	}
	most := moreKills(t)
	c := newCrash(t, seedOf(t))
	c.begin()
	c.settle()
	some := firsts
	if text := os.Getenv("BIPLANE_CRASH_FIRST"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(firsts) {
			t.Fatalf("BIPLANE_CRASH_FIRST=%s is none of 0 to %d", text, len(firsts)-1)
		}
		some = firsts[n : n+1]
	} else if most == 0 {
		some = firsts[c.rng.IntN(len(firsts)):][:1]
	}
	if most == 0 {
		most = 2
	}
	for _, p := range some {
		c.recoveries(p, most)
	}
}

// recoveries does that for one first kill, at most the given number of times.
func (c *crash) recoveries(p plan, most int) {
	c.Helper()
	jobs := c.jobs()
	key := jobs[p.kind].label
	if p.write >= 0 {
		key += strconv.Itoa(p.write)
	}
	first := &trap{key: key, step: p.step, drop: p.drop, fire: c.killer()}
	if p.slow {
		first.key, first.skip = "", len(jobs)-1
	}
	c.ledger.dawdle(p.slow)
	c.ledger.set(first)
	c.run(jobs)
	c.ledger.set(nil)
	c.ledger.dawdle(false)
	c.kill()
	w := c.wrecked(jobs)
	n := c.changesOf(w)
	relapses := w.left()
	for i := range n {
		relapses = append(relapses, relapse{change: i + 1})
	}
	for i := range relapses {
		if c.rng.IntN(4) > 0 {
			relapses[i].again = 1 + c.rng.IntN(n)
		}
	}
	c.rng.Shuffle(len(relapses), func(i, j int) { relapses[i], relapses[j] = relapses[j], relapses[i] })
	relapses = relapses[:min(most, len(relapses))]
	places := map[string]int{}
	for _, r := range relapses {
		for _, at := range c.relapse(w, r) {
			if _, what, ok := strings.Cut(at, " "); ok {
				places[what]++
			}
		}
	}
	c.Logf("after a kill %s: %d recoveries killed, of which one makes %d changes; killed before %v; executions under "+
		"way became %v", p, len(relapses), n, places, c.tally)
	c.back(w) // undo the last relapse, for the next one
	c.begin()
	c.rest()
	if !c.check(plan{after: time.Hour}, jobs) {
		c.Fatal("without a second kill")
	}
}

// TestCrashRecoveringAsked is the same for executions of each shape that wait for approval when
// their process is killed. Requests are decided as soon as the next process lives. Thus it is
// killed while it resumes executions, receives decisions, and makes approved calls.
func TestCrashRecoveringAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	if runtime.GOOS != "linux" {
		t.Skip("nothing here stops a process before each change that it makes")
	}
	most := moreKills(t)
	c := newCrash(t, seedOf(t))
	c.ask()
	c.begin()
	c.settle()
	some := shapes
	if most == 0 {
		some, most = shapes[c.rng.IntN(len(shapes)):][:1], 2
	}
	for _, s := range some {
		c.askedAgain(moment{shape: s, step: waits}, most)
	}
}

// askedAgain kills an execution that asks a person, of the shape of m, and then its recoveries: at
// most the given number of them.
func (c *crash) askedAgain(m moment, most int) {
	c.Helper()
	c.rounds++
	var jobs []*job
	for _, k := range kinds {
		jobs = append(jobs, &job{kind: k, label: fmt.Sprintf("w%d-%s%s-", c.rounds, k.language, k.session)})
	}
	c.propose(m, jobs)
	c.kill()
	w := c.wrecked(jobs)
	n := 0
	c.judgedBy(func() { n = c.changesOf(w) })
	relapses := make([]relapse, n)
	for i, again := range c.rng.Perm(n) {
		relapses[i] = relapse{change: i + 1, again: again} // 0: not killed again
	}
	c.rng.Shuffle(n, func(i, j int) { relapses[i], relapses[j] = relapses[j], relapses[i] })
	relapses = relapses[:min(most, n)]
	for _, r := range relapses {
		var at []string
		p := c.judgedBy(func() {
			c.back(w)
			at = c.dies(r)
			c.begin()
			c.rest()
		})
		if c.told(m, jobs, p); c.Failed() {
			c.Fatalf("%s: recovery killed %s (%s)", m.shape.name, r, strings.Join(at, "; "))
		}
	}
	c.Logf("%s: %d recoveries killed, of which one makes %d changes; executions became %v", m.shape.name,
		len(relapses), n, c.tally)
}

// judgedBy approves all pending requests while f runs.
func (c *crash) judgedBy(f func()) *approver {
	ctx, cancel := context.WithCancel(c.ctx)
	p := &approver{c: c, confirmed: make(chan struct{}), decided: map[string]int{}}
	var sitting sync.WaitGroup
	sitting.Go(func() { p.sit(ctx) })
	defer sitting.Wait()
	defer cancel()
	f()
	return p
}
