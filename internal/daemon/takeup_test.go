package daemon_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
)

// calls returns the records of the calls of a scene's program, oldest first.
func (s *scene) calls() []api.AuditRecord {
	s.Helper()
	all, err := s.client().Audit().ListRecords(s.Context(), api.AuditQuery{Kind: "call", Execution: s.run})
	if err != nil {
		s.Fatalf("AuditRecords: %v", err)
	}
	slices.Reverse(all)
	return all
}

// lingers adds a read-only tool to the book whose calls return once answer is closed or received
// from. called receives the key of each call.
func (s *scene) lingers() (answer chan struct{}, called chan string) {
	s.Helper()
	answer, called = make(chan struct{}), make(chan string, 16)
	mcp.AddTool(s.book.server, &mcp.Tool{Name: "linger", Description: "Takes its time",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, _ *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, any, error) {
			called <- a.Key
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return s.book.count(s.book.read, a.Key), nil, nil
		})
	s.becomes("book.linger", "Takes its time")
	return answer, called
}

// TestOneRecordAcrossARestart restarts the process cleanly while a call waits for approval or for a
// slow tool. The call must continue in the next process, and have a single record.
func TestOneRecordAcrossARestart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, code, tool string }{
		{"a person", one, "book.write"},
		{"a slow tool", `return await book.linger({ key: K + "1" })`, "book.linger"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t, house: newHouse(t, askForWrites), channel: byAPI, label: "t-"}
			answer, called := s.lingers()
			if row.tool == "book.write" {
				s.waits(row.code)
			} else {
				s.goes(row.code)
				<-called
			}
			s.restart(t, nil)
			if row.tool == "book.write" {
				s.decides(true, s.pending()[0].ID, "")
			} else {
				<-called
				close(answer)
			}
			s.done()
			all := s.calls()
			if len(all) != 1 || all[0].Tool != row.tool || all[0].Outcome != "ok" || all[0].Detail["taken_up"] == "" {
				t.Fatalf("all = %+v, want len(all) == 1 && all[0].Tool == row.tool && all[0].Outcome == "+
					"\"ok\" && all[0].Detail[\"taken_up\"] != \"\"", all)
			}
			if who := all[0].Detail["approved_by"]; (who != "") != (row.tool == "book.write") {
				t.Errorf("approved by %q", who)
			}
			if r, err := s.client().Audit().Verify(t.Context()); err != nil || !r.OK {
				t.Errorf("r = %+v, err = %v, want err == nil && r.OK", r, err)
			}
		})
	}
}

// TestAnotherRecordAcrossARestart checks that a call that is decided differently after a restart
// has a second record, which names the first. The first one has an end.
func TestAnotherRecordAcrossARestart(t *testing.T) {
	t.Parallel()
	s := &scene{T: t, house: newHouse(t, askForWrites), channel: byAPI, label: "t-"}
	s.waits(one)
	s.restart(t, func() { s.config = strings.Replace(s.config, askForWrites, "policy: open\n", 1) })
	s.done()
	s.wrote("1")
	all := s.calls()
	if len(all) != 2 || all[0].Outcome != "failed" || all[1].Outcome != "ok" || all[1].Detail["again"] != all[0].ID ||
		all[0].Effect != "ask" || all[1].Effect != "allow" {
		t.Errorf("all = %+v", all)
	}
}

// TestCutJournal checks that nothing is written twice if the end of a journal was cut off. The
// audit record still has the write.
func TestCutJournal(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{askForWrites, "policy: open\n"} {
		t.Run(strings.TrimSpace(policy), func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t, house: newHouse(t, policy), channel: byAPI, label: "t-"}
			_, called := s.lingers()
			s.goes(`await new Promise(r => setTimeout(r, 300)); await book.write({ key: K + "1" }); await ` +
				`book.linger({ key: K + "2" })`)
			if policy == askForWrites {
				s.decides(true, s.asked().ID, "")
			}
			<-called
			s.wrote("1")
			s.restart(t, func() { s.cut(t, s.run, 1) })
			d := s.ends()
			if d.State != api.StateInterrupted || d.Error == nil ||
				!strings.Contains(d.Error.Message, "call 1, book.write, had been sent, as the audit record says") {
				t.Errorf("d.State = %s, d.Error = %+v", d.State, d.Error)
			}
			s.wrote("1")
		})
	}
}

// goes starts a program that runs for a while.
func (s *scene) goes(code string) {
	s.Helper()
	s.begins(code)
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
		page, err := s.client().Executions(s.Context(), api.ExecutionFilter{Limit: 1})
		if err == nil && len(page.Executions) == 1 {
			s.run = page.Executions[0].ID
			return
		}
		if time.Now().After(deadline) {
			s.Fatal("it has not begun", err)
		}
	}
}

