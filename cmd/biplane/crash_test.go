package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// writes is the number of writes of each program in these tests.
const writes = 10

// A kind is a kind of program to kill. Each makes ten writes, the second to fourth and the sixth to
// ninth concurrently, with a read in between.
type kind struct{ language, session string }

var kinds = []kind{{"typescript", ""}, {"python", ""}, {"typescript", "ts"}, {"python", "py"}}

// program returns a program of a kind, whose entries have the keys label0 to label9.
func (k kind) program(label string) string {
	code := `const K = "LABEL";
const w = i => ledger.write({ key: K + i });
const got = [await w(0)];
got.push(...await Promise.all([1, 2, 3].map(w)));
await ledger.read({ key: K });
got.push(await w(4));
got.push(...await Promise.all([5, 6, 7, 8].map(w)));
console.log("nine are written", Date.now() > 0, Math.random() < 1);
got.push(await w(9));
`
	counted := "n += 1;\n"
	last := "got"
	if k.language == "python" {
		code = `import asyncio, random, time
K = "LABEL"
def w(i):
    return ledger.write(key=K + str(i))
def still(i):
    return str(w(i))  # a function that can't await stands still for its answer
got = [await w(0)]
got += await asyncio.gather(*[w(i) for i in (1, 2, 3)])
await ledger.read(key=K)
got.append(still(4))
time.sleep(0.001)
got += await asyncio.gather(*[w(i) for i in (5, 6, 7, 8)])
print("nine are written", time.time() > 0, random.random() < 1)
got.append(await w(9))
`
		counted = "n += 1\n"
	}
	if k.session != "" {
		code += counted
	}
	return strings.ReplaceAll(code, "LABEL", label) + last
}

// A job is one execution that the driver has started.
type job struct {
	kind
	label string
	acked *api.Execution // the answer; nil if there was none
}

// A crash drives one data folder. It runs programs, kills their process, starts another one on the
// folder, and checks what both report against the ledger.
type crash struct {
	*testing.T
	ctx    context.Context
	dir    string
	ledger *ledger
	rng    *rand.Rand
	rounds int
	counts map[string]int // by session: programs that succeeded
	tally  map[string]int // by final state of executions that were interrupted by a kill
	signed []string       // the last checkpoint of the record

	mu     sync.Mutex
	cmd    *exec.Cmd
	dead   chan struct{} // closed when cmd has ended
	stderr *buffer
}

func newCrash(t *testing.T, seed uint64) *crash {
	t.Helper()
	most := 30 * time.Minute
	if os.Getenv("BIPLANE_CRASH") != "" {
		most = 12 * time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	c := &crash{T: t, ctx: ctx, dir: t.TempDir(), ledger: newLedger(t), rng: rand.New(rand.NewPCG(seed, 1)),
		counts: map[string]int{}, tally: map[string]int{}}
	c.configure("100ms")
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("seed %d; the last process said\n%s", seed, c.stderr)
		}
	})
	return c
}

// configure writes the configuration. Programs that only wait for tools are suspended after
// suspendAfter.
func (c *crash) configure(suspendAfter string) {
	c.Helper()
	config := fmt.Sprintf("policy: open\nstart_wait: 30s\nsessions: { suspend_after: %s }\nmcpServers:\n  ledger: { "+
		"url: %s }\n", suspendAfter, c.ledger.server.URL)
	if err := os.WriteFile(filepath.Join(c.dir, "biplane.yaml"), []byte(config), 0o600); err != nil {
		c.Fatalf("os.WriteFile: %v", err)
	}
}

func (c *crash) data() string        { return filepath.Join(c.dir, "data") }
func (c *crash) client() *api.Client { return daemon.Client(c.data()) }

// command returns a biplane command on the folder.
func (c *crash) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		c.Fatalf("os.Executable: %v", err)
	}
	return &exec.Cmd{
		Path: self, Args: append([]string{"biplane", "--data-dir", c.data()}, args...), Dir: c.dir,
		Env: append(os.Environ(), "HOME="+c.dir, "XDG_DATA_HOME="+c.dir, "BIPLANE_CONFIG="),
	}
}

