// Package approvaltest is the suite that every approval.Store must pass.
package approvaltest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Store is a store under test. After Close, its methods must fail.
type Store interface {
	approval.Store
	io.Closer
}

// Run runs the suite. open returns an empty Store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"RoundTrip": roundTrip, "OneStands": oneStands, "Moves": moves, "List": list, "Parallel": parallel,
		"Limit": testLimit, "LimitParallel": testLimitParallel, "Queries": testQueries, "Closed": testClosed,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { s.Close() })
			test(t, s)
		})
	}
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)

func request(id, subject string) *approval.Request {
	return &approval.Request{
		ID: id, Subject: subject, Digest: "d" + subject, Execution: "ex_1", Call: "c1", Tool: "crm.update",
		Arguments: []byte(`{"n": 9007199254740993}`),
		Principal: "key:ci", Person: "ann", Agent: "ci", Client: "agent/1", Program: "p", Policy: "ask", Version: "v1",
		Reason: "it writes",
		Labels: []string{"pii"}, Approvers: []string{"leads"}, Created: epoch, Expires: epoch.Add(time.Hour),
		State: approval.Pending,
	}
}

func add(t *testing.T, s Store, r *approval.Request) {
	t.Helper()
	got, err := s.Open(t.Context(), r)
	if err != nil || got.ID != r.ID {
		t.Fatalf("opened %+v, %v", got, err)
	}
}

func roundTrip(t *testing.T, s Store) {
	want := request("apr_1", "ex_1/c1")
	add(t, s, want)
	got, err := s.Get(t.Context(), "apr_1")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if string(got.Arguments) != string(want.Arguments) || got.Reason != want.Reason ||
		!got.Expires.Equal(want.Expires) || got.State != approval.Pending ||
		!slices.Equal(got.Approvers, want.Approvers) || !slices.Equal(got.Labels, want.Labels) ||
		got.Digest != want.Digest || got.Person != "ann" {
		t.Errorf("got %+v", got)
	}
	if got, err := s.Get(t.Context(), "apr_2"); got != nil || err != nil {
		t.Errorf("what is not there: %+v, %v", got, err)
	}
}

func oneStands(t *testing.T, s Store) {
	add(t, s, request("apr_1", "ex_1/c1"))
	again := func(want string) {
		t.Helper()
		r := request("apr_"+want+"x", "ex_1/c1")
		if want != "" {
			r.ID = "apr_other"
		}
		got, err := s.Open(t.Context(), r)
		if err != nil || got.ID != "apr_1" && want != "" {
			t.Fatalf("opened %+v, %v, want %s", got, err, want)
		}
	}
	again("apr_1")
	move(t, s, "apr_1", approval.Pending, approval.Approved, true)
	again("apr_1")
	move(t, s, "apr_1", approval.Approved, approval.Made, true)
	again("apr_1") // since it is a call of an execution
	denied := request("apr_d", "ex_1/c2")
	add(t, s, denied)
	move(t, s, "apr_d", approval.Pending, approval.Denied, true)
	next := *denied
	next.ID = "apr_e"
	if got, err := s.Open(t.Context(), &next); err != nil || got.ID != "apr_d" || got.State != approval.Denied {
		t.Errorf("a denial of an execution's call is gone: %+v, %v", got, err)
	}
	outside := request("apr_2", "call/d")
	outside.Execution = ""
	add(t, s, outside)
	move(t, s, "apr_2", approval.Pending, approval.Approved, true)
	move(t, s, "apr_2", approval.Approved, approval.Made, true)
	next = *outside
	next.ID = "apr_3"
	add(t, s, &next) // the first is used up
	move(t, s, "apr_3", approval.Pending, approval.Denied, true)
	next.ID = "apr_4"
	add(t, s, &next)
}

func move(t *testing.T, s Store, id string, from, to approval.State, want bool) {
	t.Helper()
	moved, err := s.Move(t.Context(), id, from, to, approval.Decision{Decider: "local:bob", Time: epoch, Note: "fine"})
	if err != nil || moved != want {
		t.Fatalf("moved %v, %v, want %t", moved, err, want)
	}
}

