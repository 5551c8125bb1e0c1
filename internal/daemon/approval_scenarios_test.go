package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// A scenario is one row of the tables.
type scenario struct {
	name    string
	channel channel // nil: both the command line and the API
	plan    modes   // in which it applies
	own     string  // runs in a house of its own, with this configuration; empty: in the shared one
	play    func(s *scene)
}

// modes selects whether a scenario is played with a plan, without one, or both.
type modes int

const (
	both modes = iota
	alone
	planned
)

// TestApprovalScenarios runs scenarios in which people decide, agents retry and processes restart
// while an approval is pending. Each one then checks that the upstream received exactly the
// expected writes, each once.
func TestApprovalScenarios(t *testing.T) {
	t.Parallel()
	shared := newHouse(t, askForWrites)
	n := 0
	for _, row := range slices.Concat(decisions, deciders, changes, restarts, plans) {
		channels := map[string]channel{"command line": byCLI, "API": byAPI}
		if row.channel != nil {
			channels = map[string]channel{"": row.channel}
		}
		for by, c := range channels {
			for _, plan := range []bool{false, true} {
				if plan && row.plan == alone || !plan && row.plan == planned {
					continue
				}
				n++
				label := fmt.Sprintf("s%d-", n)
				name := row.name
				if by != "" {
					name += ", " + by
				}
				if plan {
					name += ", planned"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					h := shared
					if row.own != "" {
						h = newHouse(t, row.own)
					}
					row.play(&scene{T: t, house: h, channel: c, plan: plan, label: label})
				})
			}
		}
	}
	if n < 40 {
		t.Errorf("there are %d scenarios", n)
	}
}

// decisions are scenarios about the effect of decisions.
var decisions = []scenario{
	{name: "it waits, and nothing is sent", channel: byAPI, play: func(s *scene) {
		r := s.waits(one)[0]
		if r.State != "pending" || r.Execution != s.run || !strings.Contains(string(r.Arguments), s.label+"1") ||
			r.Kind == api.KindPlan != s.plan {
			s.Errorf("request %+v, want a pending one with the first write (plan: %t)", r, s.plan)
		}
		s.wrote()
		s.decides(false, r.ID, "")
		s.ends()
	}},
	{name: "approved", play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "as agreed")
		s.done()
		s.wrote("1")
	}},
	{name: "denied", play: func(s *scene) {
		s.decides(false, s.waits(one)[0].ID, "ask finance first")
		s.fails("ask finance first")
		s.wrote()
	}},
	{name: "approved by the execution's id", channel: byCLI, play: func(s *scene) {
		s.waits(three)
		s.decides(true, s.run, "")
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "denied by the execution's id", channel: byCLI, play: func(s *scene) {
		s.waits(three)
		s.decides(false, s.run, "no")
		s.ends()
		s.wrote()
	}},
	{name: "some of many", plan: alone, play: func(s *scene) {
		for _, r := range s.waits(three) {
			s.decides(!strings.Contains(string(r.Arguments), s.label+"2"), r.ID, "not this one")
		}
		if d := s.done(); !strings.Contains(string(d.Value), `"denied"`) {
			s.Errorf("value %s, want one with \"denied\"", d.Value)
		}
		s.wrote("1", "3")
	}},
	{name: "all of many", channel: byAPI, play: func(s *scene) {
		all := s.waits(three)
		if s.plan && (len(all) != 1 || len(all[0].Writes) != 3) || !s.plan && len(all) != 3 {
			s.Errorf("requests %+v, want 3, or 1 with 3 writes (plan: %t)", all, s.plan)
		}
		for _, r := range all {
			s.decides(true, r.ID, "")
		}
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "none of many", channel: byAPI, play: func(s *scene) {
		for _, r := range s.waits(three) {
			s.decides(false, r.ID, "")
		}
		s.ends()
		s.wrote()
	}},
	{name: "a race of deciders", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = s.as("carol", i%2 == 0, id, fmt.Sprint(i)) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			if err == nil && won >= 0 {
				s.Error("two of them decided")
			}
			if err == nil {
				won = i
				continue
			}
			s.refused(err, api.Conflict)
		}
		s.ends()
		if won%2 == 0 {
			s.wrote("1")
		} else {
			s.wrote()
		}
	}},
	{name: "decided twice", play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.decides(true, id, "")
		for _, approve := range []bool{true, false} {
			if err := s.channel(s, approve, id, ""); err == nil || !strings.Contains(err.Error(), "already") {
				s.Errorf("decide again: %v, want that it is already decided", err)
			}
		}
		s.done()
		s.wrote("1")
	}},
	{name: "approved when it was denied", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.decides(false, id, "")
		s.ends()
		s.refused(s.channel(s, true, id, ""), api.Conflict)
		s.wrote()
	}},
	{name: "a request that there isn't", channel: byAPI, plan: alone, play: func(s *scene) {
		s.refused(s.channel(s, true, "apr_nothing", ""), api.NotFound)
	}},
	{name: "the agent resumes", channel: byAPI, play: func(s *scene) {
		a, err := agent(s.T, s.d, s.keys["bot"])
		if err != nil {
			s.Fatalf("agent: %v", err)
		}
		s.begin("bot", api.RunRequest{Code: one})
		s.decides(true, s.pending()[0].ID, "")
		text, err := call(s.T, a, "resume", map[string]any{"execution": s.run})
		if err != nil || !strings.Contains(text, s.label+"1 was number 1") {
			s.Errorf("resume: %s, %v; want the result of the write", text, err)
		}
		s.wrote("1")
	}},
	{name: "too large to read", channel: byAPI, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `return await book.write({ key: K + "x".repeat(1100000) })`})
		if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "are too long to review") {
			s.Errorf("state %s, error %+v; want failed: too long to review", x.State, x.Error)
		}
		s.wrote()
	}},
}

