package form_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A desk is a Desk whose requests the test sets. It records the decisions.
type desk struct {
	*form.Desk
	all     []*approval.Request
	decided []string
	refused int    // answers
	barred  string // the ID of a request that its person may not decide on
	clock   *wallclock.Clock
}

func (d *desk) List(_ context.Context, q approval.Query) (out []approval.Request, _ error) {
	for _, r := range d.all {
		if r.Execution == q.Execution && r.State == approval.Pending {
			out = append(out, *r)
		}
	}
	return out, nil
}

func (d *desk) Get(_ context.Context, id string) (*approval.Request, error) {
	for _, r := range d.all {
		if r.ID == id {
			c := *r
			return &c, nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones", id)
}

func (d *desk) May(_ approval.Decider, r *approval.Request) error {
	if r.ID == d.barred {
		return tool.Errorf(tool.Denied, "others decide")
	}
	return nil
}

func (d *desk) Decide(ctx context.Context, who approval.Decider, id string, approve bool,
	note string) (*approval.Request, error) {
	r, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.State != approval.Pending {
		return nil, tool.Errorf(tool.Conflict, "request %s is already %s", id, r.State)
	}
	for _, r := range d.all {
		if r.ID == id {
			r.State = approval.Denied
			if approve {
				r.State = approval.Approved
			}
		}
	}
	d.decided = append(d.decided, fmt.Sprintf("%s %v %s via %s", id, approve, note, who.Via))
	return r, nil
}

func (d *desk) ask(args string) *approval.Request {
	n := len(d.all) + 1
	r := &approval.Request{
		ID: fmt.Sprintf("apr_%d", n), Digest: fmt.Sprintf("digest %d", n), Execution: "ex_1",
		Call: fmt.Sprintf("ex_1.%d", n), Tool: "till.put", Arguments: json.RawMessage(args),
		Principal: "key:ann", Reason: "it writes", Expires: d.clock.Now().Add(24 * time.Hour), State: approval.Pending,
	}
	d.all = append(d.all, r)
	return r
}

// people are the People of a desk.
type people struct {
	*desk
	via    string
	barred string // ID of the principal who may not decide
}

func (p people) IdentifyDecider(who tool.Principal) (approval.Decider, bool) {
	return approval.Decider{Principal: who, Via: p.via}, who.ID != p.barred
}

func (people) LocateRequest(id string) string { return "biplane approvals show " + id }

func (p people) RecordRefusal(context.Context, form.Call, error) { p.refused++ }

func newDesk(t *testing.T) *desk {
	t.Helper()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	d := &desk{clock: wallclock.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))}
	d.Desk = form.New(form.Config{Requests: d, Key: key, Clock: d.clock, People: people{d, "client", "key:bob"}})
	return d
}

var call = form.Call{Principal: tool.Principal{ID: "key:ann"}, Tool: "biplane.execute",
	Arguments: []byte(`{"code":"1"}`)}

func put(t *testing.T, d *desk) *form.Form {
	t.Helper()
	f, _, err := d.Execution(t.Context(), call, "ex_1")
	if err != nil || f == nil {
		t.Fatalf("the form of the execution: %v, %v, want a form", f, err)
	}
	return f
}

func yes(decision string) form.Answer {
	return form.Answer{Action: "accept", Content: map[string]any{"decision": decision}}
}

// Nothing in a request can imitate a line of the form, end its block, or hide.
func TestFormShowsWhatIsThere(t *testing.T) {
	d := newDesk(t)
	r := d.ask("{\"text\": \"a\u202eb\\n```\\n\u3164<b>\",\n \"n\": 1.0e2}")
	r.Reason, r.Tool, r.Client, r.Labels = "fine\n  arguments: {}", "till.put\n```", "agent\u200b", []string{"pii"}
	f := put(t, d)
	for _, want := range []string{"{\"text\":\"a\\u202eb\\n```\\n\\u3164<b>\",\"n\":1.0e2}",
		"  reason: fine\\n  arguments: {}\n", "call 1: till.put\\n```\n", "agent\\u200b", "data read: pii", "apr_1",
		"digest 1"} {
		if !strings.Contains(f.Message, want) {
			t.Errorf("no %q in %s", want, f.Message)
		}
	}
	if n := strings.Count(f.Message, "\n```"); n != 2 {
		t.Errorf("%d fences in %s", n, f.Message)
	}
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal(f.Schema, &s); err != nil || len(s.Properties) != 2 {
		t.Errorf("the schema of the form: %s, %v, want two properties", f.Schema, err)
	}
}

