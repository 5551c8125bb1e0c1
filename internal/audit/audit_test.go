package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/audit/audittest"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestMemory(t *testing.T) {
	audittest.Run(t, func(*testing.T) audittest.Store { return audit.NewMemory() })
}

// steps is a clock that goes on by a second each time it is read.
func steps() func() time.Time {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time { now = now.Add(time.Second); return now }
}

func TestLog(t *testing.T) {
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
		{"the tool reports failure", nil, "", tool.Text(true, "no"), nil, audit.ToolError, "", true},
		{"denied", nil, "", nil, tool.Errorf(tool.Denied, "no"), audit.Failed, tool.Denied, true},
		{"canceled", nil, "", nil, context.Canceled, audit.Failed, tool.Canceled, true},
		{"a plain error", nil, "", nil, errors.New("boom"), audit.Failed, tool.Internal, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := audit.New(audit.Config{Clock: steps()})
			c := &tool.Call{
				ID: "call", Parent: "x9", Path: "gh.listIssues", Tool: &tool.Tool{Upstream: "gh", Name: "list-issues", Annotations: tool.Annotations{ReadOnly: tt.readOnly}},
				Principal: tool.Principal{ID: "local:ann", Client: "agent/2"},
			}
			if tt.args != "" {
				c.Arguments = []byte(tt.args)
			}
			ctx, cancel := context.WithCancel(t.Context())
			e, err := l.Begin(ctx, c, "allow: open")
			if err != nil {
				t.Fatal(err)
			}
			cancel() // an end is recorded all the same
			if err := e.End(ctx, tt.res, tt.err); err != nil {
				t.Fatal(err)
			}
			got, err := l.Records(t.Context(), audit.Query{})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
			b, end := got[0].Begun, got[0].Ended
			if b.Record != e.Record() || b.Call != "call" || b.Execution != "x9" || b.Tool != "gh.list-issues" || b.Principal != "local:ann" || b.Client != "agent/2" || b.Decision != "allow: open" || len(b.Digest) != 64 {
				t.Errorf("begun: %+v", b)
			}
			if b.Durable != tt.durable || end.Outcome != tt.outcome || end.ErrorKind != tt.kind || end.Duration != time.Second {
				t.Errorf("durable %t, end %+v", b.Durable, end)
			}
			if tt.args == "" && b.Arguments != "{}" || tt.args != "" && b.Arguments != tt.args {
				t.Errorf("arguments %q", b.Arguments)
			}
		})
	}
}

func TestBegunBounded(t *testing.T) {
	l := audit.New(audit.Config{})
	for _, args := range []string{strings.Repeat("é", audit.ArgumentsBytes), "x" + strings.Repeat("é", audit.ArgumentsBytes), strings.Repeat("\xff", audit.ArgumentsBytes+9)} {
		if _, err := l.Begin(t.Context(), &tool.Call{Path: "a.b", Arguments: []byte(args)}, "allow"); err != nil {
			t.Fatal(err)
		}
		got, _ := l.Records(t.Context(), audit.Query{Limit: 1})
		b := got[0].Begun
		if len(b.Arguments) > audit.ArgumentsBytes || len(b.Arguments) < audit.ArgumentsBytes-4 || strings.ToValidUTF8(b.Arguments, "") != b.Arguments || b.Size != int64(len(args)) {
			t.Errorf("kept %d bytes of %d (size %d)", len(b.Arguments), len(args), b.Size)
		}
	}
}

func TestRecordIDsFollowTime(t *testing.T) {
	still := time.Now()
	l := audit.New(audit.Config{Clock: func() time.Time { return still }})
	last := ""
	for range 50 {
		e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, "allow")
		if err != nil {
			t.Fatal(err)
		}
		if e.Record() <= last {
			t.Fatalf("%s after %s", e.Record(), last)
		}
		last = e.Record()
	}
}

func TestBeginFails(t *testing.T) {
	m := audit.NewMemory()
	m.Close()
	_, err := audit.New(audit.Config{Store: m}).Begin(t.Context(), &tool.Call{Path: "a.b"}, "allow")
	var te *tool.Error
	if !errors.As(err, &te) || te.Kind != tool.Unavailable || !strings.Contains(te.Msg, "a.b") {
		t.Fatal(err)
	}
}
