// Package audittest is the conformance test suite for every audit.Store. It also provides one in
// memory.
package audittest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Store is a store under test: after Close, its methods must fail.
type Store interface {
	audit.Store
	io.Closer
}

// Run runs the suite. open returns an empty Store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) Store) {
	tests := []struct {
		name string
		test func(*testing.T, Store)
	}{
		{"RoundTrip", roundTrip},
		{"Refusals", testRefusals},
		{"Query", testQuery},
		{"Newest", testNewest},
		{"Time", testSpans},
		{"Canceled", testCanceled},
		{"Closed", testClosed},
		{"Tree", testTree},
		{"Checkpoint", testCheckpoint},
		{"Kept", testKept},
		{"Queued", testQueued},
		{"Parallel", testParallel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { s.Close() })
			tt.test(t, s)
		})
	}
}

// A leaf is a leaf as an audit.Log writes it, with only the members that the tests need.
type leaf struct {
	Execution string `json:"execution,omitempty"`
	Kind      string `json:"kind"`
	Outcome   string `json:"outcome,omitempty"`
	Part      string `json:"part"`
	Principal string `json:"principal,omitempty"`
	Record    string `json:"record"`
	Seq       int64  `json:"seq"`
	Time      string `json:"time"`
	Tool      string `json:"tool,omitempty"`
	Upstream  string `json:"upstream,omitempty"`
	V         int    `json:"v"`
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)

func (l leaf) makeAddition(t *testing.T) *audit.Addition {
	t.Helper()
	l.V, l.Time = 1, audit.FormatTime(epoch)
	if l.Kind == "" {
		l.Kind = "call"
	}
	raw, err := json.Marshal(l)
	mustSucceed(t, err)
	return &audit.Addition{Record: l.Record, Part: l.Part, Leaf: raw, Time: epoch, Durable: l.Part == audit.PartBegun}
}

func beginCall(t *testing.T, id string) *audit.Addition {
	return leaf{Record: id, Part: audit.PartBegun, Tool: "crm.update", Upstream: "crm", Principal: "local:ann",
		Execution: "x1"}.makeAddition(t)
}

func endCall(t *testing.T, id string) *audit.Addition {
	return leaf{Record: id, Part: audit.PartEnded, Outcome: "ok"}.makeAddition(t)
}

func addLeaf(t *testing.T, s Store, a *audit.Addition) int64 {
	t.Helper()
	mustSucceed(t, s.Append(t.Context(), a))
	return a.Seq
}

func roundTrip(t *testing.T, s Store) {
	b, e := beginCall(t, "a"), endCall(t, "a")
	if seq := addLeaf(t, s, b); seq != 0 {
		t.Fatalf("the first leaf is at %d", seq)
	}
	addLeaf(t, s, beginCall(t, "b"))
	got := readPairs(t, s, audit.Query{ID: "a"})
	want, _ := b.LeafAt(0)
	if len(got) != 1 || string(got[0].Begun.Data) != string(want) || got[0].Ended.Data != nil {
		t.Fatalf("after its begin: %+v", got)
	}
	if seq := addLeaf(t, s, e); seq != 2 {
		t.Fatalf("the third leaf is at %d", seq)
	}
	got = readPairs(t, s, audit.Query{ID: "a"})
	want, _ = e.LeafAt(2)
	if len(got) != 1 || got[0].Begun.Seq != 0 || got[0].Ended.Seq != 2 || string(got[0].Ended.Data) != string(want) {
		t.Fatalf("after its end: %+v", got)
	}
	if h := got[0].Ended.Hashes; len(h) != 1 || h[0] != tlog.RecordHash(want) {
		t.Errorf("the hashes of leaf 2 are %v", h)
	}
}

