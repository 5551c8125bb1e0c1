package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// asking returns a program of a kind with five writes that need approval, the second to fourth
// concurrently, and a read in between. The third is denied, which the program catches.
func (k kind) asking(label string) string {
	code := `const K = "LABEL";
const w = i => ledger.write({ key: K + i }).catch(e => e.kind);
const got = [await w(0)];
await ledger.read({ key: K });
got.push(...await Promise.all([1, 2, 3].map(w)));
got.push(await w(4));
got`
	if k.language == "python" {
		code = `import asyncio
K = "LABEL"
async def w(i):
    try:
        return await ledger.write(key=K + str(i))
    except ToolError as e:
        return e.kind
got = [await w(0)]
await ledger.read(key=K)
got += await asyncio.gather(*[w(i) for i in (1, 2, 3)])
def still(i):
    return str(ledger.write(key=K + str(i)))  # a function that can't await stands still while a person thinks
got.append(still(4))
got`
	}
	return strings.ReplaceAll(code, "LABEL", label)
}

// refused is the write that is denied.
const refused = "2"

// A judge decides pending requests from its own client, however often the process in front of it is
// killed.
type judge struct {
	c      *crash
	mu     sync.Mutex
	decide map[string]int // confirmed decisions, by key
}

// sit decides until ctx is done.
func (j *judge) sit(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := j.c.client().Approvals().ListFor(ctx, "", false)
		if err != nil {
			continue // the process was killed
		}
		for _, r := range list {
			key := keyOf(r)
			d, err := j.c.client().Approvals().Decide(ctx, r.ID,
				api.Decision{Approve: !strings.HasSuffix(key, refused), Digest: r.Digest, Note: "as " + key})
			if err == nil && d.ID == r.ID {
				j.mu.Lock()
				j.decide[key]++
				j.mu.Unlock()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func keyOf(r api.Approval) string {
	var args struct{ Key string }
	if json.Unmarshal(r.Arguments, &args) != nil {
		return ""
	}
	return args.Key
}

// TestCrashWaiting kills biplane at random times while programs wait for approval. Another client
// decides before, between and after the kills. Approved calls must be written once, or be reported
// as unknown; denied ones must never be written. No call may be asked about or decided twice, and
// no request may be pending when nothing runs.
func TestCrashWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	seed := uint64(time.Now().UnixNano())
	c := newCrash(t, seed)
	c.ask()
	c.begin()
	rounds := 3
	if os.Getenv("BIPLANE_CRASH") != "" {
		rounds = 60
	}
	states := map[string]int{}
	for i := range rounds {
		c.waiting(states, i == 0)
	}
	t.Logf("executions became %v", states)
	if states[api.StateDone] == 0 {
		t.Error("none went on")
	}
}

// waiting runs a program of each kind and an approver, and kills the process up to four times. If
// all is true, no kill comes before all programs wait.
func (c *crash) waiting(states map[string]int, all bool) {
	c.Helper()
	jobs := c.jobs()
	client := c.client()
	var begun sync.WaitGroup
	for _, j := range jobs {
		begun.Go(func() {
			if x, err := client.Run(c.ctx,
				api.RunRequest{Code: j.asking(j.label), Language: j.language, Session: j.session}); err == nil {
				j.acked = x
			}
		})
	}
	ctx, cancel := context.WithCancel(c.ctx)
	person := &judge{c: c, decide: map[string]int{}}
	var sitting sync.WaitGroup
	if !all && c.rng.IntN(2) == 0 { // otherwise no one decides yet, and all of them wait
		sitting.Go(func() { person.sit(ctx) })
	} else {
		begun.Wait()
		if c.rng.IntN(2) == 0 {
			sitting.Go(func() { person.sit(ctx) })
		}
	}
	for range 1 + c.rng.IntN(4) {
		<-time.After(time.Duration(c.rng.Int64N(int64(400 * time.Millisecond))))
		c.kill()
		c.begin()
	}
	begun.Wait()
	sitting.Go(func() { person.sit(ctx) })
	c.rest()
	cancel()
	sitting.Wait()
	c.judged(jobs, person, states)
	if c.Failed() {
		c.FailNow()
	}
}

// settled returns all requests once nothing runs any more. It waits until unused ones are
// withdrawn, which happens soon after an execution ends.
func (c *crash) settled() (all []api.Approval) {
	c.Helper()
	waitFor(c.T, "no request waits where nothing runs", func() bool {
		var err error
		if all, err = c.client().Approvals().ListFor(c.ctx, "", true); err != nil {
			c.Fatalf("Approvals: %v", err)
		}
		return !slices.ContainsFunc(all, func(r api.Approval) bool {
			return r.State == "pending" || r.State == "approved"
		})
	})
	return all
}

// judged checks the final state of the programs against the ledger and the requests.
func (c *crash) judged(jobs []*job, person *judge, states map[string]int) {
	c.Helper()
	requests := map[string][]api.Approval{}
	for _, r := range c.settled() {
		requests[keyOf(r)] = append(requests[keyOf(r)], r)
	}
	page, err := c.client().Executions(c.ctx, api.ExecutionFilter{Limit: 2 * len(jobs)})
	if err != nil {
		c.Fatalf("Executions: %v", err)
	}
	for _, j := range jobs {
		asked, written := c.ledger.of(j.label)
		var d *api.ExecutionDetail
		for _, e := range page.Executions {
			if x, err := c.client().Journal(c.ctx, e.ID); err != nil {
				c.Fatalf("Journal: %v", err)
			} else if strings.Contains(x.Program, `"`+j.label+`"`) {
				d = x
			}
		}
		if d == nil {
			if len(asked) > 0 {
				c.Errorf("%s: the ledger was asked for %v, and no execution is known", j.label, asked)
			}
			states["absent"]++
			continue
		}
		states[d.State]++
		c.writesOf(j, d, requests, person)
		if d.State == api.StateInterrupted {
			// On a slow machine, a program may be killed four times before it makes any progress.
			givenUp := d.Error != nil && strings.Contains(d.Error.Message, "biplane ended 3 times while it did")
			if !givenUp && !slices.ContainsFunc(d.Calls, func(x api.ExecutionCall) bool {
				return x.State == api.CallUnknown
			}) {
				c.Errorf("%s is interrupted, and no call of it is unknown: %+v", j.label, d.Error)
			}
			continue
		}
		want := []string{}
		for i := range 5 {
			if key := fmt.Sprintf("%s%d", j.label, i); strings.HasSuffix(key, refused) {
				want = append(want, "denied")
			} else {
				want = append(want, written[key]...)
			}
		}
		var value []string
		if err := json.Unmarshal(d.Value, &value); err != nil || d.State != api.StateDone || len(want) != 5 ||
			!slices.Equal(value, want) {
			c.Errorf("%s is %s, %+v: it was told\n%s\nand the ledger has\n%q", j.label, d.State, d.Error, d.Value, want)
		}
	}
}

// writesOf checks each write of an execution.
func (c *crash) writesOf(j *job, d *api.ExecutionDetail, requests map[string][]api.Approval, person *judge) {
	c.Helper()
	asked, _ := c.ledger.of(j.label)
	for i := range 5 {
		key := fmt.Sprintf("%s%d", j.label, i)
		all := requests[key]
		if len(all) > 1 || asked[key] > 1 || person.decide[key] > 1 {
			c.Errorf("%s: asked about %d times, decided on %d times, sent %d times", key, len(all),
				person.decide[key], asked[key])
		}
		if asked[key] == 0 {
			continue
		}
		if len(all) != 1 || all[0].State != "made" || all[0].Execution != d.ID ||
			string(all[0].Arguments) != fmt.Sprintf(`{"key":%q}`, key) {
			c.Errorf("%s was sent, and its requests are %+v", key, all)
		}
	}
}