// begins starts a program. The channel receives the result, or nil if the daemon ended first.
func (s *scene) begins(code string) <-chan *api.Execution {
	over := make(chan *api.Execution, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.Cleanup(func() { cancel(); <-over })
	c, r := s.client(), api.RunRequest{Code: "const K = '" + s.label + "';\n" + code}
	if s.plan {
		r.Mode = "plan"
	}
	go func() {
		defer close(over)
		x, err := c.Run(ctx, r)
		if err != nil {
			s.Log(err)
		}
		over <- x
	}()
	return over
}

// asked waits for a request, and returns it.
func (s *scene) asked() api.Approval {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
		all, err := s.client().Approvals().ListFor(s.Context(), s.run, false)
		if err == nil && len(all) == 1 {
			return all[0]
		}
		if time.Now().After(deadline) {
			s.Fatal("nobody is asked", err)
		}
	}
}

// cut removes the end of a journal.
func (h *house) cut(t *testing.T, execution string, keep int) {
	db, err := sql.Open("sqlite", filepath.Join(h.dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `DELETE FROM execution_part WHERE execution = ? AND seq > ?`, execution,
		keep); err != nil {
		t.Fatalf("ExecContext: %v", err)
	}
}

// TestExecutionAfterARestart checks that the result of an execution is the same after a restart. It
// must be shown to the same users, without personal data if a model may read it.
func TestExecutionAfterARestart(t *testing.T) {
	t.Parallel()
	s := &scene{T: t, house: newHouse(t, "policy: open\nprivacy: tokenize\n"), label: "t-"}
	before := map[string]*api.Execution{}
	for _, code := range []string{
		`console.log("to ann@example.com"); await book.write({ key: K + "1" }); return { mail: "ann@example.com", ` +
			`big: 9007199254740993n }`,
		`throw new Error("no mailbox ann@example.com")`,
		`const`,
	} {
		x := s.begin("dave", api.RunRequest{Code: code})
		before[x.ID] = x
	}
	s.restart(t, nil)
	for id, want := range before {
		got, err := s.mine().Execution(t.Context(), id)
		if err != nil {
			t.Fatalf("Execution: %v", err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if string(a) != string(b) || strings.Contains(string(b), "ann@") {
			t.Errorf("before:\n%s\nand after:\n%s", a, b)
		}
		for _, who := range []string{"bot", "vera"} {
			if x, err := clientOf(s.d, s.keys[who]).Execution(t.Context(), id); err == nil {
				t.Errorf("%s reads %+v", who, x)
			}
		}
	}
	if _, err := s.mine().Execution(t.Context(), "ex_none"); err == nil ||
		!strings.Contains(err.Error(), "biplane executions list") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "biplane executions list")`, err)
	}
}

// TestLimitsAfterARestart checks that a resumed execution still counts against the limits, once
// with the execution of its plan.
func TestLimitsAfterARestart(t *testing.T) {
	t.Parallel()
	const limits = "limits: [{ what: concurrent, max: 2 }, { what: tokens, max: 1000, window: 1h }]\n"
	for _, mode := range []string{"", "plan"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t, house: newHouse(t, askForWrites+limits), channel: byAPI, label: "t-",
				plan: mode == "plan"}
			answer, called := s.lingers()
			s.goes(`const r = await book.write({ key: K + "1" }); await book.linger({ key: r }); return "x ` +
				`".repeat(3000)`)
			if s.plan {
				<-called // the read in the plan, whose write was simulated
				answer <- struct{}{}
			}
			s.decides(true, s.asked().ID, "")
			<-called
			s.restart(t, nil)
			<-called
			second := s.begins("await book.linger({ key: 'second' })")
			select {
			case <-called:
			case x := <-second:
				t.Fatalf("a second program: %+v", x)
			}
			if _, err := s.client().Run(t.Context(), api.RunRequest{Code: "3"}); err == nil ||
				!strings.Contains(err.Error(), "at once") {
				t.Errorf("a third program: %v", err)
			}
			close(answer)
			s.done()
			if x := <-second; x == nil || x.State != api.StateDone {
				t.Errorf("x = %+v, want x != nil && x.State == api.StateDone", x)
			}
			// its usage is counted once it has been answered
			for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(time.Millisecond) {
				if _, err := s.client().Run(t.Context(), api.RunRequest{Code: "4"}); err != nil &&
					strings.Contains(err.Error(), "tokens") {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("when the tokens are used up: %v", err)
				}
			}
		})
	}
}