// start starts a process.
func (c *crash) start(env ...string) (cmd *exec.Cmd, stderr *buffer, dead chan struct{}) {
	c.Helper()
	cmd, stderr, dead = c.command("serve", "--listen", "127.0.0.1:0"), &buffer{}, make(chan struct{})
	cmd.Stderr, cmd.Env = stderr, append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		c.Fatalf("Start: %v", err)
	}
	go func() { cmd.Wait(); close(dead) }()
	c.mu.Lock()
	c.cmd, c.dead, c.stderr = cmd, dead, stderr
	c.mu.Unlock()
	return cmd, stderr, dead
}

// begin starts a process, and waits until it answers.
func (c *crash) begin() {
	c.Helper()
	cmd, stderr, dead := c.start()
	waitFor(c.T, "biplane answers", func() bool {
		select {
		case <-dead:
			c.Fatalf("biplane has ended: %s", stderr)
		default:
		}
		s, err := c.client().Status(c.ctx)
		return err == nil && s.PID == cmd.Process.Pid
	})
}

// kill kills the process with SIGKILL, and waits until it is gone.
func (c *crash) kill() { c.killer()() }

// killer returns a function that kills the current process, and no later one.
func (c *crash) killer() func() {
	c.mu.Lock()
	cmd, dead := c.cmd, c.dead
	c.mu.Unlock()
	return func() {
		if cmd != nil {
			cmd.Process.Kill()
			<-dead
		}
	}
}

// run starts a program of each kind, and returns when all of them are answered or their process is
// dead.
func (c *crash) run(jobs []*job) {
	var wg sync.WaitGroup
	client := c.client()
	for _, j := range jobs {
		wg.Go(func() {
			x, err := client.Run(c.ctx,
				api.RunRequest{Code: j.program(j.label), Language: j.language, Session: j.session})
			if err == nil {
				j.acked = x
			}
		})
	}
	wg.Wait()
}

func (c *crash) jobs() []*job {
	c.rounds++
	var jobs []*job
	for _, k := range kinds {
		jobs = append(jobs, &job{kind: k, label: fmt.Sprintf("r%d-%s%s-", c.rounds, k.language, k.session)})
	}
	return jobs
}

// A plan configures when the process of a round is killed.
type plan struct {
	kind  int
	write int // -1: at the read
	step  step
	drop  bool
	after time.Duration // if not 0: this long after the start, instead
	again time.Duration // if not 0: killed again, this long after the restart
	slow  bool          // reads take so long that programs are suspended
}

func (p plan) String() string {
	if p.after > 0 {
		return fmt.Sprintf("after %v, again %v, slow reads %v", p.after, p.again, p.slow)
	}
	return fmt.Sprintf("%s, write %d %s, dropped %v, again %v", kinds[p.kind], p.write, p.step, p.drop, p.again)
}

// round runs programs, kills the process as planned, and checks the results once a new process is
// at rest.
func (c *crash) round(p plan) {
	c.Helper()
	jobs := c.jobs()
	c.ledger.dawdle(p.slow)
	if p.after > 0 {
		timer := time.AfterFunc(p.after, c.killer())
		defer timer.Stop()
	} else {
		key := jobs[p.kind].label
		if p.write >= 0 {
			key += strconv.Itoa(p.write)
		}
		c.ledger.set(&trap{key: key, step: p.step, drop: p.drop, fire: c.killer()})
		defer c.ledger.set(nil)
	}
	c.run(jobs)
	c.kill()
	c.begin()
	if p.again > 0 {
		timer := time.NewTimer(p.again)
		<-timer.C
		c.kill()
		c.begin()
	}
	c.rest()
	if !c.check(p, jobs) {
		c.Fatalf("round %d, killed %s", c.rounds, p)
	}
}

