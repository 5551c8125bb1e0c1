package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/api"
)

// TestAlign checks that an alignment has each element of both lists once, in order, and pairs only
// equal elements. It pairs all of them if the lists are equal.
func TestAlign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 12)
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		if rapid.Bool().Draw(t, "same") {
			b = a
		}
		var left, right []string
		both := 0
		for _, p := range alignLists(len(a), len(b), func(i, j int) bool { return a[i] == b[j] }) {
			if p[0] >= 0 {
				left = append(left, a[p[0]])
			}
			if p[1] >= 0 {
				right = append(right, b[p[1]])
			}
			if p[0] >= 0 && p[1] >= 0 {
				if both++; a[p[0]] != b[p[1]] {
					t.Errorf("%q is paired with %q", a[p[0]], b[p[1]])
				}
			}
		}
		if !slices.Equal(left, a) || !slices.Equal(right, b) {
			t.Errorf("%v and %v became %v and %v", a, b, left, right)
		}
		if slices.Equal(a, b) && both != len(a) {
			t.Errorf("%v has %d pairs with itself", a, both)
		}
		if want := longest(a, b); both != want {
			t.Errorf("%v and %v have %d pairs, and could have %d", a, b, both, want)
		}
	})
}

// longest returns the length of a longest common subsequence, slowly.
func longest(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return 1 + longest(a[1:], b[1:])
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}

// TestAlignLong checks that lists too long for the table are paired at their ends.
func TestAlignLong(t *testing.T) {
	n := 5000
	pairs := alignLists(n, n, func(i, j int) bool { return i == j && i != n/2-3 && i != n/2+3 })
	both := 0
	for _, p := range pairs {
		if p[0] >= 0 && p[0] == p[1] {
			both++
		}
	}
	if both < n-10 {
		t.Errorf("both = %v, want both >= n-10", both)
	}
	if got := alignLists(n, n, func(i, j int) bool { return false }); len(got) != 2*n {
		t.Errorf("len(got) = %v, want 2*n", len(got))
	}
}

func detail(id, program, value string, calls ...api.ExecutionCall) *api.ExecutionDetail {
	d := &api.ExecutionDetail{Program: program, Value: json.RawMessage(value), Calls: calls}
	d.ID, d.State = id, api.StateDone
	return d
}

func TestCompare(t *testing.T) {
	one := api.ExecutionCall{Call: 1, Tool: "gh.read", Digest: "1", Result: "r", State: api.CallDone}
	two := api.ExecutionCall{Call: 2, Tool: "gh.write", Digest: "2", Result: "s", State: api.CallDone,
		Arguments: json.RawMessage(`{"a":1}`)}
	other := two
	other.Result = "t"
	failed := two
	failed.State, failed.Error = api.CallFailed, "no\nspace"
	a := detail("ex_a", "x\ny\nz", `{"n": 1}`, one, two)
	if d := compareExecutions(a, detail("ex_b", "x\ny\nz", `{"n":1}`, one, two)); !d.Same {
		t.Errorf("d = %+v, want d.Same", d)
	}
	for name, c := range map[string]struct {
		b    *api.ExecutionDetail
		want []string
	}{
		"program": {detail("ex_b", "x\nw\nz", `{"n": 1}`, one, two), []string{"program", "-y", "+w", " z"}},
		"value":   {detail("ex_b", "x\ny\nz", `{"n": 2}`, one, two), []string{"value", `-{"n":1}`, `+{"n":2}`}},
		"no call": {detail("ex_b", "x\ny\nz", `{"n": 1}`, one), []string{"calls", `-2 gh.write {"a":1}`}},
		"result": {detail("ex_b", "x\ny\nz", `{"n": 1}`, one, other),
			[]string{"-2 gh.write", "sha256 s", "sha256 t"}},
		"a failure": {detail("ex_b", "x\ny\nz", `{"n": 1}`, one, failed), []string{"done", "failed: no"}},
	} {
		d := compareExecutions(a, c.b)
		var text strings.Builder
		showDifference(&text, d)
		for _, w := range c.want {
			if d.Same || !strings.Contains(text.String(), w) {
				t.Errorf("%s: want %q in\n%s", name, w, &text)
			}
		}
	}
}

// TestTree checks that concurrent calls are grouped, and that no control characters reach the
// terminal.
func TestTree(t *testing.T) {
	start := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	at := func(n int, state string, begun, lasted int64) api.ExecutionCall {
		return api.ExecutionCall{Call: n, Tool: "gh.write\x1b[31m", State: state,
			Started: start.Add(time.Duration(begun) * time.Millisecond), MS: lasted,
			Arguments: json.RawMessage(`{"k":"` + strings.Repeat("x", 200) + `"}`)}
	}
	d := detail("ex_a", "p", "1", at(1, api.CallDone, 0, 10), at(2, api.CallDone, 12, 10),
		at(3, api.CallFailed, 13, 30), at(4, api.CallDone, 40, 5), at(5, api.CallDone, 50, 1),
		at(6, api.CallUnknown, 60, 0), at(7, api.CallNotMade, 61, 0))
	d.Started = start
	var b strings.Builder
	printTree(&b, d)
	got := b.String()
	for _, w := range []string{"├─ 1 gh.write", "├─ 3 together\n│  ├─ 2 gh.write", "│  └─ 4 gh.write", "├─ 5 gh.write",
		"└─ 2 together", "   └─ 7 gh.write", "+13 ms", "…"} {
		if !strings.Contains(got, w) {
			t.Errorf("want %q in\n%s", w, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf(`got = %q, want !strings.Contains(got, "\x1b")`, got)
	}
}

func TestMoments(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90m": now.Add(-90 * time.Minute), "7d": now.Add(-7 * 24 * time.Hour),
		"2026-01-31T09:00:00Z": time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC),
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
	} {
		if got, err := parseMoment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("text = %q, got = %v, err = %v, want err == nil && got.Equal(want)", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "9999999999d", "2026-13-01", "0d", "d"} {
		if got, err := parseMoment(text, now); err == nil {
			t.Errorf("text = %q, got = %v, want err != nil", text, got)
		}
	}
}