// deciders are scenarios about who may decide.
var deciders = []scenario{
	{name: "by somebody who may not", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		for _, who := range []string{"dave", "vera"} {
			s.refused(s.as(who, true, id, ""), api.Denied)
		}
		if _, err := clientOf(s.d, s.keys["vera"]).Approvals().Get(s.Context(), id); err == nil {
			s.Error("a viewer sees a request of somebody else's")
		}
		s.wrote()
		s.decides(true, id, "")
		s.done()
		s.wrote("1")
	}},
	{name: "by somebody of another group", channel: byCLI, own: "policy: ./policies\n", play: func(s *scene) {
		r := s.waits(one)[0]
		if !slices.Equal(r.Approvers, []string{"leads"}) {
			s.Errorf("approvers %q, want only leads", r.Approvers)
		}
		s.refused(s.as("carol", true, r.ID, ""), api.Denied)
		s.decides(true, r.ID, "")
		s.done()
		s.wrote("1")
	}},
	{name: "by a key of the group", channel: byAPI, own: "policy: ./policies\n", play: func(s *scene) {
		id := s.waits(one)[0].ID
		if err := s.as("lena", true, id, ""); err != nil {
			s.Errorf("as: %v", err)
		}
		s.done()
		s.wrote("1")
	}},
	{name: "their own, which they may", channel: byAPI, play: func(s *scene) {
		s.begin("bot", api.RunRequest{Code: one})
		if err := s.as("bot", true, s.pending()[0].ID, ""); err != nil {
			s.Errorf("as: %v", err)
		}
		s.done()
		s.wrote("1")
	}},
	{name: "their own, which they may not", channel: byAPI, own: askForWrites + "approvals: { separate: true }\n",
		play: func(s *scene) {
			s.begin("bot", api.RunRequest{Code: one})
			id := s.pending()[0].ID
			s.refused(s.as("bot", true, id, ""), api.Denied)
			s.refused(s.as("bot", false, id, ""), api.Denied)
			records, err := s.client().Audit().ListRecords(s.Context(), api.AuditQuery{Kind: "approval"})
			if err != nil || len(records) != 2 || records[0].Effect != "refused" || records[0].Principal != "key:bot" ||
				records[1].Detail["wanted"] != "approved" {
				s.Errorf("on record: %+v %v", records, err)
			}
			s.wrote()
			s.decides(true, id, "")
			s.done()
			s.wrote("1")
		}},
}