// rest waits until nothing runs any more, here and in the ledger.
func (c *crash) rest() {
	c.Helper()
	waitFor(c.T, "no execution is under way", func() bool {
		page, err := c.client().Executions(c.ctx,
			api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting}})
		if err != nil {
			c.Fatalf("Executions: %v", err)
		}
		return len(page.Executions) == 0 && c.ledger.quiet()
	})
}

// check checks the executions of a round against the ledger.
func (c *crash) check(p plan, jobs []*job) bool {
	c.Helper()
	client := c.client()
	page, err := client.Executions(c.ctx, api.ExecutionFilter{Limit: 4 * len(jobs)})
	if err != nil {
		c.Fatalf("Executions: %v", err)
	}
	found := map[string]*api.ExecutionDetail{}
	for _, e := range page.Executions {
		d, err := client.Journal(c.ctx, e.ID)
		if err != nil {
			c.Fatalf("Journal: %v", err)
		}
		for _, j := range jobs {
			if strings.Contains(d.Program, `"`+j.label+`"`) {
				if found[j.label] != nil {
					c.Errorf("%s: there are two executions, %s and %s", j.label, found[j.label].ID, d.ID)
				}
				found[j.label] = d
			}
		}
	}
	for i, j := range jobs {
		state := c.outcome(j, found[j.label])
		if j.acked == nil {
			c.tally[state]++
		}
		if state == api.StateDone && j.session != "" {
			c.counts[j.session]++
		}
		// During the read nothing else is under way, and everything before it is known.
		if p.after == 0 && p.write < 0 && i == p.kind && state != api.StateDone {
			c.Errorf("%s: killed when only a read was under way, it is %s", j.label, state)
		}
	}
	for _, k := range kinds {
		if k.session != "" {
			c.session(k)
		}
	}
	c.record(jobs, found)
	return !c.Failed()
}

// record verifies the record, including its growth since the previous round's checkpoint, and
// checks that it has everything that was sent.
func (c *crash) record(jobs []*job, found map[string]*api.ExecutionDetail) {
	c.Helper()
	client := c.client()
	report, err := client.Audit().Verify(c.ctx, c.signed...)
	if err != nil {
		c.Errorf("the record: %v", err)
		return
	}
	if !report.OK {
		c.Errorf("the record: %+v", report)
	}
	for _, j := range jobs {
		asked, _ := c.ledger.of(j.label)
		if found[j.label] == nil {
			continue
		}
		entries, err := client.Audit().ListRecords(c.ctx,
			api.AuditQuery{Execution: found[j.label].ID, Tool: "ledger.write", Limit: 1000})
		if err != nil || len(entries) < len(asked) {
			c.Errorf("%s: the record has %d writes, and %d were sent (%v)", j.label, len(entries), len(asked), err)
		}
		c.oneRecord(found[j.label].ID)
	}
	checkpoint, err := client.Audit().MakeCheckpoint(c.ctx)
	if err != nil {
		c.Errorf("the record: %v", err)
		return
	}
	c.signed = []string{checkpoint.Checkpoint}
}

// outcome checks one execution, and returns its state.
func (c *crash) outcome(j *job, d *api.ExecutionDetail) string {
	c.Helper()
	asked, written := c.ledger.of(j.label)
	for key, n := range asked {
		if n > 1 || len(written[key]) > 1 {
			c.Errorf("%s was sent %d times, and written %d times", key, n, len(written[key]))
		}
	}
	switch {
	case d == nil:
		if len(asked) > 0 || j.acked != nil {
			c.Errorf("%s: no execution is known, and the ledger was asked for %v", j.label, asked)
		}
		return "absent"
	case j.acked != nil && (d.State != j.acked.State || compact(d.Value) != compact(j.acked.Value)):
		c.Errorf("%s: answered as %s %s, and now it is %s %s", j.label, j.acked.State, j.acked.Value, d.State, d.Value)
	}
	switch d.State {
	case api.StateDone:
		c.done(j, d, written)
	case api.StateInterrupted:
		c.interrupted(j, d, asked, written)
	default:
		c.Errorf("%s is %s: %+v", j.label, d.State, d.Error)
	}
	return d.State
}