func testRefusals(t *testing.T, s Store) {
	wantKind(t, "end of what never began", mustRefuse(t, s, endCall(t, "a")), tool.NotFound)
	addLeaf(t, s, beginCall(t, "a"))
	wantKind(t, "second begin", mustRefuse(t, s, beginCall(t, "a")), tool.Conflict)
	addLeaf(t, s, endCall(t, "a"))
	wantKind(t, "second end", mustRefuse(t, s, endCall(t, "a")), tool.Conflict)
	event := leaf{Record: "e", Part: audit.PartEvent, Kind: "read", Outcome: "ok"}.makeAddition(t)
	addLeaf(t, s, event)
	wantKind(t, "second event", mustRefuse(t, s, event), tool.Conflict)
	wantKind(t, "begin of an event", mustRefuse(t, s, beginCall(t, "e")), tool.Conflict)
	wantKind(t, "end of an event", mustRefuse(t, s, endCall(t, "e")), tool.NotFound)
	if err := mustRefuse(t, s, &audit.Addition{Record: "x", Part: audit.PartBegun, Leaf: []byte(`{}`)}); err == nil {
		t.Error("a leaf without a place for its index was taken")
	}
	if seq := addLeaf(t, s, beginCall(t, "b")); seq != 3 { // refusals leave the store usable, and leave no gaps
		t.Errorf("the next leaf is at %d", seq)
	}
}

func mustRefuse(t *testing.T, s Store, a *audit.Addition) error {
	return s.Append(t.Context(), a)
}

func testQuery(t *testing.T, s Store) {
	for i := range 5 {
		id := fmt.Sprintf("r%d", i)
		addLeaf(t, s, leaf{
			Record: id, Part: audit.PartBegun, Execution: fmt.Sprintf("x%d", i%2), Tool: fmt.Sprintf("up.t%d", i%3),
			Upstream: "up", Principal: fmt.Sprintf("p%d", i/3),
		}.makeAddition(t))
		if i == 2 {
			addLeaf(t, s, leaf{Record: id, Part: audit.PartEnded, Outcome: "failed"}.makeAddition(t))
		}
	}
	addLeaf(t, s,
		leaf{Record: "r5", Part: audit.PartEvent, Kind: "read", Outcome: "ok", Principal: "p9"}.makeAddition(t))
	for _, tt := range []struct {
		q    audit.Query
		want string
	}{
		{audit.Query{}, "r5 r4 r3 r2 r1 r0 "},
		{audit.Query{Limit: 2}, "r5 r4 "},
		{audit.Query{Limit: 2, Before: "r3"}, "r2 r1 "},
		{audit.Query{Before: "r3"}, "r2 r1 r0 "},
		{audit.Query{Execution: "x1"}, "r3 r1 "},
		{audit.Query{Tool: "up.t0"}, "r3 r0 "},
		{audit.Query{Tool: "up.t0", Execution: "x0"}, "r0 "},
		{audit.Query{Tool: "none"}, ""},
		{audit.Query{Upstream: "up", Limit: 1}, "r4 "},
		{audit.Query{Principal: "p1"}, "r4 r3 "},
		{audit.Query{Kind: audit.KindRead}, "r5 "},
		{audit.Query{Kind: audit.KindCall, Limit: 1}, "r4 "},
		{audit.Query{Outcome: audit.Failed}, "r2 "},
		{audit.Query{Outcome: audit.OK}, "r5 "},
		{audit.Query{ID: "r1"}, "r1 "},
		{audit.Query{ID: "r9"}, ""},
	} {
		var got string
		for _, p := range readPairs(t, s, tt.q) {
			var l leaf
			mustSucceed(t, json.Unmarshal(p.Begun.Data, &l))
			got += l.Record + " "
		}
		if got != tt.want {
			t.Errorf("Records(%+v) = %q, want %q", tt.q, got, tt.want)
		}
	}
}

// testSpans queries records by time, including records from before and after a clock was set back.
func testSpans(t *testing.T, s Store) {
	clock := wallclock.At(epoch)
	l := audit.New(audit.Config{Store: s, Clock: clock})
	// at 0:00, 1:00, 2:00, 0:30, 2:30
	for _, step := range []time.Duration{0, time.Hour, time.Hour, -90 * time.Minute, 2 * time.Hour} {
		clock.Advance(step)
		_, err := l.Event(t.Context(), audit.Event{Kind: audit.KindRead})
		mustSucceed(t, err)
	}
	for _, tt := range []struct {
		since, until time.Duration
		want         int
	}{{0, 0, 5}, {time.Minute, 0, 4}, {0, time.Hour, 2}, {time.Hour, 2 * time.Hour, 1},
		{20 * time.Minute, 40 * time.Minute, 1}, {3 * time.Hour, 4 * time.Hour, 0}} {
		q := audit.Query{Since: epoch.Add(tt.since)}
		if tt.until > 0 {
			q.Until = epoch.Add(tt.until)
		}
		if got := readPairs(t, s, q); len(got) != tt.want {
			t.Errorf("from %v until %v: %d records, want %d", tt.since, tt.until, len(got), tt.want)
		}
	}
}

