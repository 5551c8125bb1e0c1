package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestMemory(t *testing.T) {
	audittest.Run(t, func(*testing.T) audittest.Store { return audittest.NewMemory() })
}

// steps returns a clock that advances by a second each time it is read.
func steps() *wallclock.Clock {
	return wallclock.Stepping(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Second)
}

var allow = audit.Decision{Effect: "allow", Policy: "open", Reason: "everything is allowed"}

func TestCalls(t *testing.T) {
	yes, no := true, false
	result := tool.Text(false, "done")
	for _, tt := range []struct {
		name     string
		readOnly *bool
		args     string
		res      *tool.Result
		err      error
		outcome  audit.Outcome
		kind     tool.Kind
		durable  bool
	}{
		{"a read", &yes, `{"a":1}`, result, nil, audit.OK, "", false},
		{"a write", &no, `{"a":1}`, result, nil, audit.OK, "", true},
		{"not annotated", nil, "", result, nil, audit.OK, "", true},
		{"the tool reported a failure", nil, "", tool.Text(true, "no"), nil, audit.ToolError, "", true},
		{"denied", nil, "", nil, tool.Errorf(tool.Denied, "no"), audit.Failed, tool.Denied, true},
		{"canceled", nil, "", nil, context.Canceled, audit.Failed, tool.Canceled, true},
		{"a plain error", nil, "", nil, errors.New("boom"), audit.Failed, tool.Internal, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &durable{Memory: audittest.NewMemory()}
			l := audit.New(audit.Config{Store: store, Clock: steps()})
			c := &tool.Call{
				ID: "call", By: &tool.Program{Execution: "x9"}, Path: "gh.listIssues",
				Tool: &tool.Tool{Upstream: "gh", Name: "list-issues",
					Annotations: tool.Annotations{ReadOnly: tt.readOnly}},
				Principal: tool.Principal{ID: "local:ann", Client: "agent/2"},
			}
			if tt.args != "" {
				c.Arguments = []byte(tt.args)
			}
			ctx, cancel := context.WithCancel(t.Context())
			e, err := l.Begin(ctx, c, allow)
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			cancel() // an end is still recorded
			if err := e.End(ctx, tt.res, tt.err); err != nil {
				t.Fatalf("End: %v", err)
			}
			r, err := l.Record(t.Context(), e.Record())
			if err != nil {
				t.Fatalf("Record: %v", err)
			}
			want := audit.Subject{Tool: "gh.list-issues", Upstream: "gh", Execution: "x9", Call: "call"}
			if r.Kind != audit.KindCall || r.Subject != want || r.Principal != "local:ann" || r.Client != "agent/2" ||
				r.Decision != allow || r.Seq != 0 || r.End.Seq != 1 {
				t.Errorf("record: %+v", r)
			}
			if store.began != tt.durable || r.End.Outcome != tt.outcome || r.End.ErrorKind != tt.kind ||
				r.End.Duration != time.Second {
				t.Errorf("durable %t, end %+v", store.began, r.End)
			}
			if args, err := l.Kept(t.Context(), r.Seq, r.Arguments.Kept); err != nil ||
				tt.args == "" && string(args) != "{}" || tt.args != "" && string(args) != tt.args {
				t.Errorf("arguments %q, %v", args, err)
			}
			if (r.End.Error.Digest != "") != (tt.err != nil) || (r.End.Result.Digest != "") != (tt.res != nil) ||
				r.End.Result.Kept != "" {
				t.Errorf("end %+v", r.End)
			}
			report, err := l.Verify(t.Context())
			if err != nil || !report.OK() || report.Records != 1 || report.Unfinished != 0 || report.Size != 2 {
				t.Errorf("verified: %+v, %v", report, err)
			}
		})
	}
}

// A durable is a Memory that remembers whether leaves had to be on the disk.
type durable struct {
	*audittest.Memory
	began bool
	event bool // of the last event
}

func (d *durable) Append(ctx context.Context, a *audit.Addition) error {
	if a.Part == audit.PartBegun {
		d.began = a.Durable
	}
	if a.Part == audit.PartEvent {
		d.event = a.Durable
	}
	return d.Memory.Append(ctx, a)
}