// done checks a successful execution: everything was written once, and the program got the results.
func (c *crash) done(j *job, d *api.ExecutionDetail, written map[string][]string) {
	c.Helper()
	var value, want []string
	if err := json.Unmarshal(d.Value, &value); err != nil {
		c.Errorf("%s: value %s: %v", j.label, d.Value, err)
	}
	for i := range writes {
		want = append(want, written[j.label+strconv.Itoa(i)]...)
	}
	if len(want) != writes || !slices.Equal(value, want) {
		c.Errorf("%s: the program was told\n%q\nand the ledger has\n%q", j.label, value, want)
	}
	if len(d.Calls) != writes+1 {
		c.Errorf("%s: %d calls are known", j.label, len(d.Calls))
	}
}

// interrupted checks an execution that could not continue: it names a call with an unknown outcome,
// and reports all others correctly.
func (c *crash) interrupted(j *job, d *api.ExecutionDetail, asked map[string]int, written map[string][]string) {
	c.Helper()
	if d.Error == nil || !strings.Contains(d.Error.Message, "ledger.write") {
		c.Errorf("%s: interrupted, and names no call: %+v", j.label, d.Error)
	}
	known, unknown := map[string]bool{}, 0
	for _, call := range d.Calls {
		var args struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(call.Arguments, &args); err != nil {
			c.Errorf("%s: call %d: arguments %s: %v", j.label, call.Call, call.Arguments, err)
		}
		known[args.Key] = true
		n := len(written[args.Key])
		switch wrong := false; call.State {
		case api.CallUnknown:
			unknown++
		case api.CallDone:
			wrong = n != 1 && call.Tool == "ledger.write"
			fallthrough
		case api.CallNotMade:
			if wrong || call.State == api.CallNotMade && (n != 0 || asked[args.Key] != 0) {
				c.Errorf("%s: call %d (%s) is %s, and the ledger was asked for it %d times and wrote it %d times",
					j.label, call.Call, args.Key, call.State, asked[args.Key], n)
			}
		default:
			c.Errorf("%s: call %d (%s) is %s: %s", j.label, call.Call, args.Key, call.State, call.Error)
		}
	}
	if unknown == 0 {
		c.Errorf("%s: interrupted, and the outcome of every call is known", j.label)
	}
	for key := range asked {
		if !known[key] {
			c.Errorf("%s: %s was sent, and the journal has no such call", j.label, key)
		}
	}
}

// session checks that the session of a kind has exactly the effects of its successful programs.
func (c *crash) session(k kind) {
	c.Helper()
	x, err := c.client().Run(c.ctx, api.RunRequest{Code: "n", Language: k.language, Session: k.session})
	if err != nil {
		c.Errorf("session %s: %v", k.session, err)
		return
	}
	if want := strconv.Itoa(c.counts[k.session]); x.Error != nil || compact(x.Value) != want {
		c.Errorf("session %s has %s, %+v: want %s", k.session, x.Value, x.Error, want)
	}
}

// settle creates the sessions.
func (c *crash) settle() {
	c.Helper()
	for _, k := range kinds {
		code := map[string]string{"typescript": "let n = 0", "python": "n = 0"}[k.language]
		if k.session == "" {
			continue
		}
		if x, err := c.client().Run(c.ctx,
			api.RunRequest{Code: code, Language: k.language, Session: k.session}); err != nil || x.Error != nil {
			c.Fatalf("session %s: %v %+v", k.session, err, x)
		}
	}
}

// length measures how long the programs of a round take without a kill, and checks them.
func (c *crash) length() time.Duration {
	c.Helper()
	jobs := c.jobs()
	begun := time.Now()
	c.run(jobs)
	took := time.Since(begun)
	c.rest()
	if !c.check(plan{after: time.Hour}, jobs) {
		c.Fatal("a round without a kill")
	}
	return took
}