func testCanceled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantKind(t, "append after the end of ctx", s.Append(ctx, beginCall(t, "a")), tool.Canceled)
	wantKind(t, "view after the end of ctx", s.View(ctx, func(audit.View) error { return nil }), tool.Canceled)
	if got := readPairs(t, s, audit.Query{}); len(got) != 0 {
		t.Fatalf("recorded all the same: %+v", got)
	}
}

func testClosed(t *testing.T, s Store) {
	addLeaf(t, s, beginCall(t, "a"))
	mustSucceed(t, s.Close())
	wantKind(t, "begin after Close", mustRefuse(t, s, beginCall(t, "b")), tool.Unavailable)
	wantKind(t, "end after Close", mustRefuse(t, s, endCall(t, "a")), tool.Unavailable)
	wantKind(t, "checkpoint after Close", s.Checkpoint(t.Context(), func(proof.Head) (string, error) {
		return "", nil
	}), tool.Unavailable)
	wantKind(t, "view after Close", s.View(t.Context(), func(audit.View) error { return nil }), tool.Unavailable)
	_, err := s.Prune(t.Context(), epoch)
	wantKind(t, "prune after Close", err, tool.Unavailable)
}

// testNewest queries the newest events of kinds, while they are among the last leaves and long
// afterwards.
func testNewest(t *testing.T, s Store) {
	check := func(want map[audit.Kind]int64) {
		t.Helper()
		readView(t, s, func(v audit.View) {
			leaves, err := v.Newest("policy", "configuration", "none")
			mustSucceed(t, err)
			got := map[audit.Kind]int64{}
			for _, l := range leaves {
				var c leaf
				mustSucceed(t, json.Unmarshal(l.Data, &c))
				if c.Seq != l.Seq || c.Part != audit.PartEvent {
					t.Errorf("leaf %d is %s", l.Seq, l.Data)
				}
				got[audit.Kind(c.Kind)] = l.Seq
			}
			if !maps.Equal(got, want) {
				t.Errorf("the newest are %v, want %v", got, want)
			}
		})
	}
	event := func(kind string, n int) int64 {
		return addLeaf(t, s,
			leaf{Record: fmt.Sprintf("%s%03d", kind, n), Part: audit.PartEvent, Kind: kind,
				Outcome: "ok"}.makeAddition(t))
	}
	check(map[audit.Kind]int64{})
	want := map[audit.Kind]int64{"policy": event("policy", 1)}
	check(want)
	for i := range 300 {
		addLeaf(t, s,
			leaf{Record: fmt.Sprintf("r%03d", i), Part: audit.PartBegun, Tool: `"kind":"policy"`}.makeAddition(t))
		switch i {
		case 10:
			event("configuration", 1)
		case 20:
			want["configuration"] = event("configuration", 0) // a clock was set back
		}
	}
	check(want)
	want["policy"] = event("policy", 2)
	check(want)
}

// testTree compares the stored tree with the one that tlog computes from the leaves, at each size.
func testTree(t *testing.T, s Store) {
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	for i := range int64(70) {
		a := beginCall(t, fmt.Sprintf("t%02d", i))
		addLeaf(t, s, a)
		data, err := a.LeafAt(i)
		mustSucceed(t, err)
		more, err := tlog.StoredHashes(i, data, reader)
		mustSucceed(t, err)
		hashes = append(hashes, more...)
		want, err := tlog.TreeHash(i+1, reader)
		mustSucceed(t, err)
		readView(t, s, func(v audit.View) {
			h, err := v.Head()
			if err != nil || h.Size != i+1 || h.Root != want {
				t.Fatalf("after %d leaves: %+v, %v, want the root %v", i+1, h, err, want)
			}
		})
	}
	readView(t, s, func(v audit.View) {
		var all []int64
		for i := range hashes {
			all = append(all, int64(i))
		}
		got, err := v.ReadHashes(all)
		mustSucceed(t, err)
		for i, h := range got {
			if h != hashes[i] {
				t.Fatalf("stored hash %d differs", i)
			}
		}
		if _, err := v.ReadHashes([]int64{int64(len(hashes))}); err == nil {
			t.Error("a hash beyond the end was given")
		}
		n := int64(50)
		mustSucceed(t, v.Leaves(50, func(l audit.Leaf) error {
			if l.Seq != n || tlog.RecordHash(l.Data) != l.Hashes[0] {
				t.Errorf("leaf %d at %d", l.Seq, n)
			}
			n++
			return nil
		}))
		if n != 70 {
			t.Errorf("leaves up to %d", n)
		}
		stop := errors.New("stop")
		if err := v.Leaves(math.MinInt64, func(audit.Leaf) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("the error of f: %v", err)
		}
		mustSucceed(t, v.CheckIntegrity())
	})
}

