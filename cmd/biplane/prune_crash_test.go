package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/biplane-dev/biplane/api"
)

// An operation is a command that changes a data folder, and what must hold after it was killed.
type operation struct {
	name   string
	args   []string
	folder string              // whose changes are counted, and that is copied before each kill
	check  func(c *crash) bool // after a kill, with a process on the data folder; false: it reported why
	output string              // a file elsewhere that is removed before each run; empty: none
}

// newStepCrash returns a crash whose processes can be stopped before each change, and the maximum
// number of kills: few without BIPLANE_CRASH.
func newStepCrash(t *testing.T, few int) (*crash, int) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
	if runtime.GOOS != "linux" {
		t.Skip("nothing here stops a process before each change that it makes")
	}
	return newCrash(t, seedOf(t)), cmp.Or(moreKills(t), few)
}

// TestCrashOperations kills prune, backup and restore before each change that they make to a
// folder. Nothing is lost: the record verifies and has all calls, and the same command, given
// again, succeeds. BIPLANE_CRASH is the maximum number of kills for each; without it, there are a
// few.
func TestCrashOperations(t *testing.T) {
	c, most := newStepCrash(t, 4)
	calls := c.fillRecord()
	for _, o := range c.operations(calls) {
		t.Run(o.name, func(t *testing.T) { c.killEach(t, o, most) })
	}
}

// fillRecord runs a program with so many calls that several spans of the record are full, and
// returns their number. No process runs afterwards.
func (c *crash) fillRecord() int {
	c.Helper()
	const calls = 500
	c.begin()
	x, err := c.client().Run(c.ctx, api.RunRequest{Session: "kept", Code: `const all = [];
		for (let i = 0; i < ` + strconv.Itoa(calls) + `; i++) all.push(ledger.read({ key: "k" + i }));
		var kept = (await Promise.all(all)).length; kept`})
	if err != nil || x.State != api.StateDone {
		c.Fatalf("Run: %+v, %v", x, err)
	}
	point, err := c.client().Audit().MakeCheckpoint(c.ctx)
	if err != nil {
		c.Fatalf("Checkpoint: %v", err)
	}
	c.signed = []string{point.Checkpoint}
	c.kill()
	return calls
}

// operations returns the commands to kill.
func (c *crash) operations(calls int) []operation {
	k, err := age.GenerateX25519Identity()
	if err != nil {
		c.Fatalf("age.GenerateX25519Identity: %v", err)
	}
	secret := filepath.Join(c.dir, "key.txt")
	if err := os.WriteFile(secret, []byte(k.String()+"\n"), 0o600); err != nil {
		c.Fatalf("os.WriteFile: %v", err)
	}
	out := filepath.Join(c.dir, "out")
	file := filepath.Join(out, "a.backup")
	backup := []string{"backup", file, "--recipient", k.Recipient().String()}
	complete := func(c *crash) bool { return c.hasCalls(calls) }
	restored := filepath.Join(out, "data")
	return []operation{
		{"archive", []string{"prune", "--audit", "0"}, c.data(), complete, ""},
		{"prune", []string{"prune", "--journals", "0", "--executions", "0", "--usage", "0"}, c.data(), complete, ""},
		{"backup", backup, out, complete, ""},
		{"backup-copy", append([]string{"backup", file + ".2"}, backup[2:]...), c.data(), complete, file + ".2"},
		{"restore", []string{"restore", file, "--identity", secret, "--data-dir", restored}, out,
			func(c *crash) bool {
				_, err := os.Stat(filepath.Join(restored, "biplane.db"))
				return err != nil || c.verifies(restored)
			}, ""},
	}
}

// killEach kills the operation before each of its changes, at most most times, each time from the
// same state. Then it must succeed.
func (c *crash) killEach(t *testing.T, o operation, most int) {
	old := c.T
	c.T = t
	defer func() { c.T = old }()
	if err := os.MkdirAll(o.folder, 0o700); err != nil {
		c.Fatalf("os.MkdirAll: %v", err)
	}
	state := t.TempDir()
	copyFolder(t, state, o.folder)
	reset := func() {
		if err := os.RemoveAll(o.folder); err != nil {
			c.Fatalf("os.RemoveAll: %v", err)
		}
		copyFolder(t, o.folder, state)
	}
	steps, text, err := c.operate(o, 0)
	if err != nil {
		c.Fatalf("%s: %v: %s", o.name, err, text)
	}
	n, err := strconv.Atoi(strings.Fields(last(t, steps))[0])
	if err != nil {
		c.Fatalf("%s made no change: %s", o.name, text)
	}
	c.checkAfter(o)
	places := map[string]int{}
	for _, i := range c.rng.Perm(n)[:min(most, n)] {
		reset()
		steps, text, err := c.operate(o, i+1)
		at := last(t, steps)
		places[strings.TrimLeft(at, "0123456789 ")]++
		if err == nil {
			c.Logf("%s ended before change %d: %s", o.name, i+1, text)
		}
		if !o.check(c) {
			c.Fatalf("%s was killed at change %s", o.name, at)
		}
		c.kill()
		if _, text, err := c.operate(o, 0); err != nil && !strings.Contains(text, "exists already") &&
			!strings.Contains(text, "is not empty") {
			c.Fatalf("%s, killed at change %s, and made again: %v: %s", o.name, at, err, text)
		}
		c.checkAfter(o)
	}
	c.Logf("%s makes %d changes; it was killed at %v", o.name, n, places)
}