// Requests that don't fit are not decided on, and the form says so.
func TestTooMuchForAForm(t *testing.T) {
	d := newDesk(t)
	d.ask(`{"text":"` + strings.Repeat("x", 9000) + `"}`)
	if f, n, err := d.Execution(t.Context(), call, "ex_1"); f != nil || n != 1 || err != nil {
		t.Errorf("a call of 9 kB is on a form: %v %d %v", f, n, err)
	}
	for range 12 {
		d.ask(`{"n":1}`)
	}
	f := put(t, d)
	if !strings.Contains(f.Message, "3 more are not shown and not decided here") ||
		!strings.Contains(f.Message, "biplane approvals show apr_1)") {
		t.Errorf("f.Message = %s", f.Message)
	}
	out, err := d.Answer(t.Context(), call, f.State, yes("approve all"))
	if err != nil || out.Decided != 10 || len(d.decided) != 10 || d.decided[0] != "apr_2 true  via client" {
		t.Errorf("approve all: outcome %+v, %v, decisions %v, want 10 approvals in order", out, err, d.decided)
	}
	// Invisible characters count as they are displayed.
	d = newDesk(t)
	d.ask(`{"text":"` + strings.Repeat("\u200b", 2000) + `"}`)
	if f, _, err := d.Execution(t.Context(), call, "ex_1"); f != nil || err != nil {
		t.Errorf("a request too long to show: form %v, %v, want none", f, err)
	}
}

func TestAnswers(t *testing.T) {
	refused := func(name string, kind tool.Kind, f func(t *testing.T, d *desk) error) {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.ask(`{"n":1}`)
			if err := f(t, d); err == nil || tool.AsError(err).Kind != kind || len(d.decided) > 0 || d.refused != 1 {
				t.Errorf("%v, decided %v, told %d times", err, d.decided, d.refused)
			}
		})
	}
	answer := func(d *desk, c form.Call, f *form.Form, a form.Answer) error {
		_, err := d.Answer(context.Background(), c, f.State, a)
		return err
	}
	refused("another principal", tool.Denied, func(t *testing.T, d *desk) error {
		c := call
		c.Principal.ID = "key:eve"
		return answer(d, c, put(t, d), yes("approve"))
	})
	refused("may not any more", tool.Denied, func(t *testing.T, d *desk) error {
		f := put(t, d)
		d.Desk = newDeskOf(t, d)
		return answer(d, call, f, yes("approve"))
	})
	refused("other arguments", tool.Invalid, func(t *testing.T, d *desk) error {
		c := call
		c.Arguments = []byte(`{"code":"2"}`)
		return answer(d, c, put(t, d), yes("approve"))
	})
	refused("too old", tool.Conflict, func(t *testing.T, d *desk) error {
		f := put(t, d)
		d.clock.Advance(time.Hour)
		return answer(d, call, f, yes("approve"))
	})
	refused("the request expires first", tool.Conflict, func(t *testing.T, d *desk) error {
		d.all[0].Expires = d.clock.Now().Add(time.Minute)
		f := put(t, d)
		d.clock.Advance(2 * time.Minute)
		return answer(d, call, f, yes("approve"))
	})
	refused("changed", tool.Conflict, func(t *testing.T, d *desk) error {
		f := put(t, d)
		d.all[0].Digest = "another"
		return answer(d, call, f, yes("approve"))
	})
	refused("gone", tool.NotFound, func(t *testing.T, d *desk) error {
		f := put(t, d)
		d.all = nil
		return answer(d, call, f, yes("approve"))
	})
	refused("answered before", tool.Conflict, func(t *testing.T, d *desk) error {
		f := put(t, d)
		if _, err := d.Answer(t.Context(), call, f.State, form.Answer{Action: "decline"}); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		return answer(d, call, f, yes("approve"))
	})
	refused("no action", tool.Invalid, func(t *testing.T, d *desk) error {
		return answer(d, call, put(t, d), form.Answer{Action: "yes"})
	})
	refused("a long note", tool.Invalid, func(t *testing.T, d *desk) error {
		return answer(d, call, put(t, d),
			form.Answer{Action: "accept",
				Content: map[string]any{"decision": "approve", "note": strings.Repeat("x", 2000)}})
	})
}

