package hint_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/hint"
)

func is(b bool) *bool { return &b }

func named(name string, a tool.Annotations) *tool.Tool {
	return &tool.Tool{Upstream: "up", Name: name, Annotations: a}
}

var (
	write = tool.Annotations{}
	read  = tool.Annotations{ReadOnly: is(true)}
)

// see compares tools, after a round trip of the stored data.
func see(t *testing.T, s *hint.Sights, tools ...*tool.Tool) (*hint.Sights, hint.Verdict) {
	t.Helper()
	v := s.Compare(tools)
	data, err := s.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	s, err = hint.ParseSights(data)
	if err != nil {
		t.Fatalf("hint.ParseSights: %v", err)
	}
	return s, v
}

func none(t *testing.T) *hint.Sights {
	t.Helper()
	s, err := hint.ParseSights(nil)
	if err != nil {
		t.Fatalf("hint.ParseSights: %v", err)
	}
	return s
}

func TestWeaker(t *testing.T) {
	for name, c := range map[string]struct {
		first, then tool.Annotations
		changes     string // pending ones; empty: the new hints are accepted
	}{
		"read-only": {write, read,
			"readOnlyHint: true (was false), destructiveHint: false (was true), idempotentHint: true (was false)"},
		"read-only, said before": {tool.Annotations{ReadOnly: is(false)}, read,
			"readOnlyHint: true (was false), destructiveHint: false (was true), idempotentHint: true (was false)"},
		"destructive": {write, tool.Annotations{Destructive: is(false)},
			"destructiveHint: false (was true)"},
		"destructive, said before": {tool.Annotations{Destructive: is(true)},
			tool.Annotations{Destructive: is(false)}, "destructiveHint: false (was true)"},
		"idempotent": {write, tool.Annotations{Idempotent: is(true)},
			"idempotentHint: true (was false)"},
		"idempotent, said before": {tool.Annotations{Idempotent: is(false)},
			tool.Annotations{Idempotent: is(true)}, "idempotentHint: true (was false)"},
		"open world": {write, tool.Annotations{OpenWorld: is(false)},
			"openWorldHint: false (was true)"},
		"open world, said before": {tool.Annotations{OpenWorld: is(true)},
			tool.Annotations{OpenWorld: is(false)}, "openWorldHint: false (was true)"},
		"the defaults, said": {write, tool.Annotations{ReadOnly: is(false), Destructive: is(true),
			Idempotent: is(false), OpenWorld: is(true)}, ""},
		"the defaults, no longer said": {tool.Annotations{ReadOnly: is(false), Destructive: is(true),
			Idempotent: is(false), OpenWorld: is(true)}, write, ""},
		"hints that reads make void": {read,
			tool.Annotations{ReadOnly: is(true), Destructive: is(true), Idempotent: is(false)}, ""},
		"stricter": {read, write, ""},
		"stricter, all": {tool.Annotations{Destructive: is(false), Idempotent: is(true),
			OpenWorld: is(false)}, write, ""},
		"one stricter, another weaker": {tool.Annotations{Destructive: is(false)},
			tool.Annotations{OpenWorld: is(false)}, "openWorldHint: false (was true)"},
		"reads become a harmless write": {read, tool.Annotations{Destructive: is(false)}, ""},
		"a closed world becomes open":   {tool.Annotations{ReadOnly: is(true), OpenWorld: is(false)}, read, ""},
		"an open world becomes a private": {read, tool.Annotations{ReadOnly: is(true), OpenWorld: is(false)},
			"openWorldHint: false (was true)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := see(t, none(t), named("x", c.first))
			if len(v.Claims) > 0 || !v.Changed {
				t.Fatalf("at first sight: %+v", v)
			}
			s, v = see(t, s, named("x", c.then))
			var got string
			for i := range v.Claims {
				got = strings.Join(v.Claims[i].Claimed.Changes(v.Claims[i].Held), ", ")
			}
			if got != c.changes {
				t.Fatalf("%q waits, want %q", got, c.changes)
			}
			believed := hint.FactsOf(v.Tools[0].Annotations)
			if want := hint.FactsOf(c.first).Join(hint.FactsOf(c.then)); believed != want {
				t.Errorf("believes %04b, want %04b", believed, want)
			}
			if c.changes == "" {
				return
			}
			if !reflect.DeepEqual(v.Claims[0].Tool.Annotations, c.then) {
				t.Error("the claim is not what the server said")
			}
			if err := s.Accept(&v.Claims[0], v.Tools); err != nil {
				t.Fatalf("Accept: %v", err)
			}
			if _, v := see(t, s, named("x", c.then)); len(v.Claims) > 0 ||
				hint.FactsOf(v.Tools[0].Annotations) != hint.FactsOf(c.then) {
				t.Errorf("after it was accepted: %+v", v)
			}
		})
	}
}