// changes are scenarios in which something changes that a request is bound to.
var changes = []scenario{
	{name: "another program makes the same call", channel: byAPI, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		s.decides(false, s.waits(one + "// once more")[0].ID, "")
		s.ends()
		s.wrote("1")
	}},
	{name: "other policies", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.waits(one)
		s.restart(s.T, func() { s.config = strings.Replace(s.config, askForWrites, "policy: read-only\n", 1) })
		if s.plan {
			s.fails("the policies have changed")
		} else {
			s.fails("denied by policy")
		}
		s.wrote()
	}},
	{name: "the tool means something else", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.book.define("Deletes everything")
		s.becomes("book.write", "Deletes everything")
		s.decides(true, id, "")
		s.fails("no longer applies")
		s.wrote()
	}},
	{name: "the tool means something else after a restart", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.book.define("Deletes everything") })
		if s.plan {
			s.fails("the tool has changed since it was planned")
			s.wrote()
			return
		}
		deadline := time.Now().Add(2 * time.Minute)
		for again := id; ; { // it is asked about again
			if all, err := s.client().Approvals().ListFor(s.Context(), s.run, false); err == nil && len(all) == 1 {
				again = all[0].ID
			}
			if again != id {
				s.decides(true, again, "")
				break
			}
			if <-time.After(5 * time.Millisecond); time.Now().After(deadline) {
				s.Fatal("it is not asked about anew")
			}
		}
		s.done()
		s.wrote("1")
	}},
	{name: "the tool is gone", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.book.server.RemoveTools("write")
		s.becomes("book.write", "")
		s.decides(true, id, "")
		s.fails("not there any more")
		s.wrote()
	}},
	{name: "the upstream is gone after a restart", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.waits(one)
		s.restart(s.T, func() { s.config = s.config[:strings.Index(s.config, "mcpServers")] })
		s.ends()
		s.wrote()
	}},
	{name: "the session goes on", channel: byAPI, play: func(s *scene) {
		name := strings.TrimSuffix(s.label, "-")
		if s.begin("", api.RunRequest{Code: "globalThis.n = 5; " + one, Session: name}); s.plan &&
			s.inSession(name, "typeof n") != `"undefined"` {
			s.Error("the plan has left something in the session")
		}
		if s.plan { // the program run since has changed the session
			s.decides(true, s.pending()[0].ID, "")
			s.fails("has changed since the plan was made")
			s.wrote()
			s.begin("", api.RunRequest{Code: "globalThis.n = 5; " + one, Session: name})
		}
		s.decides(true, s.pending()[0].ID, "")
		s.done()
		s.wrote("1")
		if n := s.inSession(name, "n"); n != "5" {
			s.Errorf("n is %s", n)
		}
	}},
	{name: "the session is gone", channel: byAPI, plan: planned, play: func(s *scene) {
		name := strings.TrimSuffix(s.label, "-")
		s.inSession(name, "globalThis.n = 5")
		s.begin("", api.RunRequest{Code: "n; " + one, Session: name})
		if err := s.client().Sessions().End(s.Context(), name); err != nil {
			s.Fatalf("EndSession: %v", err)
		}
		s.decides(true, s.pending()[0].ID, "")
		s.fails("or is gone")
		s.wrote()
	}},
}

// restarts are scenarios in which the process is restarted.
var restarts = []scenario{
	{name: "restarted while it waits", own: askForWrites, play: func(s *scene) {
		id := s.waits(three)[0].ID
		s.restart(s.T, nil)
		s.restart(s.T, nil)
		if again := s.pending(); again[0].ID != id {
			s.Errorf("%s was asked about anew as %s", id, again[0].ID)
		}
		for _, r := range s.pending() {
			s.decides(true, r.ID, "")
		}
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "approved while nothing runs", channel: byCLI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.decides(true, id, "") })
		s.done()
		s.wrote("1")
	}},
	{name: "denied while nothing runs", channel: byCLI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.decides(false, id, "no") })
		s.fails("denied")
		s.wrote()
	}},
	{name: "restarted as soon as it is approved", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.restart(s.T, nil)
		switch d := s.ends(); {
		case d.State == api.StateDone:
			s.wrote("1")
		case d.State != api.StateInterrupted || !strings.Contains(d.Error.Message, "book.write"):
			s.Errorf("it is %s: %+v", d.State, d.Error)
		}
	}},
	{name: "restarted when it is done", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		was := s.done()
		s.restart(s.T, nil)
		if is := s.done(); string(is.Value) != string(was.Value) {
			s.Errorf("%s, and was %s", is.Value, was.Value)
		}
		s.wrote("1")
	}},
}

