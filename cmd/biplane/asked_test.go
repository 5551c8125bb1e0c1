package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// A shape is how programs ask for approval: for one write, for several at once, or for a plan of
// all writes.
type shape struct {
	name   string
	mode   string // of execute
	writes int
}

var shapes = []shape{{"one", "", 1}, {"several", "", 3}, {"plan", "plan", 4}}

// code returns a program of a shape and kind. It reads, then makes its writes: one, three
// concurrently, or one and then three concurrently.
func (s shape) code(k kind, label string) string {
	alone, together := "got.push(await w(0));", "got.push(...await Promise.all([%s].map(w)));"
	code := "const K = \"LABEL\";\nconst w = i => ledger.write({ key: K + i });\nconst got = [];\nawait " +
		"ledger.read({ key: K });\nBODY\nawait ledger.read({ key: K + \"end\" });\n"
	counted := "n += 1;\n"
	if k.language == "python" {
		alone, together = "got.append(await w(0))", "got += await asyncio.gather(*[w(i) for i in [%s]])"
		code = "import asyncio\nK = \"LABEL\"\ndef w(i):\n    return ledger.write(key=K + str(i))\ngot = []\nawait " +
			"ledger.read(key=K)\nBODY\nawait ledger.read(key=K + \"end\")\n"
		counted = "n += 1\n"
	}
	body := alone
	switch s.writes {
	case 3:
		body = fmt.Sprintf(together, "0, 1, 2")
	case 4:
		body = alone + "\n" + fmt.Sprintf(together, "1, 2, 3")
	}
	if k.session != "" {
		code += counted
	}
	return strings.NewReplacer("LABEL", label, "BODY", body).Replace(code) + "got"
}

// The steps at which the upstream has nothing under way.
const (
	reading step = "reading" // before any request
	waits   step = "waits"   // all programs wait
	decided step = "decided" // the first decision was just confirmed
	ending  step = "ending"  // everything is written, but the program has not ended
)

// A moment is when the process of a round is killed.
type moment struct {
	shape shape
	kind  int
	step  step
	write int
	drop  bool
	after time.Duration // this long after the decisions start; 0: at the step
	cli   bool          // decide on the command line, not over the API
}

func (m moment) String() string {
	if m.after > 0 {
		return fmt.Sprintf("%s, %v after the decisions began, command line %v", m.shape.name, m.after, m.cli)
	}
	return fmt.Sprintf("%s, %s, write %d %s, dropped %v, command line %v", m.shape.name, kinds[m.kind], m.write, m.step,
		m.drop, m.cli)
}