// A server that changes a tool from a read to a write and back is not trusted the second time.
func TestBackAndForth(t *testing.T) {
	s, _ := see(t, none(t), named("x", read))
	s, _ = see(t, s, named("x", write))
	if _, v := see(t, s, named("x", read)); len(v.Claims) != 1 || v.Tools[0].Annotations.Reads() {
		t.Errorf("v = %+v, want len(v.Claims) == 1 && !v.Tools[0].Annotations.Reads()", v)
	}
}

func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		then  []string
		waits int
	}{
		"another spelling": {[]string{"dropTable"}, 1},
		"another case":     {[]string{"DROP_TABLE"}, 1},
		"both":             {[]string{"drop_table", "Drop-Table"}, 2},
		"another tool":     {[]string{"list_tables"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := see(t, none(t), named("drop_table", write))
			s, _ = see(t, s) // it is removed
			var tools []*tool.Tool
			for _, n := range c.then {
				tools = append(tools, named(n, read))
			}
			if _, v := see(t, s, tools...); len(v.Claims) != c.waits {
				t.Errorf("%d wait, want %d", len(v.Claims), c.waits)
			}
		})
	}
	// Two tools that exist from the start are two tools.
	if _, v := see(t, none(t), named("get_x", write), named("getX", read)); len(v.Claims) > 0 {
		t.Errorf("v.Claims = %+v, want len(v.Claims) <= 0", v.Claims)
	}
}

func TestClaimIsOfTheDefinition(t *testing.T) {
	s, _ := see(t, none(t), named("x", write))
	_, v := see(t, s, named("x", read))
	other := named("x", read)
	other.Description = "Deletes everything"
	_, w := see(t, s, other)
	if v.Claims[0].ID() == w.Claims[0].ID() || v.Claims[0].ID() == "" {
		t.Error("two definitions have one claim")
	}
}

func TestToldOnce(t *testing.T) {
	s, _ := see(t, none(t), named("x", write))
	told := 0
	for i := range 100 {
		var v hint.Verdict
		a := read
		if i%2 == 0 {
			a = tool.Annotations{OpenWorld: is(false)}
		}
		v = s.Compare([]*tool.Tool{named("x", a)})
		if s.MarkRecorded(&v.Claims[0]) {
			told++
		}
		s, _ = see(t, s)
	}
	if told != 2 {
		t.Errorf("told %d times of 2 claims", told)
	}
}

func TestMost(t *testing.T) {
	var tools []*tool.Tool
	for i := range hint.Most {
		tools = append(tools, named(fmt.Sprint("t", i), read))
	}
	s, v := see(t, none(t), tools...)
	if len(v.Claims) > 0 {
		t.Fatalf("%d wait", len(v.Claims))
	}
	more := []*tool.Tool{named("more", read)}
	s, v = see(t, s, more...)
	if len(v.Claims) != 1 || v.Tools[0].Annotations.Reads() || v.Changed {
		t.Fatalf("v = %+v, want len(v.Claims) == 1 && !v.Tools[0].Annotations.Reads() && !v.Changed", v)
	}
	if err := s.Accept(&v.Claims[0], append(more, tools[1:]...)); err != nil { // tools[0] no longer exists
		t.Fatalf("Accept: %v", err)
	}
	if _, v := see(t, s, more...); len(v.Claims) > 0 {
		t.Errorf("v = %+v, want len(v.Claims) <= 0", v)
	}
	if err := s.Accept(&hint.Claim{Tool: named("again", read)}, append(more, tools[1:]...)); err == nil {
		t.Error("more tools are remembered than may be")
	}
}

func TestRefuse(t *testing.T) {
	v := hint.RefuseAll([]*tool.Tool{named("x", read), named("y", write)})
	if len(v.Claims) != 1 || v.Tools[0].Annotations.Reads() || v.Claims[0].Tool.Name != "x" {
		t.Errorf("v = %+v, want len(v.Claims) == 1 && !v.Tools[0].Annotations.Reads() && "+
			"v.Claims[0].Tool.Name == \"x\"", v)
	}
	s := hint.DistrustAll([]*tool.Tool{named("x", read)})
	if _, v := see(t, s, named("x", read)); len(v.Claims) != 1 {
		t.Errorf("v = %+v, want len(v.Claims) == 1", v)
	}
	if _, err := hint.ParseSights([]byte("{")); err == nil {
		t.Error("garbage was read")
	}
}
