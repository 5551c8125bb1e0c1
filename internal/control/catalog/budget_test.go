package catalog_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// union returns a schema whose items match one of n branches. In branch, %d stands for the branch's
// number.
func union(n int, branch string) string {
	var all []string
	for i := range n {
		all = append(all, strings.ReplaceAll(branch, "%d", fmt.Sprint(i)))
	}
	return `{"type":"object","properties":{"items":{"type":"array","items":{"anyOf":[` +
		strings.Join(all, ",") + `]}}}}`
}

// list returns arguments with n copies of item.
func list(n int, item string) json.RawMessage {
	return json.RawMessage(`{"items":[` + strings.Repeat(item+",", n-1) + item + `]}`)
}

var branches = map[string]struct{ branch, match, none string }{
	"const":  {`{"const":"c%d"}`, `"c299"`, `"x"`},
	"enum":   {`{"enum":["c%d","d%d"]}`, `"d299"`, `"x"`},
	"number": {`{"enum":[%d.5,-%d.5]}`, `-299.5`, `1000`},
	"discriminated": {`{"type":"object","required":["kind"],"properties":{"kind":{"const":"k%d"},` +
		`"v":{"type":"string"}}}`, `{"kind":"k299","v":"x"}`, `{"kind":"x"}`},
	"required":   {`{"type":"object","required":["k%d"]}`, `{"k299":1}`, `{"x":1}`},
	"members":    {`{"additionalProperties":{"maximum":%d}}`, `{"a":299,"b":299}`, `{"a":1000}`},
	"pattern":    {`{"type":"string","pattern":"^c%d$"}`, `"c299"`, `"x"`},
	"referenced": {`{"allOf":[{"properties":{"a":{"const":%d}}}]}`, `{"a":299}`, `{"a":1000}`},
}

// TestLargeUnions checks that a validation stays within its budget, whatever the branches of a
// union.
func TestLargeUnions(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for name, b := range branches {
		t.Run(name, func(t *testing.T) {
			e := entry(t, union(300, b.branch))
			for _, item := range []string{b.match, b.none} {
				if err := e.Validate(list(2, item)); item == b.match && err != nil ||
					item == b.none && kindOf(err) != tool.Invalid {
					t.Errorf("two of %s: %v", item, err)
				}
				args := list(20_000, item)
				err := e.Validate(args)
				if item == b.match {
					if kindOf(err) != tool.Limit || !tool.AsError(err).Unsent ||
						!strings.Contains(err.Error(), "pass fewer or smaller values at a time") {
						t.Errorf("20,000 of %s, of which each takes 300 branches: %.300v", item, err)
					}
				} else if kindOf(err) != tool.Invalid {
					t.Errorf("20,000 of %s, the first of which is wrong: %.300v", item, err)
				}
				// Decoding the objects needs about 15 MB. Without a limit, the errors of the
				// branches took 450 MB.
				if got := allocated(func() { _ = e.Validate(args) }); got > 128<<20 {
					t.Errorf("20,000 of %s: %d MB were allocated", item, got>>20)
				}
			}
		})
	}
}

// TestDiscriminationIsCheap checks that branches of a union that differ in a constant are
// distinguished without allocations.
func TestDiscriminationIsCheap(t *testing.T) {
	for _, name := range []string{"const", "enum", "discriminated", "required"} {
		few, many := entry(t, union(10, strings.ReplaceAll(branches[name].branch, "%d", "1"))),
			entry(t, union(300, strings.ReplaceAll(branches[name].branch, "%d", "1")))
		args := list(100, strings.NewReplacer("299", "1").Replace(branches[name].match))
		if err := many.Validate(args); err != nil {
			t.Fatalf("Validate: %v", err)
		}
		bad := entry(t, union(300, branches[name].branch))
		good := list(100, branches[name].match)
		if err := bad.Validate(good); err != nil {
			t.Fatalf("Validate: %v", err)
		}
		a := testing.AllocsPerRun(5, func() { _ = few.Validate(args) })
		b := testing.AllocsPerRun(5, func() { _ = bad.Validate(good) })
		if b > a+100 {
			t.Errorf("%s: %.0f allocations when the last of 300 branches matches, %.0f when the first of 10 does", name,
				b, a)
		}
	}
}

// TestConcurrentValidations checks that two concurrent validations with one schema have separate
// budgets.
func TestConcurrentValidations(t *testing.T) {
	e := entry(t, union(40, branches["discriminated"].branch))
	args := list(1000, strings.ReplaceAll(branches["discriminated"].match, "299", "39"))
	errs := make(chan error)
	for range 8 {
		go func() { errs <- e.Validate(args) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	}
}

// TestManyValues checks that the number of values in arguments is limited, however small they are.
func TestManyValues(t *testing.T) {
	e := entry(t, `{"type":"object"}`)
	if err := e.Validate(list(200_000, "1")); err != nil {
		t.Errorf("Validate: %v", err)
	}
	if err := e.Validate(list(1_000_000, "1")); kindOf(err) != tool.Invalid ||
		!strings.Contains(err.Error(), "too many values: pass fewer at a time") {
		t.Errorf("a million numbers in a list: %.300v", err)
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

func BenchmarkLargeUnion(b *testing.B) {
	for _, name := range []string{"const", "discriminated", "members"} {
		for _, item := range []string{branches[name].match, branches[name].none} {
			b.Run(fmt.Sprintf("%s/match=%t", name, item == branches[name].match), func(b *testing.B) {
				e := entry(b, union(300, branches[name].branch))
				args := list(20_000, item)
				b.ReportAllocs()
				for b.Loop() {
					_ = e.Validate(args)
				}
			})
		}
	}
}

// The cost of matching a pattern counts: its length times the length of the text.
func TestLargePatterns(t *testing.T) {
	e := entry(t, `{"type":"object","properties":{
		"p":{"pattern":"(?:a[ab]{1,500}c){1,2}"},
		"q":{"patternProperties":{"(?:a[ab]{1,500}c){1,2}":{}}},
		"r":{"pattern":"^[ab]*$"}}}`)
	long := strings.Repeat("ab", 250_000)
	for args, limited := range map[string]bool{
		`{"p":"` + long + `"}`:                  true,
		`{"q":{"` + long + `":1}}`:              true,
		`{"r":"` + long + `"}`:                  false,
		`{"p":"` + long[:20_000] + `c"}`:        false,
		`{"q":{"` + long[:20_000] + `c":true}}`: false,
	} {
		err := e.Validate(json.RawMessage(args))
		if limited && kindOf(err) != tool.Limit || !limited && err != nil {
			t.Errorf("%.20s... of %d bytes: %v, limited: %t", args, len(args), err, limited)
		}
	}
}
