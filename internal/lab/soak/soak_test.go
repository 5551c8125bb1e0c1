package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// amount returns the number of executions, BIPLANE_SOAK, and the random seed. There are a hundredth
// as many sessions. By default there are few executions, which take some seconds. BIPLANE_SOAK_SEED
// repeats the random choices of an earlier run.
func amount(t *testing.T) (executions int, seed uint64) {
	executions = 800
	if s := os.Getenv("BIPLANE_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100 {
			t.Fatalf("BIPLANE_SOAK=%s is no number of executions", s)
		}
		executions = n
	}
	seed = rand.Uint64()
	if s := os.Getenv("BIPLANE_SOAK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("strconv.ParseUint: %v", err)
		}
	}
	return executions, seed
}

const (
	workers = 4 // concurrent workers, each with its own sessions
	phases  = 10
)

// A soak is one run of the test.
type soak struct {
	t         *testing.T
	dir       string
	key       *secret.Key
	languages []string
	seed      uint64
	began     time.Time
	clock     wallclock.Clock // of the executor

	driver *counted
	plane  *plane
	kills  atomic.Int64 // children killed after they had started
	dead   atomic.Int64 // of those, the ones whose end the driver has noticed
	made   sandboxes
	counts [outcomes]atomic.Int64
	crowd  []*worker
}

// The outcomes of steps, for the report.
const (
	executed = iota // programs
	failed          // on purpose
	canceled
	lost // because the child was killed
	forked
	ended
	resumed // sessions restored from disk, according to the result
	outcomes
)

var outcomeNames = [outcomes]string{"executions", "failed on purpose", "canceled", "lost with a killed child", "forks",
	"ends", "said to come from the disk"}

// sandboxes counts how sandboxes were created.
type sandboxes struct{ fresh, restored atomic.Int64 }

// A counted driver counts the sandboxes that it creates.
type counted struct {
	driver
	made *sandboxes
}

func (d *counted) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	d.made.fresh.Add(1)
	return d.driver.Create(ctx, spec)
}

func (d *counted) Restore(ctx context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	d.made.restored.Add(1)
	return d.driver.Restore(ctx, spec, snapshot)
}

// A worker uses its own sessions.
type worker struct {
	*soak
	rand     *rand.Rand
	who      tool.Principal
	sessions []*truth
	last     int
}

// TestSoak runs programs in many sessions, with random suspensions, resumptions, forks, ends,
// failures, cancellations and killed children. It knows what each session must contain. At the end
// it checks for leaks.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	n, seed := amount(t)
	t.Logf("%d executions, BIPLANE_SOAK_SEED=%d", n, seed)
	before := here()
	s := &soak{t: t, dir: t.TempDir(), key: newKey(t), seed: seed, began: time.Now()}
	each := max(50, n/100) / workers
	for i := range workers {
		w := &worker{soak: s, rand: rand.New(rand.NewPCG(seed, uint64(i))),
			who: tool.Principal{ID: fmt.Sprintf("local:p%d", i%3), Client: "soak/1"}}
		for range each {
			w.sessions = append(w.sessions, newTruth())
		}
		s.crowd = append(s.crowd, w)
	}
	s.driver = &counted{driver: inChildren(t), made: &s.made}
	s.languages = languagesOf(t, s.driver)
	var first usage
	for phase := range phases {
		s.phase(n / phases / workers)
		if t.Failed() {
			return
		}
		held := here()
		t.Logf("phase %d, %s: %s%s", phase+1, time.Since(s.began).Round(time.Second), held, s.childrenHold())
		if phase == 1 { // everything has been used by now
			first = held
		}
		if phase > 1 {
			flat(t, "this process", first, held)
		}
		if phase%3 == 2 { // a new set of children
			s.end()
			s.driver = &counted{driver: inChildren(t), made: &s.made}
		}
	}
	s.verify()
	s.end()
	for i, name := range outcomeNames {
		t.Logf("%d %s", s.counts[i].Load(), name)
	}
	t.Logf("%d children killed; %d sandboxes made, %d restored", s.kills.Load(), s.made.fresh.Load(),
		s.made.restored.Load())
	if s.made.restored.Load() <= s.counts[resumed].Load() {
		t.Error("no program was suspended while it waited")
	}
	var now usage
	eventually(t, func() string {
		return fmt.Sprintf("as many goroutines and files as before: %s, and now %s", before, now)
	}, func() bool {
		now = here()
		return now.goroutines <= before.goroutines+2 && now.files <= before.files+2
	})
	if s.counts[executed].Load() < int64(n) {
		t.Errorf("only %d executions", s.counts[executed].Load())
	}
}

