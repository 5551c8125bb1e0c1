// Package hint compares what an upstream says of its tools (MCP ToolAnnotations) with what it said when they were first
// seen. A server may make its hints stricter at any time. A hint that becomes weaker is not believed until a person
// accepts it: policies allow what only reads, so a server could otherwise call its way past them.
//
// The package decides and does no I/O; package daemon stores Sights.
package hint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Most is how many tools of one upstream are remembered.
const Most = 10_000

// maxName bounds the names that are remembered, in bytes. Upstreams with longer ones are rejected before.
const maxName = 1024

// Facts are the hints of a tool with the defaults of the MCP specification filled in. What only reads destroys nothing and can be repeated.
type Facts uint8

// The facts. A tool without hints is Destructive and OpenWorld.
const (
	ReadOnly Facts = 1 << iota
	Destructive
	Idempotent
	OpenWorld

	every = ReadOnly | Destructive | Idempotent | OpenWorld
)

// Strictest are the facts of a tool of which nothing is believed.
const Strictest = Destructive | OpenWorld

// good are the facts that weaken when they become true; the others weaken when they become false.
const good = ReadOnly | Idempotent

// names are those of the hints, in order of the facts.
var names = [...]string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

// Of returns the facts that hints state.
func Of(a tool.Annotations) (f Facts) {
	is := func(hint *bool, unsaid bool) bool {
		if hint == nil {
			return unsaid
		}
		return *hint
	}
	reads := is(a.ReadOnly, false)
	if reads {
		f |= ReadOnly
	}
	if !reads && is(a.Destructive, true) {
		f |= Destructive
	}
	if reads || is(a.Idempotent, false) {
		f |= Idempotent
	}
	if is(a.OpenWorld, true) {
		f |= OpenWorld
	}
	return f
}

// Annotations returns hints that state the facts.
func (f Facts) Annotations() tool.Annotations {
	is := func(fact Facts) *bool {
		b := f&fact != 0
		return &b
	}
	return tool.Annotations{ReadOnly: is(ReadOnly), Destructive: is(Destructive), Idempotent: is(Idempotent), OpenWorld: is(OpenWorld)}
}

// Join returns the stricter of each fact.
func (f Facts) Join(other Facts) Facts {
	return f&other&good | (f|other)&^good&every
}

// Changes describes the facts that differ from those before: "readOnlyHint: true (was false)".
func (f Facts) Changes(before Facts) (out []string) {
	for i, name := range names {
		if bit := Facts(1) << i; (f^before)&bit != 0 {
			out = append(out, fmt.Sprintf("%s: %t (was %t)", name, f&bit != 0, before&bit != 0))
		}
	}
	return out
}

// A Sight is what is known of one tool.
type Sight struct {
	Facts Facts `json:"f"` // what is believed
	// Told has a bit for each value of Facts that was a weaker claim and is on the record.
	Told uint16 `json:"t,omitempty"`
}

// Sights are those of one upstream, by the exact name of the tool.
type Sights struct {
	Tools map[string]*Sight `json:"tools"`
}

// Parse reads what Encode wrote. No data are no sights.
func Parse(data []byte) (*Sights, error) {
	s := &Sights{}
	if data != nil {
		if err := json.Unmarshal(data, s); err != nil {
			return nil, tool.Errorf(tool.Internal, "stored hints of tools can't be read: %w", err)
		}
	}
	if s.Tools == nil {
		s.Tools = map[string]*Sight{}
	}
	return s, nil
}

// Encode returns the sights as bytes.
func (s *Sights) Encode() ([]byte, error) { return json.Marshal(s) }

// A Claim is a hint that is weaker than what is believed, and waits for a person.
type Claim struct {
	Tool    *tool.Tool // as the server defined it
	Claimed Facts
	Held    Facts // what counts instead
}

// ID identifies the claim: the whole definition of the tool, and what is believed of it.
func (c *Claim) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", c.Tool.Digest(), c.Claimed, c.Held))
	return hex.EncodeToString(sum[:8])
}

// A Verdict is the result of comparing a list of tools with what is known of them.
type Verdict struct {
	Tools   []*tool.Tool // with the hints that are believed
	Claims  []Claim      // in the order of the tools
	Changed bool         // the sights have to be stored
}

