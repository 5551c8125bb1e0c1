package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestMemory(t *testing.T) {
	approvaltest.Run(t, func(*testing.T) approvaltest.Store { return approvaltest.NewMemory() })
}

func ask(execution, id, args string) *approval.Ask {
	return &approval.Ask{
		Call: &tool.Call{
			ID: id, By: &tool.Program{Execution: execution, Digest: "p1"}, Path: "shop.refund",
			Tool: &tool.Tool{Upstream: "shop", Name: "refund", InputSchema: []byte(`{}`)}, Arguments: []byte(args),
			Principal: tool.Principal{ID: "key:ci", Person: "ann"},
		},
		Policy: "ask-for-writes", Version: "v1", Reason: "it writes",
	}
}

// A waiting is a waiting call and its result.
type waiting struct {
	args string
	err  error
	done chan struct{}
}

func wait(ctx context.Context, g *approval.Gate, a *approval.Ask) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		r, err := g.Wait(ctx, a)
		if w.err = err; err == nil {
			w.args = string(r.Arguments)
		}
	}()
	return w
}

func (w *waiting) ends(t *testing.T, says string) {
	t.Helper()
	<-w.done
	if says == "" {
		if w.err != nil {
			t.Errorf("ended with %v", w.err)
		}
		return
	}
	if e := tool.AsError(w.err); e == nil || !strings.Contains(e.Msg, says) {
		t.Errorf("ended with %v, want %q", w.err, says)
	}
}

func pending(t *testing.T, g *approval.Gate) []approval.Request {
	t.Helper()
	synctest.Wait()
	all, err := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return all
}

var bob = approval.Decider{Principal: tool.Principal{ID: "local:bob", Groups: []string{"staff"}}}

func decide(t *testing.T, g *approval.Gate, id string, approve bool) {
	t.Helper()
	if _, err := g.Decide(t.Context(), bob, id, approve, "seen"); err != nil {
		t.Fatalf("Decide: %v", err)
	}
}

// A recorder is a Recorder that calls its functions, if they are set.
type recorder struct {
	decision func(context.Context, approval.Decider, *approval.Request, approval.State, string) error
	refusal  func(context.Context, approval.Decider, *approval.Request, approval.State, error)
	change   func(approval.Request)
}

func (c recorder) RecordDecision(ctx context.Context, d approval.Decider, r *approval.Request, to approval.State,
	note string) error {
	if c.decision == nil {
		return nil
	}
	return c.decision(ctx, d, r, to, note)
}

func (c recorder) RecordRefusal(ctx context.Context, d approval.Decider, r *approval.Request, to approval.State,
	why error) {
	if c.refusal != nil {
		c.refusal(ctx, d, r, to, why)
	}
}

func (c recorder) NoteChange(r approval.Request) {
	if c.change != nil {
		c.change(r)
	}
}

// changed is the Rechecker of a call whose tool has changed.
type changed struct{}

func (changed) RecheckCall(context.Context) error { return errors.New("its definition has changed") }

// scenario runs f in a synctest bubble.
func scenario(t *testing.T, name string, cfg approval.Config, f func(t *testing.T, g *approval.Gate)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if cfg.Store == nil {
				cfg.Store = approvaltest.NewMemory()
			}
			f(t, approval.New(cfg))
		})
	})
}

