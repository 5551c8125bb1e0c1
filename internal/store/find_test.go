package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// grow records n calls of many tools, principals and executions. A few fail or are denied. Some of
// the first ones end only after all have begun. The record's clock advances by a second with each
// call.
func grow(tb testing.TB, a audit.Store, n int) *audit.Log {
	tb.Helper()
	l := audit.New(audit.Config{Store: a, Key: testKey(tb),
		Clock: wallclock.Stepping(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Second)})
	ctx, yes := context.Background(), true
	tools := make([]*tool.Tool, 50)
	for i := range tools {
		tools[i] = &tool.Tool{Upstream: fmt.Sprintf("upstream-%d", i%5), Name: fmt.Sprintf("tool_%d", i),
			Annotations: tool.Annotations{ReadOnly: &yes}}
	}
	var mu sync.Mutex
	var open []func() error
	one := func(i int) error {
		d := audit.Decision{Effect: "allow", Policy: "open", Reason: "the open policy allows every call"}
		var failure error
		switch {
		case i%4999 == 77:
			d.Effect, failure = "deny", tool.Errorf(tool.Denied, "denied")
		case i%40009 == 13:
			failure = tool.Errorf(tool.Unavailable, "the upstream is down")
		}
		e, err := l.Begin(ctx, &tool.Call{
			ID: fmt.Sprintf("call_%d", i), By: &tool.Program{Execution: fmt.Sprintf("ex_%d", i/10)},
			Tool: tools[i%len(tools)], Path: tools[i%len(tools)].Path(),
			Principal: tool.Principal{ID: fmt.Sprintf("local:user-%d", i%97), Client: "agent/1.2.3"},
		}, d)
		if err != nil {
			return err
		}
		if i < 5 {
			mu.Lock()
			defer mu.Unlock()
			open = append(open, func() error { return e.End(ctx, nil, tool.Errorf(tool.Timeout, "late")) })
			return nil
		}
		return e.End(ctx, tool.Text(false, "done"), failure)
	}
	errs := make([]error, 32)
	var wg sync.WaitGroup
	var next int
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				errs[w] = one(i)
			}
		})
	}
	wg.Wait()
	for _, end := range open {
		errs = append(errs, end())
	}
	for range 3 {
		_, err := l.Event(ctx, audit.Event{Kind: audit.KindRead, Principal: tool.Principal{ID: "local:auditor"}})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("errors.Join: %v", err)
	}
	return l
}

// queries returns all filters, and combinations of them, with matches everywhere, rarely, only
// among old records, and nowhere.
func queries(n int) []audit.Query {
	at := func(share float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, int(2*share*float64(n)), 0, time.UTC)
	}
	return []audit.Query{
		{}, {Limit: 1000},
		{Tool: "upstream-1.tool_6"}, {Tool: "none"}, {Upstream: "upstream-3"}, {Upstream: "none"},
		{Principal: "local:user-42"}, {Principal: "none"},
		{Execution: "ex_3"}, {Execution: "none"}, {Kind: audit.KindCall}, {Kind: audit.KindRead},
		{Kind: audit.KindSignIn},
		{Outcome: audit.OK}, {Outcome: audit.ToolError}, {Outcome: audit.Failed}, {Effect: "allow"}, {Effect: "ask"},
		{Effect: "deny"},
		{Since: at(.999)}, {Until: at(.001)}, {Until: at(.5)}, {Since: at(.5), Until: at(.501)}, {Since: at(2)},
		{Outcome: audit.Failed, Effect: "allow"}, {Outcome: audit.OK, Effect: "deny"},
		{Outcome: audit.Failed, Kind: audit.KindCall, Until: at(.2)},
		{Tool: "upstream-1.tool_6", Upstream: "upstream-2"}, {Tool: "upstream-1.tool_6", Principal: "local:user-42"},
		{Tool: "upstream-1.tool_6", Principal: "local:user-42", Outcome: audit.Failed},
		{Principal: "local:user-1", Outcome: audit.Failed, Until: at(.3)},
		{Tool: "upstream-1.tool_6", Outcome: audit.OK, Until: at(.1)}, {Upstream: "upstream-3", Kind: audit.KindRead},
		{Principal: "local:user-3", Effect: "ask", Since: at(.2)},
		{Tool: "upstream-2.tool_2", Upstream: "upstream-2", Principal: "local:user-2", Execution: "ex_0",
			Kind: audit.KindCall, Outcome: audit.Failed, Effect: "allow", Since: at(0), Until: at(1)},
		{Upstream: "upstream-3", After: audit.FirstID(at(.5)), Limit: 1000},
		{Outcome: audit.Failed, After: audit.FirstID(at(0))},
	}
}

