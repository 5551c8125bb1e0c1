package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

func write(path, args string) plan.Write {
	return plan.Write{Tool: path, Arguments: json.RawMessage(args), Definition: "d"}
}

func TestSetTakesEachOnce(t *testing.T) {
	s := plan.NewSet(&plan.Plan{Policies: "v", Writes: []plan.Write{write("crm.note", `{"id": 1, "text": "a"}`),
		write("crm.note", `{"text":"a","id":1}`), write("crm.drop", `{}`)}})
	// the same call: the approved arguments are returned
	for i, want := range []string{`{"id": 1, "text": "a"}`, `{"text":"a","id":1}`} {
		got, err := s.Take("crm.note", json.RawMessage(`{"id":1,"text":"a"}`), "d", "v")
		if err != nil || string(got) != want {
			t.Errorf("i = %d, got = %s, err = %v, want err == nil && string(got) == want", i, got, err)
		}
	}
	for _, c := range []struct{ path, args, definition, policies, says string }{
		{"crm.note", `{"id":1,"text":"a"}`, "d", "v", "or was made already"},
		{"crm.note", `{"id":2,"text":"a"}`, "d", "v", `The plan has crm.note {"id": 1, "text": "a"}`},
		{"crm.add", `{}`, "d", "v", "no call of that tool"},
		{"crm.drop", `{}`, "other", "v", "the tool has changed"},
		{"crm.drop", `{}`, "d", "w", "the policies have changed"},
	} {
		_, err := s.Take(c.path, json.RawMessage(c.args), c.definition, c.policies)
		if e := tool.AsError(err); e == nil || e.Kind != tool.Denied || !strings.Contains(e.Msg, c.says) {
			t.Errorf("c = %+v, err = %v, want e != nil && e.Kind == tool.Denied && "+
				"strings.Contains(e.Msg, c.says)", c, err)
		}
	}
	if s.Left() != 1 {
		t.Errorf("%d are left", s.Left())
	}
	s.Return("crm.note", json.RawMessage(`{"id":1,"text":"a"}`)) // it was not sent
	if _, err := s.Take("crm.note", json.RawMessage(`{"id":1,"text":"a"}`), "d", "v"); err != nil {
		t.Errorf("Take: %v", err)
	}
	s.Done("crm.drop", json.RawMessage(`{}`)) // an earlier process made it
	if _, err := s.Take("crm.drop", json.RawMessage(`{}`), "d", "v"); err == nil || s.Left() != 0 {
		t.Errorf("%d are left, %v", s.Left(), err)
	}
}

// Concurrent calls of Take never take a call more often than the plan contains it.
func TestSetIsNeverMoreThanThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &plan.Plan{}
		has := map[string]int{}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 4), 1, 12).Draw(t, "plan") {
			args := fmt.Sprintf(`{"n":%d}`, n)
			has[args]++
			p.Writes = append(p.Writes, write("crm.note", args))
		}
		s := plan.NewSet(p)
		var mu sync.Mutex
		var wg sync.WaitGroup
		took := map[string]int{}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 30).Draw(t, "calls") {
			args := fmt.Sprintf(`{"n":%d}`, n)
			wg.Go(func() {
				if _, err := s.Take("crm.note", json.RawMessage(args), "d", ""); err == nil {
					mu.Lock()
					took[args]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for args, n := range took {
			if n > has[args] {
				t.Fatalf("%s was taken %d times, and the plan has it %d times", args, n, has[args])
			}
		}
	})
}

func TestParse(t *testing.T) {
	p := &plan.Plan{Session: "work", State: "ses_1@2", Policies: "v",
		Writes: []plan.Write{write("crm.note", `{"id":9007199254740993}`)}}
	raw, err := p.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	back, err := plan.Parse(raw)
	if err != nil {
		t.Fatalf("plan.Parse: %v", err)
	}
	if again, err := back.Encode(); err != nil || string(again) != string(raw) {
		t.Errorf("raw = %s, again = %s, err = %v, want err == nil && string(again) == string(raw)", raw, again, err)
	}
	for _, text := range []string{``, `null`, `{}`, `{"writes":[]}`, `{"writes":[{"tool":"a.b"}],"more":1}`, `[]`} {
		if _, err := plan.Parse(json.RawMessage(text)); err == nil {
			t.Errorf("%s is read as a plan", text)
		}
	}
	text := (&plan.Plan{Writes: []plan.Write{{Tool: "a.b", Arguments: json.RawMessage(`{}`), Simulated: true},
		write("a.c", `{}`), write("a.d", `{}`)}}).Text(2)
	if !strings.Contains(text, "1. a.b {}") || !strings.Contains(text, "simulated") ||
		!strings.Contains(text, "and 1 more") || strings.Contains(text, "a.d") {
		t.Errorf("text = %v", text)
	}
}

func TestSimulate(t *testing.T) {
	typed := &tool.Tool{Upstream: "crm", Name: "add",
		OutputSchema: json.RawMessage(`{"type":"object","required":["id","name","kind","at","list"],"properties":{
		"id":{"type":"integer"},"name":{"type":"string"},"kind":{"enum":["a","b"]},"at":{"type":"string","format":"date-time"},"list":{"type":"array","minItems":2,"items":{"type":"integer","maximum":10}}}}`)}
	r := plan.Simulate(typed, 3)
	var v struct {
		ID   int64
		Name string
		Kind string
		At   string
		List []int
	}
	if err := json.Unmarshal(r.Structured, &v); err != nil || r.IsError || !r.Simulated ||
		(v.Kind != "a" && v.Kind != "b") || strings.Contains(v.At, "simulated") || len(v.List) < 2 || v.List[0] > 10 {
		t.Errorf("r.Structured = %s, err = %v", r.Structured, err)
	}
	if again := plan.Simulate(typed, 3); string(again.Raw) != string(r.Raw) {
		t.Errorf("%s, and then %s", r.Raw, again.Raw)
	}
	if other := plan.Simulate(typed, 4); string(other.Raw) == string(r.Raw) {
		t.Error("two calls have the same answer")
	}
	for _, args := range []string{fmt.Sprintf(`{"id":%d}`, v.ID), fmt.Sprintf(`{"to":"dear %s"}`, v.Name)} {
		if !plan.Marked(json.RawMessage(args)) {
			t.Errorf("%s is not recognized", args)
		}
	}
	for _, args := range []string{`{"id":12345}`, `{"text":"a simulated flight"}`, `{}`} {
		if plan.Marked(json.RawMessage(args)) {
			t.Errorf("%s is taken for simulated", args)
		}
	}
	for _, schema := range []string{``, `{"type":"array"}`,
		`{"type":"object","required":["x"],"properties":{"x":false}}`, `no JSON`} {
		r := plan.Simulate(&tool.Tool{Upstream: "crm", Name: "add", OutputSchema: json.RawMessage(schema)}, 0)
		if len(r.Content) != 1 || r.Structured != nil || !plan.Marked(r.Raw) {
			t.Errorf("schema = %s, r.Raw = %s, want len(r.Content) == 1 && r.Structured == nil && "+
				"plan.Marked(r.Raw)", schema, r.Raw)
		}
	}
}