func compact(v json.RawMessage) string {
	var any any
	if err := json.Unmarshal(v, &any); err != nil {
		return string(v)
	}
	text, err := json.Marshal(any)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// steps returns all steps of each write of a program of each kind: 4 × (10 × 4 + 1).
func steps() (all []plan) {
	for k := range kinds {
		for w := range writes {
			for _, p := range []plan{{step: arrived}, {step: arrived, drop: true}, {step: applied}, {step: answered}} {
				p.kind, p.write = k, w
				all = append(all, p)
			}
		}
		all = append(all, plan{kind: k, write: -1, step: looked})
	}
	return all
}

// moreKills returns BIPLANE_CRASH, the number of kills at random times; 0 if it is not set.
func moreKills(t *testing.T) int {
	text := os.Getenv("BIPLANE_CRASH")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("BIPLANE_CRASH=%s: %v", text, err)
	}
	return n
}

// seedOf returns BIPLANE_CRASH_SEED, the seed of an earlier run, or a new one.
func seedOf(t *testing.T) uint64 {
	text := os.Getenv("BIPLANE_CRASH_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("BIPLANE_CRASH_SEED=%s: %v", text, err)
	}
	return seed
}

// TestCrash kills biplane with SIGKILL at steps of executions with ten writes, some of them
// concurrent, and at random times. It starts another one on the data folder, and counts at the
// upstream: each write must be made once, or be reported as unknown. Each kill hits four executions
// at once. BIPLANE_CRASH is the number of kills at random times, in addition to those at each step.
// Without it, the test makes a selection of both.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	more := moreKills(t)
	c := newCrash(t, seedOf(t))
	c.begin()
	c.settle()
	took := max(c.length(), c.length())
	all := steps()
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if more == 0 {
		all = all[:14]
		more = 6
	}
	for range more {
		p := plan{after: time.Duration(c.rng.Int64N(int64(took)) + 1)}
		if p.slow = c.rng.IntN(4) == 0; p.slow {
			p.after += time.Duration(c.rng.Int64N(int64(dawdling)))
		}
		if c.rng.IntN(3) == 0 {
			p.again = time.Duration(c.rng.Int64N(int64(took)) + 1)
		}
		all = append(all, p)
	}
	for i, p := range all {
		if c.round(p); (i+1)%100 == 0 || i+1 == len(all) {
			t.Logf("%d of %d kills; executions under way became %v", i+1, len(all), c.tally)
		}
	}
	if c.tally[api.StateDone] == 0 || c.tally[api.StateInterrupted] == 0 {
		t.Errorf("executions that were killed became %v: some must go on, and some can't", c.tally)
	}
}

// oneRecord checks that each call of an execution has one record, or further ones that name the
// previous one. The journal must not be mistaken for a truncated one.
func (c *crash) oneRecord(execution string) {
	c.Helper()
	if d, err := c.client().Journal(c.ctx, execution); err != nil ||
		d.Error != nil && strings.Contains(d.Error.Message, "the end of the journal is gone") {
		c.Errorf("execution = %s, d = %+v, err = %v, want err == nil && (d.Error == nil || "+
			"!strings.Contains(d.Error.Message, \"the end of the journal is gone\"))", execution, d, err)
	}
	entries, err := c.client().Audit().ListRecords(c.ctx, api.AuditQuery{Kind: "call", Execution: execution,
		Limit: 1000})
	if err != nil {
		c.Errorf("the record: %v", err)
	}
	of := map[string]api.AuditRecord{}
	for _, e := range slices.Backward(entries) {
		if before, ok := of[e.Call]; ok && e.Detail["again"] != before.ID {
			c.Errorf("call %s, %s, has the records %s (%s) and %s (%s)", e.Call, e.Tool, before.ID, before.Outcome,
				e.ID, e.Outcome)
		}
		of[e.Call] = e
	}
}