// Compare compares tools with the sights, and adds what is new or stricter to them. A tool whose name differs from a known one's in
// spelling only begins with the hints of that one.
func (s *Sights) Compare(tools []*tool.Tool) Verdict {
	v := Verdict{Tools: make([]*tool.Tool, len(tools))}
	var spelled map[string]Facts // what is known by fold, before this list
	for i, t := range tools {
		v.Tools[i] = t
		if t == nil {
			continue
		}
		claimed, known := Of(t.Annotations), s.Tools[t.Name]
		held := claimed
		switch {
		case known != nil:
			held = known.Facts.Join(claimed)
			v.Changed = v.Changed || held != known.Facts
			known.Facts = held
		case len(s.Tools) >= Most || len(t.Name) > maxName:
			held = Strictest
		default:
			if spelled == nil {
				spelled = s.spellings()
			}
			if f, ok := spelled[fold(t.Name)]; ok {
				held = f.Join(claimed)
			}
			s.Tools[t.Name], v.Changed = &Sight{Facts: held}, true
		}
		v.believe(i, claimed, held)
	}
	return v
}

// Refuse returns the verdict on tools of which nothing is believed.
func Refuse(tools []*tool.Tool) Verdict {
	v := Verdict{Tools: make([]*tool.Tool, len(tools))}
	for i, t := range tools {
		if v.Tools[i] = t; t != nil {
			v.believe(i, Of(t.Annotations), Strictest)
		}
	}
	return v
}

// believe puts the i-th tool in with the hints that are believed.
func (v *Verdict) believe(i int, claimed, held Facts) {
	if held == claimed {
		return
	}
	own := *v.Tools[i]
	own.Annotations = held.Annotations()
	v.Claims = append(v.Claims, Claim{Tool: v.Tools[i], Claimed: claimed, Held: held})
	v.Tools[i] = &own
}

// spellings returns the strictest facts known of each fold. Compare calls it before it adds the first new tool: each of two tools
// that appear together counts for itself.
func (s *Sights) spellings() map[string]Facts {
	out := map[string]Facts{}
	for name, known := range s.Tools {
		f, ok := out[fold(name)]
		if !ok {
			f = known.Facts
		}
		out[fold(name)] = f.Join(known.Facts)
	}
	return out
}

// Told notes that a claim is on the record, and reports whether it was not yet.
func (s *Sights) Told(c *Claim) (first bool) {
	known := s.Tools[c.Tool.Name]
	if known == nil || known.Told&(1<<c.Claimed) != 0 {
		return false
	}
	known.Told |= 1 << c.Claimed
	return true
}

// Untold takes Told back.
func (s *Sights) Untold(c *Claim) {
	if known := s.Tools[c.Tool.Name]; known != nil {
		known.Told &^= 1 << c.Claimed
	}
}

// Doubt returns sights that believe nothing of tools.
func Doubt(tools []*tool.Tool) *Sights {
	s := &Sights{Tools: map[string]*Sight{}}
	for _, t := range tools[:min(len(tools), Most)] {
		s.Tools[t.Name] = &Sight{Facts: Strictest}
	}
	return s
}

// Accept makes what the tool claims what is believed. When no more tools fit, those that are not in the list now are forgotten first.
func (s *Sights) Accept(c *Claim, list []*tool.Tool) error {
	if s.Tools[c.Tool.Name] == nil && len(s.Tools) >= Most {
		there := map[string]*Sight{}
		for _, t := range list {
			if known := s.Tools[t.Name]; known != nil {
				there[t.Name] = known
			}
		}
		s.Tools = there
	}
	if len(s.Tools) >= Most || len(c.Tool.Name) > maxName {
		return tool.Errorf(tool.Limit, "tool %s: %d tools of upstream %s are remembered, which is the most: state its hints under tools in the configuration", c.Tool.Path(), Most, c.Tool.Upstream)
	}
	s.Tools[c.Tool.Name] = &Sight{Facts: c.Claimed}
	return nil
}

// fold returns what all spellings of a name have in common: its letters and digits, in lower case.
func fold(name string) string {
	f := strings.ReplaceAll(tool.Snake(name), "_", "")
	if f == "" {
		return name
	}
	return f
}
