// Package audittest is the suite that every audit.Store must pass.
package audittest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Store is what the suite tests: closing it must make later calls fail.
type Store interface {
	audit.Store
	io.Closer
}

// Run runs the suite. open gives a Store that holds nothing, and that the suite closes.
func Run(t *testing.T, open func(t *testing.T) Store) {
	tests := []struct {
		name string
		test func(*testing.T, Store)
	}{
		{"RoundTrip", roundTrip},
		{"Refusals", refusals},
		{"Query", query},
		{"Canceled", canceled},
		{"Closed", closed},
		{"Parallel", parallel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { s.Close() })
			tt.test(t, s)
		})
	}
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)

func begun(id string) *audit.Begun {
	return &audit.Begun{
		Record: id, Call: "c-" + id, Execution: "x1", Time: epoch, Tool: "crm.update", Principal: "local:ann", Client: "agent/1",
		Digest: "d1", Arguments: `{"n":9007199254740993,"s":"\u0000é💥"}`, Size: 40, Decision: "allow", Durable: true,
	}
}

func ended(id string) *audit.Ended {
	return &audit.Ended{
		Record: id, Time: epoch.Add(time.Second), Outcome: audit.Failed, ErrorKind: tool.Timeout, Error: "no answer",
		Digest: "d2", Size: 1 << 40, Duration: 1500 * time.Microsecond,
	}
}

func roundTrip(t *testing.T, s Store) {
	ctx := t.Context()
	b, e := begun("a"), ended("a")
	must(t, s.Begin(ctx, b))
	got := records(t, s, audit.Query{})
	if len(got) != 1 || got[0].Begun != *b || got[0].Ended != (audit.Ended{}) {
		t.Fatalf("after Begin: got %+v, want %+v and no end", got, *b)
	}
	must(t, s.End(ctx, e))
	got = records(t, s, audit.Query{})
	if len(got) != 1 || got[0].Begun != *b || got[0].Ended != *e {
		t.Fatalf("after End: got %+v, want %+v %+v", got, *b, *e)
	}
}

func refusals(t *testing.T, s Store) {
	ctx := t.Context()
	wantKind(t, "end of what never began", s.End(ctx, ended("a")), tool.NotFound)
	must(t, s.Begin(ctx, begun("a")))
	wantKind(t, "second begin", s.Begin(ctx, begun("a")), tool.Conflict)
	must(t, s.End(ctx, ended("a")))
	second := ended("a")
	second.Outcome = audit.OK
	wantKind(t, "second end", s.End(ctx, second), tool.Conflict)
	if got := records(t, s, audit.Query{}); len(got) != 1 || got[0].Ended.Outcome != audit.Failed {
		t.Fatalf("a refused end changed the record: %+v", got)
	}
	must(t, s.Begin(ctx, begun("b"))) // a refusal leaves the store usable
}

func query(t *testing.T, s Store) {
	for i := range 5 {
		b := begun(fmt.Sprintf("r%d", i))
		b.Execution = fmt.Sprintf("x%d", i%2)
		b.Tool = fmt.Sprintf("up.t%d", i%3)
		must(t, s.Begin(t.Context(), b))
	}
	for _, tt := range []struct {
		q    audit.Query
		want string
	}{
		{audit.Query{}, "r4 r3 r2 r1 r0 "},
		{audit.Query{Limit: 2}, "r4 r3 "},
		{audit.Query{Limit: 2, Before: "r3"}, "r2 r1 "},
		{audit.Query{Execution: "x1"}, "r3 r1 "},
		{audit.Query{Tool: "up.t0"}, "r3 r0 "},
		{audit.Query{Tool: "up.t0", Execution: "x0"}, "r0 "},
		{audit.Query{Tool: "none"}, ""},
	} {
		var got string
		for _, r := range records(t, s, tt.q) {
			got += r.Begun.Record + " "
		}
		if got != tt.want {
			t.Errorf("Records(%+v) = %q, want %q", tt.q, got, tt.want)
		}
	}
}

func canceled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantKind(t, "begin after the end of ctx", s.Begin(ctx, begun("a")), tool.Canceled)
	if got := records(t, s, audit.Query{}); len(got) != 0 {
		t.Fatalf("recorded all the same: %+v", got)
	}
}

func closed(t *testing.T, s Store) {
	must(t, s.Begin(t.Context(), begun("a")))
	must(t, s.Close())
	wantKind(t, "begin after Close", s.Begin(t.Context(), begun("b")), tool.Unavailable)
	wantKind(t, "end after Close", s.End(t.Context(), ended("a")), tool.Unavailable)
}

func parallel(t *testing.T, s Store) {
	var wg sync.WaitGroup
	errs := make(chan error, 400)
	for i := range 200 {
		wg.Go(func() {
			b := begun(fmt.Sprintf("p%03d", i))
			b.Durable = i%2 == 0
			errs <- s.Begin(t.Context(), b)
			errs <- s.End(t.Context(), ended(b.Record))
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
	got := records(t, s, audit.Query{Limit: 1000})
	if len(got) != 200 {
		t.Fatalf("%d records, want 200", len(got))
	}
	for _, r := range got {
		if r.Ended.Record != r.Begun.Record {
			t.Fatalf("record %s has no end", r.Begun.Record)
		}
	}
}

func records(t *testing.T, s Store, q audit.Query) []audit.Record {
	t.Helper()
	r, err := s.Records(t.Context(), q)
	must(t, err)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, what string, err error, k tool.Kind) {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Kind != k {
		t.Errorf("%s: %v, want an error of kind %s", what, err, k)
	}
}
