// Package plan holds what a program would write before it does.
//
// A program that is planned runs with its reads live; calls that may write are not sent but noted, and answered with a value made
// of the tool's output schema (Simulate). What was noted is a Plan: its JSON is what a person is shown and approves, byte for byte. The program
// then runs once more, and may make exactly the calls of the plan, each once: a Set knows which are left.
package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/typegen"
)

// A Plan is all that a program would write, in the order in which it would.
type Plan struct {
	Session  string  `json:"session,omitempty"`  // that the program runs in
	State    string  `json:"state,omitempty"`    // which session that is, and how often it had changed
	Policies string  `json:"policies,omitempty"` // the version of the policies that decided
	Writes   []Write `json:"writes"`
}

// A Write is one call of a plan.
type Write struct {
	Tool       string          `json:"tool"` // exact path
	Arguments  json.RawMessage `json:"arguments"`
	Simulated  bool            `json:"simulated,omitempty"` // its arguments hold what was simulated: the real answer will differ, and the call be refused
	Definition string          `json:"definition"`          // digest of what the tool was said to do
}

// Parse reads what Encode wrote.
func Parse(raw json.RawMessage) (*Plan, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	p := &Plan{}
	if err := d.Decode(p); err != nil || len(p.Writes) == 0 {
		return nil, tool.Errorf(tool.Invalid, "this is no plan: %w", err)
	}
	return p, nil
}

// Encode writes the plan.
func (p *Plan) Encode() (json.RawMessage, error) { return tool.Marshal(p) }

// Definition is that of the tool which a request for a plan's approval names. Carrying a plan out twice is doing it once.
func Definition() *tool.Tool {
	yes, no := true, false
	upstream, name, _ := strings.Cut(tool.PlanPath, ".")
	return &tool.Tool{
		Upstream: upstream, Name: name, Title: "Carry out a plan", Description: "Runs a program again that was planned. It may make the calls of the plan, each once, and no others that write.",
		InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: tool.Annotations{ReadOnly: &no, Idempotent: &yes},
	}
}

// Simulate gives what the n-th call of a program, from 0, is answered with while it is planned. Texts and whole numbers in it are such that
// Marked recognizes them, where the tool's schema leaves room for that.
func Simulate(t *tool.Tool, n int) *tool.Result {
	r := simulated(t, n)
	r.Simulated = true
	return r
}

func simulated(t *tool.Tool, n int) *tool.Result {
	if len(t.OutputSchema) > 0 {
		if v, err := typegen.Simulated(t.OutputSchema, n); err == nil && len(v) > 0 && v[0] == '{' {
			if r, err := structured(v); err == nil {
				return r
			}
		}
	}
	return tool.Text(false, fmt.Sprintf("simulated-%d-0: %s was not called, since the program is being planned", n+1, t.Path()))
}

func structured(v json.RawMessage) (*tool.Result, error) {
	raw, err := tool.Marshal(map[string]any{"content": []any{tool.TextBlock{Type: "text", Text: string(v)}}, "structuredContent": v})
	if err != nil {
		return nil, err
	}
	return tool.ParseResult(raw)
}

// marks matches what typegen.Simulated writes into values.
var marks = lazily.Regexp(`simulated-[0-9]+-[0-9]+|\b9700[0-9]{8}\b`)

// Marked reports whether arguments hold something of a simulated answer.
func Marked(args json.RawMessage) bool { return marks().Match(args) }

// A Set is what is left of a plan that was approved. It is safe for concurrent use.
type Set struct {
	policies string

	mu   sync.Mutex
	left map[string][]Write // by the digest of tool and arguments
	of   map[string][]Write // what is left and what isn't, by tool
}

// NewSet makes the Set of a plan of which nothing is done yet.
func NewSet(p *Plan) *Set {
	s := &Set{policies: p.Policies, left: map[string][]Write{}, of: map[string][]Write{}}
	for _, w := range p.Writes {
		d := journal.DigestOf(w.Tool, w.Arguments)
		s.left[d] = append(s.left[d], w)
		s.of[w.Tool] = append(s.of[w.Tool], w)
	}
	return s
}

// Take takes a call out of the plan, and gives its arguments as they were approved. It is an error of kind Denied where the plan has no such call
// left, or where the tool's definition or the policies are not those that it was approved with; nothing is taken then.
func (s *Set) Take(path string, args json.RawMessage, definition, policies string) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := journal.DigestOf(path, args)
	all := s.left[d]
	switch {
	case len(all) == 0 && len(s.of[path]) == 0:
		return nil, tool.Errorf(tool.Denied, "%s %s is not in the plan that was approved, which has no call of that tool: it was not sent", path, prose.Cut(string(args), maxShort))
	case len(all) == 0:
		return nil, tool.Errorf(tool.Denied, "%s %s is not in the plan that was approved, or was made already: it was not sent. The plan has %s. What depends on the answer of an earlier write can't be planned with it: plan that in another program",
			path, prose.Cut(string(args), maxShort), s.named(path))
	case policies != s.policies:
		return nil, tool.Errorf(tool.Denied, "%s was not sent: the policies have changed since the plan was approved: plan what is left anew", path)
	case definition != all[0].Definition:
		return nil, tool.Errorf(tool.Denied, "%s was not sent: the tool has changed since the plan was approved, and may do something else: plan what is left anew", path)
	}
	s.left[d] = all[1:]
	return all[0].Arguments, nil
}

// Done takes a call out that was made before this process began.
func (s *Set) Done(path string, args json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := journal.DigestOf(path, args); len(s.left[d]) > 0 {
		s.left[d] = s.left[d][1:]
	}
}

// Return puts a call back that was taken, and surely not sent.
func (s *Set) Return(path string, args json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := journal.DigestOf(path, args)
	for _, w := range s.of[path] {
		if journal.DigestOf(w.Tool, w.Arguments) == d {
			s.left[d] = append(s.left[d], w)
			return
		}
	}
}

// Left is how many calls of the plan were not taken.
func (s *Set) Left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.left {
		n += len(w)
	}
	return n
}

// maxNamed is how many calls an error names.
const maxNamed = 3

// named names the calls of a tool. s.mu is held.
func (s *Set) named(path string) string {
	var out []string
	for i, w := range s.of[path] {
		if i == maxNamed {
			out = append(out, fmt.Sprintf("%d more", len(s.of[path])-i))
			break
		}
		out = append(out, path+" "+prose.Cut(string(w.Arguments), maxShort))
	}
	return strings.Join(out, ", ")
}

// maxShort is how many bytes of arguments a text shows.
const maxShort = 160

// Text lists the calls of a plan for an agent or a person, one a line, at most so many.
func (p *Plan) Text(most int) string {
	var b strings.Builder
	for i, w := range p.Writes {
		if i == most {
			fmt.Fprintf(&b, "  and %d more\n", len(p.Writes)-i)
			break
		}
		fmt.Fprintf(&b, "  %d. %s %s\n", i+1, w.Tool, prose.Cut(string(w.Arguments), maxShort))
		if w.Simulated {
			b.WriteString("     its arguments hold a simulated answer, so that it will be refused: plan it when the real answer is known\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