// flat fails the test if a process uses clearly more resources than before.
func flat(t *testing.T, what string, was, is usage) {
	t.Helper()
	if is.goroutines > was.goroutines+10 || is.files > was.files+10 || is.maps > was.maps+200 ||
		is.resident > was.resident*5/4+64<<20 {
		t.Errorf("%s holds more and more: %s, then %s", what, was, is)
	}
}

// childrenHold describes the resource usage of the children, which have no sandboxes now, and
// checks that it is small.
func (s *soak) childrenHold() string {
	var b strings.Builder
	for _, pid := range children() {
		u := of(strconv.Itoa(pid))
		fmt.Fprintf(&b, "\n  child %d: %d descriptors, %d mappings, %.1f MB resident", pid, u.files, u.maps,
			float64(u.resident)/1e6)
		if u.maps > 2000 || u.files > 100 {
			s.t.Errorf("child %d holds %d mappings and %d descriptors, and has no sandbox", pid, u.maps, u.files)
		}
	}
	return b.String()
}

// end closes the driver, and waits until no child is left.
func (s *soak) end() {
	if err := s.driver.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	eventually(s.t, func() string { return fmt.Sprintf("no children: %v", children()) }, func() bool {
		return len(children()) == 0
	})
}

// begin creates an executor over the store, as a new process would.
func (s *soak) begin() {
	limits := executor.Limits{}
	limits.Sessions.SuspendAfter = 5 * time.Millisecond
	limits.Sessions.Hot = 3 + len(s.crowd[0].sessions)/20 // a small part of all
	s.plane = open(s.t, setting{driver: s.driver, dir: s.dir, key: s.key, limits: limits, clock: &s.clock})
}

// phase runs n programs in each worker, and closes the executor.
func (s *soak) phase(n int) {
	s.begin()
	var all sync.WaitGroup
	for _, w := range s.crowd {
		all.Go(func() {
			for range n {
				if s.t.Failed() {
					return
				}
				w.step()
			}
		})
	}
	all.Wait()
	s.plane.close(s.t)
}

// step performs one random step.
func (w *worker) step() {
	switch d := w.rand.IntN(1000); {
	case d < 20:
		w.fork()
	case d < 25:
		w.end()
	case d < 32:
		w.kill()
	case d < 37: // exceed the idle limit of everything idle
		w.clock.Advance(11 * time.Minute)
	}
	if w.rand.IntN(10) == 0 {
		w.alone()
		return
	}
	if w.rand.IntN(2) == 0 {
		w.last = w.rand.IntN(len(w.sessions))
	}
	language := w.languages[w.rand.IntN(len(w.languages))]
	w.run(w.last, w.sessions[w.last].next(language, func() int { return w.rand.IntN(1000) }), language)
}

// name returns the name of a session: workers of one principal use different ones.
func (w *worker) name(i int) string {
	for n, x := range w.crowd {
		if x == w {
			return fmt.Sprintf("w%d-%d", n, i)
		}
	}
	return ""
}