// moments returns all steps of each shape and kind.
func moments() (all []moment) {
	for _, s := range shapes {
		for k := range kinds {
			for _, at := range []step{reading, waits, decided, ending} {
				if at != ending || s.mode == "" { // a plan has already read what it reads
					all = append(all, moment{shape: s, kind: k, step: at})
				}
			}
			for w := range s.writes {
				for _, m := range []moment{{step: arrived}, {step: arrived, drop: true}, {step: applied},
					{step: answered}} {
					m.shape, m.kind, m.write = s, k, w
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// TestCrashAsked kills biplane with SIGKILL at steps of executions that wait for approval: one,
// several at once, or of a plan. Another client decides after a restart, on the command line or
// over the API. Each approved call must be written once, with the approved bytes, or be reported as
// unknown. BIPLANE_CRASH is the number of kills at random times, in addition to those at each step.
// Without it, the test makes a selection of both.
func TestCrashAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	seed, more := uint64(time.Now().UnixNano()), moreKills(t)
	c := newCrash(t, seed)
	c.ask()
	c.begin()
	c.settle()
	all := moments()
	c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if more == 0 {
		all, more = choice(all), 1
	}
	for range more {
		m := moment{shape: shapes[c.rng.IntN(len(shapes))],
			after: time.Duration(c.rng.Int64N(int64(300*time.Millisecond)) + 1)}
		all = append(all, m)
	}
	for i, m := range all {
		m.cli = c.rng.IntN(4) == 0
		if c.asked(m); c.Failed() {
			c.Fatalf("round %d, killed %s", c.rounds, m)
		}
		if (i+1)%50 == 0 || i+1 == len(all) {
			t.Logf("%d of %d kills; executions under way became %v", i+1, len(all), c.tally)
		}
	}
	if c.tally[api.StateDone] == 0 {
		t.Errorf("executions became %v: some must go on", c.tally)
	}
}

// ask configures the processes started from now on to require approval for each write.
func (c *crash) ask() {
	c.Helper()
	config := fmt.Sprintf("policy: ask-for-writes\nstart_wait: 30s\nsessions: { suspend_after: 100ms "+
		"}\nmcpServers:\n  ledger: { url: %s }\n", c.ledger.server.URL)
	if err := os.WriteFile(filepath.Join(c.dir, "biplane.yaml"), []byte(config), 0o600); err != nil {
		c.Fatalf("os.WriteFile: %v", err)
	}
}

// choice returns a few moments of each shape.
func choice(all []moment) (few []moment) {
	n := map[string]int{}
	for _, m := range all {
		if n[m.shape.name]++; n[m.shape.name] <= m.shape.writes/3+1 {
			few = append(few, m)
		}
	}
	return few
}

// asked kills executions that ask a person at m, decides on their requests, and checks the result.
func (c *crash) asked(m moment) {
	c.Helper()
	c.rounds++
	var jobs []*job
	for _, k := range kinds {
		jobs = append(jobs, &job{kind: k, label: fmt.Sprintf("a%d-%s%s-", c.rounds, k.language, k.session)})
	}
	key := jobs[m.kind].label
	defer c.ledger.set(nil)
	if m.step == reading {
		c.ledger.set(&trap{key: key, step: looked, fire: c.killer()})
	}
	c.propose(m, jobs)
	c.kill() // deciders connect after a restart
	c.begin()
	fire := c.killer()
	switch m.step {
	case arrived, applied, answered:
		c.ledger.set(&trap{key: key + strconv.Itoa(m.write), step: m.step, drop: m.drop, fire: fire})
	case ending:
		c.ledger.set(&trap{key: key + "end", step: looked, fire: fire})
	}
	ctx, cancel := context.WithCancel(c.ctx)
	p := &approver{c: c, confirmed: make(chan struct{}), decided: map[string]int{}}
	var sitting sync.WaitGroup
	if m.cli {
		p.command(c)
	}
	sitting.Go(func() { p.sit(ctx) })
	switch {
	case m.after > 0:
		<-time.After(m.after)
		c.kill()
		c.begin()
	case m.step == decided:
		select {
		case <-p.confirmed:
		case <-time.After(10 * time.Second): // the command line has decided everything before
		}
		c.kill()
		c.begin()
	default:
		c.revive()
	}
	c.restOrRevive()
	cancel()
	sitting.Wait()
	c.told(m, jobs, p)
}

// propose starts the programs, and returns when each waits or its process is dead.
func (c *crash) propose(m moment, jobs []*job) {
	client := c.client()
	var wg sync.WaitGroup
	for _, j := range jobs {
		wg.Go(func() {
			_, _ = client.Run(c.ctx, api.RunRequest{Code: m.shape.code(j.kind, j.label), Language: j.language,
				Session: j.session, Mode: m.shape.mode})
		})
	}
	wg.Wait()
}

// revive starts a process if the trap has killed the last one.
func (c *crash) revive() {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	select {
	case <-dead:
		c.begin()
	default:
	}
}

// restOrRevive is like rest, but the process may still be killed.
func (c *crash) restOrRevive() {
	c.Helper()
	waitFor(c.T, "no execution is under way", func() bool {
		c.revive()
		page, err := c.client().Executions(c.ctx,
			api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting}})
		return err == nil && len(page.Executions) == 0 && c.ledger.quiet()
	})
}

// An approver approves all pending requests, from its own client.
type approver struct {
	c         *crash
	confirmed chan struct{} // closed when the first decision is confirmed
	once      sync.Once
	mu        sync.Mutex
	decided   map[string]int // confirmed decisions, by request
}

func (p *approver) sit(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := p.c.client().Approvals().ListFor(ctx, "", false)
		if err == nil {
			for _, r := range list {
				if _, err := p.c.client().Approvals().Decide(ctx, r.ID, api.Decision{Approve: true,
					Digest: r.Digest}); err == nil {
					p.mu.Lock()
					p.decided[r.ID]++
					p.mu.Unlock()
					p.once.Do(func() { close(p.confirmed) })
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// command approves all pending requests with one process of the command line.
func (p *approver) command(c *crash) {
	list, err := c.client().Approvals().ListFor(c.ctx, "", false)
	if err != nil || len(list) == 0 {
		return
	}
	args := []string{"approvals", "approve"}
	for _, r := range list {
		args = append(args, r.ID)
	}
	_ = c.command(args...).Run() // failed decisions are left to sit
}

// told checks the final state of the programs against the ledger and the requests.
func (c *crash) told(m moment, jobs []*job, p *approver) {
	c.Helper()
	if len(c.ledger.odd) > 0 {
		c.Errorf("not what was approved was sent: %q", c.ledger.odd)
	}
	requests := map[string][]api.Approval{}
	for _, r := range c.settled() {
		if requests[r.Execution] = append(requests[r.Execution], r); p.decided[r.ID] > 1 {
			c.Errorf("%s is %s, and was decided on %d times", r.ID, r.State, p.decided[r.ID])
		}
	}
	page, err := c.client().Executions(c.ctx, api.ExecutionFilter{Limit: 4 * len(jobs)})
	if err != nil {
		c.Fatalf("Executions: %v", err)
	}
	found := map[string][]*api.ExecutionDetail{}
	for _, e := range page.Executions {
		d, err := c.client().Journal(c.ctx, e.ID)
		if err != nil {
			c.Fatalf("Journal: %v", err)
		}
		for _, j := range jobs {
			if strings.Contains(d.Program, `"`+j.label+`"`) {
				found[j.label] = append(found[j.label], d)
			}
		}
	}
	for _, j := range jobs {
		for _, d := range found[j.label] {
			c.oneRecord(d.ID)
		}
		state := c.askedOutcome(m, j, found[j.label], requests)
		c.tally[m.shape.name+" "+state]++
		if c.tally[state]++; state == api.StateDone && j.session != "" {
			c.counts[j.session]++
		}
	}
	for _, k := range kinds {
		if k.session != "" {
			c.session(k)
		}
	}
	report, err := c.client().Audit().Verify(c.ctx, c.signed...)
	if err != nil || !report.OK {
		c.Errorf("the record: %+v %v", report, err)
	}
}

// askedOutcome checks the executions of one program, and returns the state of the one that was
// started.
func (c *crash) askedOutcome(m moment, j *job, of []*api.ExecutionDetail, requests map[string][]api.Approval) string {
	c.Helper()
	asked, written := c.ledger.of(j.label)
	delete(asked, j.label)
	delete(asked, j.label+"end")
	for key, n := range asked {
		if n > 1 || len(written[key]) > 1 {
			c.Errorf("%s was sent %d times, and written %d times", key, n, len(written[key]))
		}
	}
	var first, second *api.ExecutionDetail
	for _, d := range of {
		switch {
		case strings.HasSuffix(d.ID, "_run") && second == nil:
			second = d
		case !strings.HasSuffix(d.ID, "_run") && first == nil:
			first = d
		default:
			c.Errorf("%s: %s is one too many", j.label, d.ID)
		}
	}
	if first == nil {
		if len(asked) > 0 || second != nil {
			c.Errorf("%s: no execution is known, and the ledger was asked for %v", j.label, asked)
		}
		return "absent"
	}
	made := first
	if m.shape.mode != "" {
		if second == nil {
			c.Errorf("%s: the plan was not carried out: it is %s, %+v", j.label, first.State, first.Error)
			return first.State
		}
		if made = second; first.State != second.State || compact(first.Value) != compact(second.Value) {
			c.Errorf("%s: the plan is %s %s, carried out it is %s %s", j.label, first.State, first.Value, second.State,
				second.Value)
		}
	}
	c.approvedOf(m, j, first, asked, requests[first.ID])
	switch made.State {
	case api.StateDone:
		var value, want []string
		for i := range m.shape.writes {
			want = append(want, written[j.label+strconv.Itoa(i)]...)
		}
		if err := json.Unmarshal(made.Value, &value); err != nil || len(want) != m.shape.writes ||
			!slices.Equal(value, want) {
			c.Errorf("%s: the program was told\n%q\nand the ledger has\n%q", j.label, value, want)
		}
	case api.StateInterrupted:
		c.interruptedAsked(j, made, asked, written)
	default:
		c.Errorf("%s is %s: %+v", j.label, made.State, made.Error)
	}
	return made.State
}

// interruptedAsked checks that an execution was interrupted only by a call with an unknown outcome,
// and reports the others correctly.
func (c *crash) interruptedAsked(j *job, d *api.ExecutionDetail, asked map[string]int, written map[string][]string) {
	c.Helper()
	known, unknown := map[string]bool{}, 0
	for _, call := range d.Calls {
		var args struct{ Key string }
		if err := json.Unmarshal(call.Arguments, &args); err != nil || call.Tool != "ledger.write" {
			continue
		}
		known[args.Key] = true
		switch {
		case call.State == api.CallUnknown:
			unknown++
		case call.State == api.CallDone && len(written[args.Key]) != 1, call.State == api.CallNotMade &&
			asked[args.Key] != 0:
			c.Errorf("%s: %s is %s, and was asked for %d times and written %d times", j.label, args.Key, call.State,
				asked[args.Key], len(written[args.Key]))
		}
	}
	if unknown == 0 {
		c.Errorf("%s is interrupted, and no call of it is unknown: %+v", j.label, d.Error)
	}
	for key := range asked {
		if !known[key] {
			c.Errorf("%s: %s was sent, and the journal has no such call", j.label, key)
		}
	}
}

// approvedOf checks that every call sent had been approved once, with the same bytes.
func (c *crash) approvedOf(m moment, j *job, d *api.ExecutionDetail, asked map[string]int, requests []api.Approval) {
	c.Helper()
	approved := map[string]int{}
	for _, r := range requests {
		if r.State != "made" {
			continue
		}
		if m.shape.mode == "" {
			approved[string(r.Arguments)]++
			continue
		}
		full, err := c.client().Approvals().Get(c.ctx, r.ID)
		if err != nil {
			c.Fatalf("Approval: %v", err)
		}
		for _, w := range full.Writes {
			approved[string(w.Arguments)]++
		}
	}
	if m.shape.mode != "" && len(requests) != 1 || len(requests) > m.shape.writes {
		c.Errorf("%s: %d requests of %s", j.label, len(requests), d.ID)
	}
	for key := range asked {
		if approved[fmt.Sprintf(`{"key":%q}`, key)] != 1 {
			c.Errorf("%s was sent, and approved %d times: %+v", key, approved[fmt.Sprintf(`{"key":%q}`, key)], requests)
		}
	}
}