func moves(t *testing.T, s Store) {
	add(t, s, request("apr_1", "a"))
	move(t, s, "apr_1", approval.Approved, approval.Made, false)
	move(t, s, "apr_1", approval.Pending, approval.Approved, true)
	move(t, s, "apr_1", approval.Pending, approval.Denied, false)
	move(t, s, "apr_9", approval.Pending, approval.Denied, false)
	if moved, err := s.Move(t.Context(), "apr_1", approval.Approved, approval.Made, approval.Decision{}); !moved ||
		err != nil {
		t.Fatalf("moved = %v, err = %v, want moved && err == nil", moved, err)
	}
	got, err := s.Get(t.Context(), "apr_1")
	if err != nil || got.State != approval.Made || got.Decider != "local:bob" || got.Note != "fine" ||
		!got.Decided.Equal(epoch) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func list(t *testing.T, s Store) {
	for _, id := range []string{"1", "2", "3", "4"} {
		add(t, s, request("apr_"+id, id))
	}
	other := request("apr_5", "5")
	other.Execution = "ex_2"
	other.Arguments = []byte(`"` + strings.Repeat("x", approval.ListedArguments) + `"`)
	add(t, s, other)
	move(t, s, "apr_2", approval.Pending, approval.Denied, true)
	for _, tt := range []struct {
		q    approval.Query
		want string
	}{
		{approval.Query{}, "54321"},
		{approval.Query{States: []approval.State{approval.Pending}}, "5431"},
		{approval.Query{States: []approval.State{approval.Denied, approval.Made}}, "2"},
		{approval.Query{Execution: "ex_1", Before: "apr_4", Limit: 2}, "32"},
	} {
		all, err := s.List(t.Context(), tt.q)
		got := ""
		for _, r := range all {
			got += r.ID[len("apr_"):]
			if (r.Arguments == nil) != (r.ID == "apr_5") || r.Tool == "" {
				t.Errorf("listed %+v", r)
			}
		}
		if got != tt.want || err != nil {
			t.Errorf("%+v: %s, %v, want %s", tt.q, got, err, tt.want)
		}
	}
}

// parallel checks that of many simultaneous decisions exactly one succeeds.
func parallel(t *testing.T, s Store) {
	add(t, s, request("apr_1", "a"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 16 {
		to := approval.Approved
		if i%2 == 0 {
			to = approval.Denied
		}
		wg.Go(func() {
			moved, err := s.Move(context.Background(), "apr_1", approval.Pending, to,
				approval.Decision{Decider: "x", Time: epoch})
			if err != nil {
				t.Errorf("Move: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if moved {
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d decisions, want 1", won)
	}
}

// outside returns a request of a call from outside programs, that expires after a time.
func outside(id string, expires time.Duration) *approval.Request {
	r := request("apr_"+id, "call/"+id)
	r.Execution, r.Expires = "", epoch.Add(expires)
	return r
}

// testLimit checks that a principal's pending requests are counted exactly: not those of others, of
// programs, expired or decided ones, whatever is newer.
func testLimit(t *testing.T, s Store) {
	add(t, s, request("apr_program", "ex_1/c1"))
	add(t, s, outside("over", 0))
	add(t, s, outside("approved", time.Hour))
	move(t, s, "apr_approved", approval.Pending, approval.Approved, true)
	for i := range approval.MaxWaiting {
		add(t, s, outside(fmt.Sprint(i), time.Hour))
		other := outside(fmt.Sprint("other", i), time.Hour)
		other.Principal = fmt.Sprint("key:", i/50)
		add(t, s, other)
	}
	isOver := func(r *approval.Request) {
		t.Helper()
		if got, err := s.Open(t.Context(), r); err == nil || tool.AsError(err).Kind != tool.Limit {
			t.Errorf("opened %+v, %v, want an error of kind %s", got, err, tool.Limit)
		}
	}
	isOver(outside("more", time.Hour))
	again := outside("more", time.Hour)
	again.Subject = "call/7"
	if got, err := s.Open(t.Context(), again); err != nil || got.ID != "apr_7" {
		t.Errorf("the same call again: %+v, %v, want apr_7", got, err)
	}
	add(t, s, request("apr_program2", "ex_1/c2"))
	move(t, s, "apr_7", approval.Pending, approval.Denied, true)
	add(t, s, outside("next", time.Hour))
	isOver(outside("more", time.Hour))
	later := outside("later", 2*time.Hour)
	later.Created = epoch.Add(time.Hour)
	add(t, s, later)
}

// testLimitParallel checks that simultaneous requests don't exceed the limit.
func testLimitParallel(t *testing.T, s Store) {
	var wg sync.WaitGroup
	for i := range approval.MaxWaiting + 28 {
		wg.Go(func() {
			_, err := s.Open(context.Background(), outside(fmt.Sprint(i), time.Hour))
			if err != nil && tool.AsError(err).Kind != tool.Limit {
				t.Errorf("Open: %v", err)
			}
		})
	}
	wg.Wait()
	all, err := s.List(t.Context(), approval.Query{Limit: 1000})
	if err != nil || len(all) != approval.MaxWaiting {
		t.Errorf("%d are pending, %v, want %d", len(all), err, approval.MaxWaiting)
	}
}

// testQueries checks the queries for requests that are over, and for those of programs.
func testQueries(t *testing.T, s Store) {
	add(t, s, request("apr_program", "ex_1/c1"))
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		add(t, s, outside(id, map[string]time.Duration{"4": time.Hour + time.Microsecond}[id]+time.Hour))
	}
	move(t, s, "apr_2", approval.Pending, approval.Approved, true)
	move(t, s, "apr_3", approval.Pending, approval.Denied, true)
	for _, tt := range []struct {
		q    approval.Query
		want []string
	}{
		{approval.Query{Lapsed: epoch.Add(time.Hour)}, []string{"apr_5", "apr_2", "apr_1"}},
		{approval.Query{Lapsed: epoch.Add(time.Hour), Limit: 2}, []string{"apr_5", "apr_2"}},
		{approval.Query{Lapsed: epoch.Add(time.Hour), Before: "apr_2"}, []string{"apr_1"}},
		{approval.Query{Lapsed: epoch.Add(time.Hour - time.Microsecond)}, nil},
		{approval.Query{Programs: true}, []string{"apr_program"}},
		{approval.Query{Subject: "ex_1/c1", Execution: "ex_1"}, []string{"apr_program"}},
		{approval.Query{Subject: "ex_1/c2", Execution: "ex_1"}, nil},
	} {
		all, err := s.List(t.Context(), tt.q)
		var got []string
		for _, r := range all {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, %v, want %q", tt.q, got, err, tt.want)
		}
	}
}

func testClosed(t *testing.T, s Store) {
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := s.Open(t.Context(), request("apr_1", "a")); err == nil {
		t.Error("a closed store took a request")
	}
}