// checkAfter checks what must hold after an operation.
func (c *crash) checkAfter(o operation) {
	c.Helper()
	if !o.check(c) {
		c.Fatalf("%s has succeeded, and something is lost", o.name)
	}
	c.kill()
}

// operate runs the command, which is killed before its n-th change; 0: never.
func (c *crash) operate(o operation, n int) (steps, text string, err error) {
	c.Helper()
	steps = filepath.Join(c.dir, "steps")
	for _, path := range []string{steps, o.output} {
		if path != "" && os.RemoveAll(path) != nil {
			c.Fatalf("%s can't be removed", path)
		}
	}
	cmd := c.command(o.args...)
	cmd.Env = append(cmd.Env, "BIPLANE_TEST_STEPS="+steps, "BIPLANE_TEST_FOLDER="+o.folder,
		"BIPLANE_TEST_STEP="+strconv.Itoa(n))
	out, err := cmd.CombinedOutput()
	if n == 0 || err == nil {
		return steps, string(out), err
	}
	if e, ok := err.(*exec.ExitError); !ok || e.Exited() {
		c.Fatalf("%s: %v, want it killed: %s", o.name, err, out)
	}
	return steps, string(out), err
}

// hasCalls starts a process on the data folder. It reports whether the record verifies and has all
// calls, and whether the session is there.
func (c *crash) hasCalls(calls int) bool {
	c.Helper()
	c.begin()
	report, err := c.client().Audit().Verify(c.ctx, c.signed...)
	if err != nil || !report.OK {
		c.Errorf("verify: %+v, %v", report, err)
	}
	records, err := c.client().Audit().ListRecords(c.ctx, api.AuditQuery{Tool: "ledger.read", Limit: 1000})
	if err != nil || len(records) != calls {
		c.Errorf("the record has %d calls, %v, want %d", len(records), err, calls)
	}
	x, err := c.client().Run(c.ctx, api.RunRequest{Session: "kept", Code: "kept"})
	if err != nil || string(x.Value) != strconv.Itoa(calls) {
		c.Errorf("the session: %+v, %v, want its variable", x, err)
	}
	return !c.Failed()
}

// verifies reports whether the record of a folder verifies.
func (c *crash) verifies(folder string) bool {
	c.Helper()
	cmd := c.command("audit", "verify")
	cmd.Args[2] = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Errorf("verify the restored folder: %v: %s", err, out)
	}
	return err == nil
}

// TestCrashReload kills a process before each change of its data folder while programs make calls
// and it loads a changed configuration, with another upstream. Each write is
// made once or reported as unknown, and the record has all of it. BIPLANE_CRASH is the maximum
// number of kills; without it, there are a few.
func TestCrashReload(t *testing.T) {
	c, most := newStepCrash(t, 3)
	c.begin()
	c.settle()
	c.kill()
	before, after := c.reloadUntil(0)
	if after <= before {
		t.Fatalf("the reload made no change: %d and %d", before, after)
	}
	for _, i := range c.rng.Perm(after - before)[:min(most, after-before)] {
		c.reloadUntil(before + i + 1)
	}
	c.Logf("a start makes %d changes, and programs with a reload %d more; executions became %v", before, after-before,
		c.tally)
}

// reloadUntil runs programs in a process that loads a changed configuration, and that is killed
// before the n-th change of its data folder; 0: afterwards. It checks the result with another
// process. It returns the number of changes before the programs, and in all.
func (c *crash) reloadUntil(n int) (before, after int) {
	c.Helper()
	jobs := c.jobs()
	c.configure("100ms")
	steps := c.stepped(n)
	c.mu.Lock()
	cmd, dead := c.cmd, c.dead
	c.mu.Unlock()
	isDead := func() bool {
		select {
		case <-dead:
			return true
		default:
			return false
		}
	}
	waitFor(c.T, "biplane answers, or dies", func() bool {
		s, err := c.client().Status(c.ctx)
		return isDead() || err == nil && s.PID == cmd.Process.Pid
	})
	before = c.countSteps(steps)
	var work sync.WaitGroup
	work.Go(func() { c.run(jobs) })
	c.addUpstream()
	_ = cmd.Process.Signal(syscall.SIGHUP) // it may be dead
	waitFor(c.T, "the configuration is loaded, or biplane dies", func() bool {
		s, err := c.client().Status(c.ctx)
		if err == nil && s.Reload != nil && s.Reload.Problem != "" {
			c.Fatalf("the reload: %s", s.Reload.Problem)
		}
		return isDead() || err == nil && s.Reload != nil
	})
	work.Wait()
	after = c.countSteps(steps)
	c.kill()
	c.begin()
	c.rest()
	c.rounds++
	if !c.check(plan{after: time.Hour}, jobs) {
		c.Fatalf("killed at change %d: %s", n, last(c.T, steps))
	}
	c.kill()
	return before, after
}

// addUpstream adds an upstream to the configuration.
func (c *crash) addUpstream() {
	c.Helper()
	path := filepath.Join(c.dir, "biplane.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		more := "  second: { url: " + c.ledger.server.URL + ", disabledTools: [read] }\n"
		err = os.WriteFile(path, append(text, more...), 0o600)
	}
	if err != nil {
		c.Fatalf("change the configuration: %v", err)
	}
}

// countSteps returns the number of changes that a process has logged.
func (c *crash) countSteps(steps string) int {
	c.Helper()
	fields := strings.Fields(last(c.T, steps))
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	return n
}