// newDeskOf returns d's desk for a person who may not decide.
func newDeskOf(t *testing.T, d *desk) *form.Desk {
	t.Helper()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	return form.New(form.Config{Requests: d, Key: key, Clock: d.clock, People: people{d, "", call.Principal.ID}})
}

// People who may not decide aren't asked. A request left undecided isn't shown again for a while.
// The requests of others aren't shown.
func TestWhoIsAsked(t *testing.T) {
	d := newDesk(t)
	d.ask(`{"n":1}`)
	d.ask(`{"n":2}`).Principal = "key:eve"
	bob := call
	bob.Principal.ID = "key:bob"
	if f, n, err := d.Execution(t.Context(), bob, "ex_1"); f != nil || n != 0 || err != nil {
		t.Errorf("another user's form: %v, %d waiting, %v, want none", f, n, err)
	}
	f, n, err := d.Execution(t.Context(), call, "ex_1")
	if err != nil || n != 1 || strings.Contains(f.Message, `{"n":2}`) {
		t.Fatalf("f = %+v, n = %d, err = %v, want err == nil && n == 1 && !strings.Contains(f.Message, "+
			"`{\"n\":2}`)", f, n, err)
	}
	if out, err := d.Answer(t.Context(), call, f.State, form.Answer{Action: "cancel"}); err != nil || out.Decided != 0 {
		t.Errorf("a canceled form: %+v, %v, want nothing decided", out, err)
	}
	if f, n, err := d.Execution(t.Context(), call, "ex_1"); f != nil || n != 1 || err != nil {
		t.Errorf("asked again: %v %d %v", f, n, err)
	}
	d.clock.Advance(2 * time.Hour)
	put(t, d)
	d.barred = "apr_1"
	if f, _, err := d.Execution(t.Context(), call, "ex_1"); f != nil || err != nil {
		t.Errorf("a request that the person may not decide on: form %v, %v, want none", f, err)
	}
}

// The state is untrusted input.
func FuzzAnswer(f *testing.F) {
	f.Add("AAAA", "accept", "approve")
	f.Fuzz(func(t *testing.T, state, action, decision string) {
		d := newDesk(t)
		d.ask(`{"n":1}`)
		if _, err := d.Answer(t.Context(), call, state,
			form.Answer{Action: action, Content: map[string]any{"decision": decision}}); err == nil ||
			len(d.decided) > 0 {
			t.Errorf("%q was taken", state)
		}
	})
}

// A plan is shown as the list of its writes. A plan that can't be parsed isn't shown.
func TestPlansOnForms(t *testing.T) {
	d := newDesk(t)
	d.ask(`{"writes":"none"}`).Tool = "biplane.plan"
	if f, _, err := d.Execution(t.Context(), call, "ex_1"); f != nil || err != nil {
		t.Errorf("a plan that can't be read: form %v, %v, want none", f, err)
	}
	d.ask(`{"writes":[{"tool":"till.put","arguments":{"n": 1}},{"tool":"till.put\n","arguments":{"id":"sim"},` +
		`"simulated":true}]}`).Tool = "biplane.plan"
	f := put(t, d)
	for _, want := range []string{"  1. till.put {\"n\":1}\n",
		"  2. till.put\\n {\"id\":\"sim\"}\n     its arguments contain a simulated answer"} {
		if !strings.Contains(f.Message, want) {
			t.Errorf("no %q in %s", want, f.Message)
		}
	}
}