func TestEvents(t *testing.T) {
	l := audit.New(audit.Config{Store: audittest.NewMemory(), Clock: steps()})
	many := map[string]string{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = strings.Repeat("\xffé", 1000)
	}
	id, err := l.Event(t.Context(), audit.Event{
		Kind: audit.KindSignIn, Principal: tool.Principal{ID: "local:ann"},
		Subject: audit.Subject{Upstream: "gh", File: "f", Session: "s", Name: "n"},
		Outcome: audit.Failed, ErrorKind: tool.Denied, Detail: many,
	})
	if err != nil {
		t.Fatalf("Event: %v", err)
	}
	r, err := l.Record(t.Context(), id)
	if err != nil || r.Kind != audit.KindSignIn ||
		r.Subject != (audit.Subject{Upstream: "gh", File: "f", Session: "s", Name: "n"}) ||
		r.End.Outcome != audit.Failed || r.End.ErrorKind != tool.Denied {
		t.Fatalf("r = %+v, err = %v", r, err)
	}
	if len(r.Detail) != 32 {
		t.Errorf("%d details", len(r.Detail))
	}
	for _, v := range r.Detail {
		if len(v) > 512 || strings.ToValidUTF8(v, "") != v {
			t.Errorf("a detail of %d bytes", len(v))
		}
	}
	if _, err := l.Record(t.Context(), "none"); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.NotFound", err)
	}
	if report, err := l.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("report = %+v, err = %v, want err == nil && report.OK()", report, err)
	}
}

// TestIntents checks that what is about to happen to an execution is on the disk first, or is an
// error. The end of an execution isn't waited for.
func TestIntents(t *testing.T) {
	d := &durable{Memory: audittest.NewMemory()}
	l := audit.New(audit.Config{Store: d})
	for _, intent := range []bool{false, true} {
		if _, err := l.Event(t.Context(), audit.Event{Kind: audit.KindExecution, Intent: intent}); err != nil ||
			d.event != intent {
			t.Errorf("intent %v: durable %v, %v", intent, d.event, err)
		}
	}
	d.Close()
	if _, err := l.Event(t.Context(), audit.Event{Kind: audit.KindExecution, Intent: true}); err == nil {
		t.Error("an intent that nothing took is no error")
	}
}

func TestRecordIDsFollowTime(t *testing.T) {
	still := time.Now()
	l := audit.New(audit.Config{Store: audittest.NewMemory(), Clock: wallclock.At(still)})
	last := audit.FirstID(still)
	for range 50 {
		e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, allow)
		if err != nil {
			t.Fatalf("Begin: %v", err)
		}
		if e.Record() <= last {
			t.Fatalf("%s after %s", e.Record(), last)
		}
		last = e.Record()
	}
	if next := audit.FirstID(still.Add(time.Millisecond)); next <= last {
		t.Errorf("%s of a later time is not after %s", next, last)
	}
}

func TestBeginFails(t *testing.T) {
	m := audittest.NewMemory()
	m.Close()
	_, err := audit.New(audit.Config{Store: m}).Begin(t.Context(), &tool.Call{Path: "a.b"}, allow)
	var te *tool.Error
	if !errors.As(err, &te) || te.Kind != tool.Unavailable || !strings.Contains(te.Msg, "a.b") {
		t.Fatalf("err = %v, want errors.As(err, &te) && te.Kind == tool.Unavailable && "+
			"strings.Contains(te.Msg, \"a.b\")", err)
	}
}

// TestLabels checks that the labels of events and calls are on record beside other details.
func TestLabels(t *testing.T) {
	l := audittest.NewLog()
	for want, event := range map[string]audit.Event{
		"":    {Kind: audit.KindFile, Detail: map[string]string{"action": "read"}},
		"pii": {Kind: audit.KindFile, Labels: []string{"pii"}},
		"pii,untrusted": {Kind: audit.KindFile, Labels: []string{"pii", "untrusted"},
			Detail: map[string]string{"action": "read"}},
	} {
		id, err := l.Event(t.Context(), event)
		if err != nil {
			t.Fatalf("Event: %v", err)
		}
		r, err := l.Record(t.Context(), id)
		if err != nil {
			t.Fatalf("Record: %v", err)
		}
		if got := strings.Join(r.DataLabels(), ","); got != want || r.Detail["action"] != event.Detail["action"] {
			t.Errorf("labels %q, detail %v; want labels %q and the detail of %v", got, r.Detail, want, event)
		}
	}
}