// plans are scenarios that only apply to plans.
var plans = []scenario{
	{name: "nothing to write", channel: byAPI, plan: planned, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `return await book.read({ key: K })`})
		if x.State != api.StateDone || !slices.ContainsFunc(x.Notes, func(n string) bool {
			return strings.Contains(n, "writes nothing")
		}) {
			s.Errorf("state %s, notes %q; want done, and a note that it writes nothing", x.State, x.Notes)
		}
	}},
	{name: "a program that fails", channel: byAPI, plan: planned, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `await book.write({ key: K }); throw new Error("off")`})
		if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "off") {
			s.Errorf("state %s, error %+v; want failed: off", x.State, x.Error)
		}
		s.wrote()
	}},
	{name: "what it read it reads once", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(
			`return await book.write({ key: (await book.read({ key: K })).replaceAll(" ", "-") })`)[0].ID, "")
		s.done()
		if got := s.book.of(s.book.read, s.label); len(got) != 1 {
			s.Errorf("read %d times", len(got))
		}
		s.wrote("-was-number-1")
	}},
	{name: "the same time and randomness", channel: byAPI, plan: planned, play: func(s *scene) {
		r := s.waits(`await new Promise(f => setTimeout(f, 20)); return await book.write({ key: K + new ` +
			`Date().toISOString() + Math.random() + crypto.randomUUID() })`)[0]
		s.decides(true, r.ID, "")
		s.done()
		if got := s.book.of(s.book.wrote, s.label); len(got) != 1 ||
			!strings.Contains(string(r.Writes[0].Arguments), got[0]) {
			s.Errorf("%q, planned was %s", got, r.Writes[0].Arguments)
		}
	}},
	{name: "what depends on an answer", channel: byAPI, plan: planned, play: func(s *scene) {
		r := s.waits(`const o = await book.order({ key: K + "a" }); return await book.write({ key: K + o.name + o.id })`)[0]
		if len(r.Writes) != 2 || r.Writes[0].Simulated || !r.Writes[1].Simulated {
			s.Errorf("writes %+v, want two, of which the second is simulated", r.Writes)
		}
		s.decides(true, r.ID, "")
		s.fails("is not in the plan that was approved")
		s.wrote("a")
	}},
	{name: "the same write twice", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(`await book.write({ key: K }); await book.write({ key: K }); return 1`)[0].ID, "")
		s.done()
		s.wrote("", "")
	}},
	{name: "corrected afterwards", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		s.plan = false
		if x := s.begin("", api.RunRequest{Code: one, After: s.run}); x.State != api.StateDone {
			s.Errorf("state %s, error %+v; want done", x.State, x.Error)
		}
		s.wrote("1")
	}},
	{name: "Python", channel: byAPI, plan: planned, play: func(s *scene) {
		s.begin("", api.RunRequest{Language: "python",
			Code: fmt.Sprintf("import time\nasync def w(i):\n    return await book.write(key=%q + "+
				"i)\ntime.sleep(0.01)\n[await w('1'), str(book.write(key=%q + '2' + str(time.time())))][0]",
				s.label, s.label)})
		r := s.pending()[0]
		s.decides(true, r.ID, "")
		s.done()
		if got := s.book.of(s.book.wrote, s.label); len(got) != 2 {
			s.Errorf("written %q, want two writes", got)
		}
	}},
	{name: "nobody may decide on all of it", channel: byAPI, plan: planned, own: "policy: ./policies\n",
		play: func(s *scene) {
			x := s.begin("", api.RunRequest{Code: `await book.write({ key: K + "1" }); await book.order({ key: K + "2" })`})
			if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "no group may decide on all") {
				s.Errorf("state %s, error %+v; want that no group may decide", x.State, x.Error)
			}
			s.wrote()
		}},
	{name: "the record tells", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		effects := map[string]string{}
		for _, run := range []string{s.run, s.run + "_run"} {
			all, err := s.client().Audit().ListRecords(s.Context(), api.AuditQuery{Execution: run, Limit: 100})
			if err != nil {
				s.Fatalf("AuditRecords: %v", err)
			}
			for _, r := range all {
				effects[strings.TrimPrefix(run, s.run)+" "+r.Tool+" "+r.Kind] = r.Effect
			}
		}
		want := map[string]string{" book.write call": "planned", " biplane.plan call": "ask",
			" biplane.plan approval": "approved", "_run book.write call": "ask"}
		for what, effect := range want {
			if effects[what] != effect {
				s.Errorf("%s: %q, want %q, in %v", what, effects[what], effect, effects)
			}
		}
	}},
}