// run runs a program in a session, and compares its result with the truth.
func (w *worker) run(i int, st step, language string) {
	s, dead := w.sessions[i], w.dead.Load()
	args := map[string]any{"code": st.code, "language": language, "session": w.name(i)}
	if st.seconds > 0 {
		args["timeout_seconds"] = st.seconds
	}
	ctx := w.t.Context()
	if st.cancel {
		c, cancel := context.WithTimeout(ctx, time.Duration(1+w.rand.IntN(20))*time.Millisecond)
		defer cancel()
		ctx = c
	}
	a, err := w.plane.run(ctx, w.who, args)
	w.counts[executed].Add(1)
	switch {
	case err != nil:
		w.t.Errorf("run the program: %v", err)
		return
	case a.failed && st.cancel:
		w.counts[canceled].Add(1)
		return
	case a.failed && w.kills.Load() > s.kills && strings.Contains(a.all, "process ended"):
		w.counts[lost].Add(1)
		s.kills = dead
		return
	case a.failed != (st.change == nil):
		w.t.Errorf("session %s of %s: this should %s:\n%s\n%s", w.name(i), w.who.ID,
			map[bool]string{true: "fail", false: "not fail"}[st.change == nil], st.code, a.all)
		return
	}
	s.kills = dead
	if st.change == nil {
		w.counts[failed].Add(1)
		return
	}
	next := s.clone()
	if want := st.change(next); a.text != want {
		w.t.Errorf("session %s of %s: %s\nanswered %s, not %s\n%s", w.name(i), w.who.ID, st.code, a.text, want, a.all)
		return
	}
	w.sessions[i] = next
	if strings.Contains(a.all, "resumed") {
		w.counts[resumed].Add(1)
	}
}

// alone runs a program without a session.
func (w *worker) alone() {
	k, dead := w.rand.IntN(1000), w.dead.Load()
	language := w.languages[w.rand.IntN(len(w.languages))]
	a, err := w.plane.run(w.t.Context(), w.who,
		map[string]any{"code": fmt.Sprintf(idioms[language].alone, k), "language": language})
	w.counts[executed].Add(1)
	switch {
	case err != nil:
		w.t.Errorf("run the program: %v", err)
	case a.failed && w.kills.Load() > dead && strings.Contains(a.all, "process ended"):
		w.counts[lost].Add(1)
	case a.failed || a.text != strconv.Itoa(k+1):
		w.t.Errorf("a program alone: %s, not %d", a.all, k+1)
	}
}

// fork copies a session over another one, which is ended first.
func (w *worker) fork() {
	from, to := w.rand.IntN(len(w.sessions)), w.rand.IntN(len(w.sessions))
	if from == to || w.sessions[from].empty() {
		return
	}
	w.endOne(to)
	if _, err := w.plane.Sessions().Fork(w.t.Context(), w.who, w.name(from), w.name(to)); err != nil {
		if w.kills.Load() <= w.sessions[from].kills {
			w.t.Errorf("fork %s: %v", w.name(from), err)
		}
		return
	}
	w.sessions[to] = w.sessions[from].clone()
	w.counts[forked].Add(1)
}

func (w *worker) end() { w.endOne(w.rand.IntN(len(w.sessions))) }

func (w *worker) endOne(i int) {
	if w.sessions[i].empty() {
		return
	}
	if err := w.plane.Sessions().End(w.t.Context(), w.who, w.name(i)); err != nil {
		w.t.Errorf("end %s: %v", w.name(i), err)
		return
	}
	w.sessions[i] = newTruth()
	w.counts[ended].Add(1)
}

// kill kills a child, like a crash of the engine.
func (w *worker) kill() {
	pids := children()
	if len(pids) == 0 {
		return
	}
	pid := pids[w.rand.IntN(len(pids))]
	w.kills.Add(1)
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have just ended
	}
	eventually(w.t, func() string { return fmt.Sprintf("child %d killed", pid) }, func() bool {
		return started()[pid] == ""
	})
	w.dead.Add(1)
}

// verify compares every session with the truth, in its own executor.
func (s *soak) verify() {
	s.begin()
	defer func() { s.plane.close(s.t) }()
	checks := 0
	for _, w := range s.crowd {
		for i, truth := range w.sessions {
			for language := range truth.guests {
				checks++
				w.run(i, step{code: idioms[language].check, change: checked(language)}, language)
			}
			for name := range truth.files {
				for language := range truth.guests {
					k := int(name[1] - '0')
					w.run(i, truth.read(language, k), language)
				}
			}
		}
	}
	s.t.Logf("%d guests hold what they should", checks)
}