func testCheckpoint(t *testing.T, s Store) {
	var heads []proof.Head
	for i := range 3 {
		mustSucceed(t, s.Checkpoint(t.Context(), func(h proof.Head) (string, error) {
			heads = append(heads, h)
			return fmt.Sprintf("checkpoint %d", i), nil
		}))
		addLeaf(t, s, beginCall(t, fmt.Sprintf("c%d", i)))
	}
	no := errors.New("no key")
	if err := s.Checkpoint(t.Context(), func(proof.Head) (string, error) { return "", no }); !errors.Is(err, no) {
		t.Errorf("the error of sign: %v", err)
	}
	empty, _ := tlog.TreeHash(0, nil)
	if heads[0] != (proof.Head{Root: empty}) || heads[1].Size != 1 || heads[2].Size != 2 ||
		heads[1].Root == heads[2].Root {
		t.Errorf("heads %+v", heads)
	}
	var got []string
	readView(t, s, func(v audit.View) {
		mustSucceed(t, v.Checkpoints(func(text string) error { got = append(got, text); return nil }))
	})
	if strings.Join(got, ",") != "checkpoint 0,checkpoint 1,checkpoint 2" {
		t.Errorf("checkpoints %q", got)
	}
	addLeaf(t, s, beginCall(t, "after"))
}

func testKept(t *testing.T, s Store) {
	put := func(id, digest, data string, at time.Time) {
		a := beginCall(t, id)
		a.Time, a.Keep = at, []retention.Kept{{Digest: digest, Data: []byte(data)}}
		addLeaf(t, s, a)
	}
	const day = 24 * time.Hour
	put("a", "d1", "one", epoch)
	put("b", "d2", "two", epoch)
	put("c", "d1", "one", epoch.Add(10*day)) // its newest record counts
	want := func(what, want string) {
		t.Helper()
		got := map[string]string{}
		readView(t, s, func(v audit.View) {
			mustSucceed(t,
				v.AllKept(func(digest string, data []byte, err error) error { got[digest] = string(data); return err }))
			for d, seq := range map[string]int64{"d1": 2, "d2": 1, "d3": 0} {
				one, err := v.LoadKept(seq, d)
				if err != nil || string(one) != got[d] {
					t.Errorf("%s: %s is %q, %v", what, d, one, err)
				}
			}
		})
		if s := fmt.Sprint(got); s != want {
			t.Errorf("%s: %s, want %s", what, s, want)
		}
	}
	want("kept", "map[d1:one d2:two]")
	readView(t, s, func(v audit.View) {
		has, err := v.HasKept([]retention.Key{{Seq: 0, Digest: "d1"}, {Seq: 1, Digest: "d2"}, {Seq: 1, Digest: "d3"},
			{Seq: 2, Digest: "d1"}})
		if err != nil || !slices.Equal(has, []bool{true, true, false, true}) {
			t.Errorf("there: %v, %v", has, err)
		}
		head, err := v.Head()
		mustSucceed(t, err)
		if sealed, err := v.SealedHead(); err != nil || sealed == nil || *sealed != head {
			t.Errorf("sealed: %v, %v; want %v", sealed, err, head)
		}
		for before, want := range map[time.Time]bool{epoch: false, epoch.Add(5 * day): true} {
			if n, err := v.CountOutdated(before); err != nil || (n > 0) != want {
				t.Errorf("outdated: %d, %v", n, err)
			}
		}
	})
	n, err := s.Prune(t.Context(), epoch.Add(5*day))
	if err != nil || n < 1 || n > 2 { // d1 is kept once, or once per record
		t.Errorf("pruned %d, %v", n, err)
	}
	want("after the first was pruned", "map[d1:one]")
	if len(readPairs(t, s, audit.Query{})) != 3 {
		t.Error("pruning took records")
	}
}