func TestDecisions(t *testing.T) {
	scenario(t, "approved", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{"id": 7}`))
		decide(t, g, pending(t, g)[0].ID, true)
		if w.ends(t, ""); w.args != `{"id": 7}` {
			t.Errorf("arguments %s", w.args)
		}
	})
	scenario(t, "denied", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		decide(t, g, pending(t, g)[0].ID, false)
		w.ends(t, `denied by local:bob ("seen")`)
		if e := tool.AsError(w.err); e.Kind != tool.Denied {
			t.Errorf("kind %s", e.Kind)
		}
	})
	scenario(t, "some of many", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		calls := map[string]*waiting{}
		for _, id := range []string{"1", "2", "3"} {
			calls[id] = wait(t.Context(), g, ask("ex_1", id, `{}`))
		}
		for _, r := range pending(t, g) {
			decide(t, g, r.ID, r.Call != "2")
		}
		calls["1"].ends(t, "")
		calls["2"].ends(t, "denied")
		calls["3"].ends(t, "")
	})
	scenario(t, "expired", approval.Config{Expires: time.Minute}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		id := pending(t, g)[0].ID
		w.ends(t, "was not decided on in time")
		if _, err := g.Decide(t.Context(), bob, id, true, ""); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("deciding afterwards: %v", err)
		}
	})
	scenario(t, "expired without a waiting caller", approval.Config{Expires: time.Minute},
		func(t *testing.T, g *approval.Gate) {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx, g, ask("", "1", `{}`))
			id := pending(t, g)[0].ID
			cancel()
			<-w.done
			time.Sleep(2 * time.Minute)
			if _, err := g.Decide(t.Context(), bob, id, true, ""); tool.AsError(err) == nil ||
				tool.AsError(err).Kind != tool.Conflict {
				t.Errorf("deciding afterwards: %v", err)
			}
		})
	scenario(t, "swept", approval.Config{Expires: time.Minute}, func(t *testing.T, g *approval.Gate) {
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, g, ask("", "1", `{}`))
		synctest.Wait()
		cancel()
		<-w.done
		time.Sleep(2 * time.Minute)
		if all := pending(t, g); len(all) != 0 {
			t.Errorf("still pending: %v", all)
		}
	})
	scenario(t, "decided twice", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		id := pending(t, g)[0].ID
		decide(t, g, id, true)
		if _, err := g.Decide(t.Context(), bob, id, false, ""); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("second decision: %v", err)
		}
		w.ends(t, "")
	})
	scenario(t, "unknown", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		if _, err := g.Decide(t.Context(), bob, "apr_x", true, ""); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.NotFound {
			t.Errorf("deciding on nothing: %v", err)
		}
	})
	scenario(t, "note too long", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		if _, err := g.Decide(t.Context(), bob, "apr_x", true, strings.Repeat("x", 2000)); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoRecordNoDecision(t *testing.T) {
	var recorded []approval.State
	fails := true
	record := func(_ context.Context, _ approval.Decider, _ *approval.Request, to approval.State, _ string) error {
		if fails {
			return errors.New("disk full")
		}
		recorded = append(recorded, to)
		return nil
	}
	scenario(t, "record", approval.Config{Recorder: recorder{decision: record}}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		id := pending(t, g)[0].ID
		if _, err := g.Decide(t.Context(), bob, id, true, ""); err == nil ||
			!strings.Contains(err.Error(), "can't be recorded") {
			t.Errorf("got %v", err)
		}
		if len(pending(t, g)) != 1 {
			t.Error("decided without a record")
		}
		fails = false
		decide(t, g, id, true)
		if w.ends(t, ""); len(recorded) != 1 || recorded[0] != approval.Approved {
			t.Errorf("recorded %v", recorded)
		}
	})
}

func TestWhoDecides(t *testing.T) {
	for _, tt := range []struct {
		name      string
		separate  bool
		approvers []string
		who       approval.Decider
		says      string
	}{
		{"anybody", false, nil, bob, ""},
		{"one's own, where that may be", false, nil, approval.Decider{Principal: tool.Principal{ID: "key:ci"}}, ""},
		{"one's own", true, nil, approval.Decider{Principal: tool.Principal{ID: "key:ci"}}, "your own"},
		{"the person behind the agent", true, nil,
			approval.Decider{Principal: tool.Principal{ID: "https://idp#ann", Person: "ann"}}, "your own"},
		{"an administrator's own", true, nil, approval.Decider{Principal: tool.Principal{ID: "key:ci"}, Any: true},
			"your own"},
		{"the wrong group", false, []string{"leads", "legal"}, bob, `a member of "leads" or "legal"`},
		{"the right group", true, []string{"leads", "staff"}, bob, ""},
		{"a role, where all who have it may", true, []string{"leads", "approvers"},
			approval.Decider{Principal: tool.Principal{ID: "key:bob", Roles: []string{"approver"}}}, ""},
		{"a role, where others may", true, []string{"leads"},
			approval.Decider{Principal: tool.Principal{ID: "key:bob", Roles: []string{"approver"}}},
			`a member of "leads"`},
		{"another role", true, []string{"approvers"},
			approval.Decider{Principal: tool.Principal{ID: "key:bob", Roles: []string{"user"}}},
			`a member of "approvers"`},
		{"an administrator", true, []string{"leads"},
			approval.Decider{Principal: tool.Principal{ID: "local:root"}, Any: true}, ""},
	} {
		told := 0
		refused := func(_ context.Context, d approval.Decider, _ *approval.Request, to approval.State, why error) {
			if told++; d.Principal.ID != tt.who.Principal.ID || to != approval.Approved ||
				!strings.Contains(why.Error(), tt.says) {
				t.Errorf("told of %+v, %s, %v", d, to, why)
			}
		}
		scenario(t, tt.name, approval.Config{Separate: tt.separate, Recorder: recorder{refusal: refused}},
			func(t *testing.T, g *approval.Gate) {
				ctx, cancel := context.WithCancel(t.Context())
				a := ask("ex_1", "1", `{}`)
				a.Approvers = tt.approvers
				w := wait(ctx, g, a)
				_, err := g.Decide(t.Context(), tt.who, pending(t, g)[0].ID, true, "")
				if tt.says == "" {
					if err != nil {
						t.Errorf("err = %v, want nil", err)
					}
					w.ends(t, "")
				} else if e := tool.AsError(err); e == nil || e.Kind != tool.Denied ||
					!strings.Contains(e.Msg, tt.says) {
					t.Errorf("got %v, want %q", err, tt.says)
				}
				if (told == 1) != (tt.says != "") {
					t.Errorf("told %d times of an attempt that was refused", told)
				}
				cancel()
				<-w.done
			})
	}
}

var errShutdown = &tool.Error{Kind: tool.Unavailable, Msg: "biplane is shutting down"}

func TestAfterRestart(t *testing.T) {
	for _, decideWhen := range []string{"before", "between", "after"} {
		for _, approve := range []bool{true, false} {
			scenario(t, decideWhen, approval.Config{}, func(t *testing.T, _ *approval.Gate) {
				store := approvaltest.NewMemory()
				g := approval.New(approval.Config{Store: store})
				ctx, stop := context.WithCancelCause(t.Context())
				w := wait(ctx, g, ask("ex_1", "1", `{"n": 1}`))
				id := pending(t, g)[0].ID
				if decideWhen == "before" { // the process ends before its call is notified
					if _, err := store.Move(t.Context(), id, approval.Pending,
						map[bool]approval.State{true: approval.Approved, false: approval.Denied}[approve],
						approval.Decision{Decider: "local:bob", Time: time.Now()}); err != nil {
						t.Fatalf("Move: %v", err)
					}
				}
				stop(errShutdown)
				<-w.done
				g = approval.New(approval.Config{Store: store})
				if decideWhen == "between" {
					decide(t, g, id, approve)
				}
				w = wait(t.Context(), g, ask("ex_1", "1", `{"n": 1}`))
				if decideWhen == "after" {
					if all := pending(t, g); len(all) != 1 || all[0].ID != id {
						t.Fatalf("pending %+v", all)
					}
					decide(t, g, id, approve)
				}
				if approve {
					w.ends(t, "")
				} else {
					w.ends(t, "denied")
				}
			})
		}
	}
	// The process ended after the approval was used. Asking again succeeds, because the execution's
	// journal knows whether the call was sent.
	scenario(t, "made", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		decide(t, g, pending(t, g)[0].ID, true)
		w.ends(t, "")
		wait(t.Context(), g, ask("ex_1", "1", `{}`)).ends(t, "")
	})
}

func TestWhatItIsBoundTo(t *testing.T) {
	for name, change := range map[string]func(*approval.Ask){
		"arguments": func(a *approval.Ask) { a.Call.Arguments = []byte(`{"id": 9007199254740992}`) },
		"program":   func(a *approval.Ask) { a.Call.By.Digest = "p2" },
		"policy":    func(a *approval.Ask) { a.Version = "v2" },
		"definition": func(a *approval.Ask) {
			a.Call.Tool = &tool.Tool{Upstream: "shop", Name: "refund", InputSchema: []byte(`{"x":1}`)}
		},
		"tool": func(a *approval.Ask) {
			a.Call.Tool = &tool.Tool{Upstream: "shop", Name: "refunds", InputSchema: []byte(`{}`)}
		},
		"principal": func(a *approval.Ask) { a.Call.Principal.ID = "key:other" },
		"person":    func(a *approval.Ask) { a.Call.Principal.Person = "eve" },
	} {
		scenario(t, name, approval.Config{}, func(t *testing.T, g *approval.Gate) {
			w := wait(t.Context(), g, ask("ex_1", "1", `{"id": 9007199254740993}`))
			decide(t, g, pending(t, g)[0].ID, true)
			w.ends(t, "")
			a := ask("ex_1", "1", `{"id": 9007199254740993}`)
			change(a)
			wait(t.Context(), g, a).ends(t, "with different content")
		})
		scenario(t, name+" from outside", approval.Config{}, func(t *testing.T, g *approval.Gate) {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx, g, ask("", "1", `{"id": 9007199254740993}`))
			first := pending(t, g)[0].ID
			cancel()
			<-w.done
			decide(t, g, first, true)
			a := ask("", "2", `{"id": 9007199254740993}`)
			change(a)
			ctx, cancel = context.WithCancel(t.Context())
			w = wait(ctx, g, a)
			if all := pending(t, g); len(all) != 1 || all[0].ID == first {
				t.Errorf("pending %+v", all)
			}
			cancel()
			<-w.done
		})
	}
	scenario(t, "what has changed meanwhile", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		a := ask("ex_1", "1", `{}`)
		a.Recheck = changed{}
		w := wait(t.Context(), g, a)
		decide(t, g, pending(t, g)[0].ID, true)
		w.ends(t, "no longer applies")
	})
	scenario(t, "oversized arguments", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		wait(t.Context(),
			g, ask("ex_1", "1", strings.Repeat("x", approval.MaxArguments+1))).ends(t, "are too long to review")
	})
	t.Run("nobody to ask", func(t *testing.T) {
		if _, err := new(approval.Gate).Wait(t.Context(), ask("", "1", "{}")); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Denied {
			t.Errorf("got %v", err)
		}
	})
}

func TestCallsFromOutside(t *testing.T) {
	scenario(t, "a client that asks again", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // when the client gives up
		defer cancel()
		w := wait(ctx, g, ask("", "1", `{}`))
		id := pending(t, g)[0].ID
		w.ends(t, "timed out")
		decide(t, g, id, true)
		wait(t.Context(), g, ask("", "2", `{}`)).ends(t, "")
		w = wait(t.Context(), g, ask("", "3", `{}`)) // the approval is used up
		if all := pending(t, g); len(all) != 1 || all[0].ID == id {
			t.Fatalf("pending %+v", all)
		}
		decide(t, g, pending(t, g)[0].ID, false)
		w.ends(t, "denied")
	})
	scenario(t, "the same call twice at once", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		a, b := wait(t.Context(), g, ask("", "1", `{}`)), wait(t.Context(), g, ask("", "2", `{}`))
		all := pending(t, g)
		if len(all) != 1 {
			t.Fatalf("pending %+v", all)
		}
		decide(t, g, all[0].ID, true)
		<-a.done
		<-b.done
		if (a.err == nil) == (b.err == nil) {
			t.Errorf("one approval let through: %v, %v", a.err, b.err)
		}
	})
	scenario(t, "a program that ended", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, g, ask("ex_1", "1", `{}`))
		id := pending(t, g)[0].ID
		cancel()
		<-w.done
		if all := pending(t, g); len(all) != 0 {
			t.Errorf("still pending: %+v", all)
		}
		if _, err := g.Decide(t.Context(), bob, id, true, ""); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("deciding afterwards: %v", err)
		}
	})
}

func TestHeldIsTold(t *testing.T) {
	var changes []approval.State
	scenario(t, "held", approval.Config{Recorder: recorder{change: func(r approval.Request) {
		changes = append(changes, r.State)
	}}}, func(t *testing.T, g *approval.Gate) {
		var told []string
		a := ask("ex_1", "1", `{}`)
		a.Call.Observer = holdFunc(func(h *tool.Hold) {
			if h == nil {
				told = append(told, "on")
			} else {
				told = append(told, h.Reason)
			}
		})
		w := wait(t.Context(), g, a)
		decide(t, g, pending(t, g)[0].ID, true)
		if now := strings.Join(told, ","); now != "it writes,on" {
			t.Errorf("told %v after the decision was confirmed", now)
		}
		w.ends(t, "")
		if strings.Join(told, ",") != "it writes,on" || len(changes) != 2 || changes[1] != approval.Approved {
			t.Errorf("told %v, changes %v", told, changes)
		}
	})
}