// TestFind compares the results of the index, in runs, spans and the newest leaves, with those of a
// full scan.
func TestFind(t *testing.T) {
	t.Parallel()
	const n = 34_000 // more than a run
	s := openDatabase(t, t.TempDir())
	l := grow(t, stored(t, s), n)
	var all []audit.Record
	for q := (audit.Query{Limit: 1000}); ; q.Before = all[len(all)-1].ID {
		page, err := l.Records(t.Context(), q)
		if err != nil {
			t.Fatalf("Records: %v", err)
		}
		all = append(all, page...)
		if len(page) < 1000 {
			break
		}
	}
	if len(all) != n+3 || !slices.IsSortedFunc(all, func(a, b audit.Record) int { return cmp.Compare(b.ID, a.ID) }) {
		t.Fatalf("%d records, want %d", len(all), n+3)
	}
	for _, q := range queries(n) {
		var want []string
		for _, r := range all {
			if picks(q, &r) {
				want = append(want, r.ID)
			}
		}
		if q.After != "" {
			slices.Reverse(want)
		}
		want = want[:min(len(want), q.Max())]
		found, err := l.Records(t.Context(), q)
		var got []string
		for i := range found {
			err = errors.Join(err, found[i].CheckIntact())
			got = append(got, found[i].ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %d records, want %d: %v", q, len(got), len(want), err)
		}
	}
	if r := verified(t, l); !r.OK() {
		t.Errorf("r.Faults = %+v, want r.OK()", r.Faults)
	}
}

func picks(q audit.Query, r *audit.Record) bool {
	for _, f := range [][2]string{
		{string(q.Kind), string(r.Kind)}, {q.Execution, r.Subject.Execution}, {q.Tool, r.Subject.Tool},
		{q.Upstream, r.Subject.Upstream},
		{q.Principal, r.Principal}, {string(q.Outcome), string(r.End.Outcome)}, {q.Effect, r.Decision.Effect},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return (q.Since.IsZero() || !r.Time.Before(q.Since)) && (q.Until.IsZero() || r.Time.Before(q.Until)) &&
		(q.Before == "" || r.ID < q.Before) && r.ID > q.After
}

// BenchmarkFind measures each filter, and combinations, on a record of BIPLANE_RECORDS calls
// (20000; 1200000 is 2.4 million leaves). The record is kept in the folder BIPLANE_RECORDS_DIR if
// that is set.
func BenchmarkFind(b *testing.B) {
	n := 20_000
	if text := os.Getenv("BIPLANE_RECORDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatalf("strconv.Atoi: %v", err)
		}
	}
	dir := os.Getenv("BIPLANE_RECORDS_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	s := openDatabase(b, dir)
	a := stored(b, s)
	l := audit.New(audit.Config{Store: a, Key: testKey(b)})
	if h, err := l.Head(b.Context()); err != nil || h.Size == 0 {
		start := time.Now()
		grow(b, a, n)
		b.Logf("%d calls in %v", n, time.Since(start))
	}
	for _, q := range queries(n) {
		if q.Limit == 0 {
			q.Limit = 50 // as the command does
		}
		b.Run(describe(q), func(b *testing.B) {
			for b.Loop() {
				if _, err := l.Records(b.Context(), q); err != nil {
					b.Fatalf("Records: %v", err)
				}
			}
		})
	}
}

func describe(q audit.Query) (out string) {
	for _, f := range [][2]string{
		{"tool", q.Tool}, {"upstream", q.Upstream}, {"principal", q.Principal}, {"execution", q.Execution},
		{"kind", string(q.Kind)}, {"outcome", string(q.Outcome)},
		{"effect", q.Effect}, {"after", q.After},
	} {
		if f[1] != "" {
			out += " " + f[0] + "=" + f[1]
		}
	}
	if !q.Since.IsZero() {
		out += " since=" + q.Since.Format(time.DateOnly)
	}
	if !q.Until.IsZero() {
		out += " until=" + q.Until.Format(time.DateOnly)
	}
	return fmt.Sprintf("limit=%d%s", q.Limit, out)
}

// TestOlderForms continues a record whose leaves and index an older version wrote: with text in the
// leaves, and with a row for each half of a record.
func TestOlderForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDatabase(t, dir)
	fill(t, auditLog(t, s), 140) // 267 leaves
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db, restore := rawWithTriggers(t, dir)
	do(t, db, `INSERT INTO audit_record SELECT record, 0, seq FROM audit_record WHERE ended > 1`)
	do(t, db, `INSERT INTO audit_record SELECT record, 1, seq + ended - 1 FROM audit_record WHERE ended > 1`)
	do(t, db, `DELETE FROM audit_record WHERE ended > 1`)
	restore()
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	l := auditLog(t, openDatabase(t, dir))
	sound(t, l)
	fill(t, l, 140) // fills a span in the newer form
	sound(t, l)
	found, err := l.Records(t.Context(), audit.Query{Tool: "crm.update", Limit: 1000})
	if err != nil || len(found) != 280 {
		t.Fatalf("%d records, %v, want 280", len(found), err)
	}
	ended := 0
	for i := range found {
		r, err := l.Record(t.Context(), found[i].ID)
		if err != nil || r.Problem != "" || r.End != found[i].End {
			t.Errorf("record %s: %+v, %v, want it as in the list: %+v", found[i].ID, r, err, found[i])
		}
		if r.End.Outcome == audit.OK {
			ended++
		}
	}
	if want := 2 * (140 - 47); ended != want {
		t.Errorf("%d records have ended, want %d", ended, want)
	}
}

// TestNewestUnpacked finds the newest event in a database of an older version, which stored events
// as text.
func TestNewestUnpacked(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 5)
	want, err := l.Event(t.Context(), audit.Event{Kind: audit.KindPolicy, Principal: tool.Principal{ID: "local:bob"}})
	if err != nil {
		t.Fatalf("Event: %v", err)
	}
	fill(t, l, 5)
	check := func(l *audit.Log) {
		t.Helper()
		got, err := l.Newest(t.Context(), audit.KindPolicy)
		if err != nil || got[audit.KindPolicy] == nil || got[audit.KindPolicy].ID != want {
			t.Errorf("Newest = %v, %v, want the record %s", got, err, want)
		}
	}
	check(l)
	s.Close()
	db, restore := rawWithTriggers(t, dir)
	restore()
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	check(auditLog(t, openDatabase(t, dir)))
}

// TestEndOfOldEvent tries to end an event that is in an earlier span.
func TestEndOfOldEvent(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	id, err := l.Event(t.Context(), audit.Event{Kind: audit.KindPolicy, Principal: tool.Principal{ID: "local:bob"}})
	if err != nil {
		t.Fatalf("Event: %v", err)
	}
	fill(t, l, 140) // more than a span
	end := fmt.Appendf(nil, `{"kind":"call","outcome":"ok","part":"ended","record":%q,"seq":0,"time":%q,"v":1}`, id,
		audit.FormatTime(time.Now()))
	err = stored(t, s).Append(t.Context(),
		&audit.Addition{Record: id, Part: audit.PartEnded, Leaf: end, Time: time.Now()})
	if !isKind(err, tool.NotFound) {
		t.Errorf("Append of an end of an event: %v, want an error of kind not found", err)
	}
	sound(t, l)
}