func testParallel(t *testing.T, s Store) {
	var wg sync.WaitGroup
	errs := make(chan error, 500)
	for i := range 200 {
		b, e := beginCall(t, fmt.Sprintf("p%03d", i)), endCall(t, fmt.Sprintf("p%03d", i))
		b.Durable = i%2 == 0
		wg.Go(func() {
			errs <- s.Append(t.Context(), b)
			if i%20 == 0 {
				errs <- s.Checkpoint(t.Context(), func(h proof.Head) (string, error) { return h.Root.String(), nil })
			}
			errs <- s.Append(t.Context(), e)
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		mustSucceed(t, err)
	}
	got := readPairs(t, s, audit.Query{Limit: 1000})
	if len(got) != 200 {
		t.Fatalf("%d records, want 200", len(got))
	}
	for _, p := range got {
		if p.Ended.Data == nil || p.Ended.Seq <= p.Begun.Seq {
			t.Fatalf("record at %d has its end at %d", p.Begun.Seq, p.Ended.Seq)
		}
	}
	readView(t, s, func(v audit.View) {
		n := int64(0)
		mustSucceed(t, v.Leaves(0, func(l audit.Leaf) error {
			var c leaf
			if err := json.Unmarshal(l.Data, &c); err != nil || c.Seq != n || l.Seq != n {
				t.Errorf("leaf %d says %d, stands at %d", n, c.Seq, l.Seq)
			}
			n++
			return nil
		}))
		if n != 400 {
			t.Errorf("%d leaves, want 400", n)
		}
	})
}

// testQueued adds leaves without waiting for them. They are visible to every reader, and refusals
// are reported.
func testQueued(t *testing.T, s Store) {
	told := make(chan error, 200)
	later := func(a *audit.Addition) {
		t.Helper()
		a.Failed = func(err error) { told <- err }
		if err := s.Append(t.Context(), a); err != nil {
			told <- err // a synchronous Store
		}
	}
	for i := range 100 {
		id := fmt.Sprintf("q%02d", i)
		addLeaf(t, s, beginCall(t, id))
		later(endCall(t, id))
		if got := readPairs(t, s, audit.Query{ID: id}); len(got) != 1 || got[0].Ended.Data == nil {
			t.Fatalf("the end of %s is not seen", id)
		}
	}
	for i := range 20 { // many at once, while the Store may already be writing some
		for n := range 10 {
			later(beginCall(t, fmt.Sprintf("s%02d.%d", i, n)))
		}
		if got := readPairs(t, s, audit.Query{Tool: "crm.update", Limit: 1000}); len(got) != 100+10*(i+1) {
			t.Fatalf("%d records are seen, want %d", len(got), 100+10*(i+1))
		}
	}
	later(endCall(t, "none"))
	readView(t, s, func(audit.View) {})
	wantKind(t, "an end of nothing", <-told, tool.NotFound)
	if len(told) > 0 {
		t.Errorf("<-told = %v, want len(told) <= 0", <-told)
	}
	mustSucceed(t, s.Close())
	later(endCall(t, "q00"))
	wantKind(t, "after Close", <-told, tool.Unavailable)
}

func readView(t *testing.T, s Store, f func(audit.View)) {
	t.Helper()
	mustSucceed(t, s.View(t.Context(), func(v audit.View) error { f(v); return nil }))
}

func readPairs(t *testing.T, s Store, q audit.Query) (out []audit.Pair) {
	t.Helper()
	readView(t, s, func(v audit.View) {
		var err error
		out, err = v.Records(q)
		mustSucceed(t, err)
	})
	return out
}

func mustSucceed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("err = %v, want err == nil", err)
	}
}

func wantKind(t *testing.T, what string, err error, k tool.Kind) {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Kind != k {
		t.Errorf("%s: %v, want an error of kind %s", what, err, k)
	}
}
