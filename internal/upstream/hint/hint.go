// Package hint compares the hints of an upstream about its tools (MCP ToolAnnotations) with those
// from when the tools were first seen. A server may make its hints stricter at any time. A hint
// that becomes weaker is not believed until a person accepts it: policies allow read-only tools, so
// a server could otherwise get around them.
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

// Most is the maximum number of tools that are remembered per upstream.
const Most = 10_000

// maxName is the maximum length of a remembered name, in bytes. Hints of a tool with a longer name
// are not believed.
const maxName = 1024

// Facts are the hints of a tool, with the defaults of the MCP specification filled in. A read-only
// tool is not destructive and is idempotent.
type Facts uint8

// The facts. A tool without hints is Destructive and OpenWorld.
const (
	ReadOnly Facts = 1 << iota
	Destructive
	Idempotent
	OpenWorld

	every = ReadOnly | Destructive | Idempotent | OpenWorld
)

// Strictest are the facts of a tool whose hints are not believed at all.
const Strictest = Destructive | OpenWorld

// good are the facts that become weaker when they become true; the others become weaker when they
// become false.
const good = ReadOnly | Idempotent

// names are the names of the hints, in the order of the facts.
var names = [...]string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

// FactsOf returns the facts that hints state.
func FactsOf(a tool.Annotations) (f Facts) {
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
	return tool.Annotations{ReadOnly: is(ReadOnly), Destructive: is(Destructive), Idempotent: is(Idempotent),
		OpenWorld: is(OpenWorld)}
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

// A Sight is the stored knowledge of one tool.
type Sight struct {
	Facts Facts `json:"f"` // the accepted facts
	// Recorded has a bit for each value of Facts that was a weaker claim and has been recorded in
	// the audit log.
	Recorded uint16 `json:"t,omitempty"`
}

// Sights holds the Sight of each tool of one upstream, by the tool's exact name.
type Sights struct {
	Tools map[string]*Sight `json:"tools"`
}

// ParseSights parses the output of Encode. If data is nil, it returns empty Sights.
func ParseSights(data []byte) (*Sights, error) {
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

// A Claim is a hint that is weaker than the believed one, and waits for a person.
type Claim struct {
	Tool    *tool.Tool // as the server defined it
	Claimed Facts
	Held    Facts // the facts used instead
}

// ID returns an identifier of the claim. It covers the whole definition of the tool, and the
// believed facts.
func (c *Claim) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", c.Tool.Digest(), c.Claimed, c.Held))
	return hex.EncodeToString(sum[:8])
}

// A Verdict is the result of comparing a list of tools with their sights.
type Verdict struct {
	Tools   []*tool.Tool // with the believed hints
	Claims  []Claim      // in the order of the tools
	Changed bool         // the sights must be stored
}

// Compare compares tools with the sights, and adds new tools and stricter facts to them. A tool
// whose name differs from a known one only in spelling starts with the hints of that one.
func (s *Sights) Compare(tools []*tool.Tool) Verdict {
	v := Verdict{Tools: make([]*tool.Tool, len(tools))}
	var spelled map[string]Facts // by fold, the facts known before this list
	for i, t := range tools {
		v.Tools[i] = t
		if t == nil {
			continue
		}
		claimed, known := FactsOf(t.Annotations), s.Tools[t.Name]
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
				spelled = s.strictestByFold()
			}
			if f, ok := spelled[foldName(t.Name)]; ok {
				held = f.Join(claimed)
			}
			s.Tools[t.Name], v.Changed = &Sight{Facts: held}, true
		}
		v.setHints(i, claimed, held)
	}
	return v
}

// RefuseAll returns a verdict that believes none of the tools' hints.
func RefuseAll(tools []*tool.Tool) Verdict {
	v := Verdict{Tools: make([]*tool.Tool, len(tools))}
	for i, t := range tools {
		if v.Tools[i] = t; t != nil {
			v.setHints(i, FactsOf(t.Annotations), Strictest)
		}
	}
	return v
}

// setHints replaces the i-th tool's claimed hints by the held ones.
func (v *Verdict) setHints(i int, claimed, held Facts) {
	if held == claimed {
		return
	}
	own := *v.Tools[i]
	own.Annotations = held.Annotations()
	v.Claims = append(v.Claims, Claim{Tool: v.Tools[i], Claimed: claimed, Held: held})
	v.Tools[i] = &own
}

// strictestByFold returns the strictest known facts of each fold. Compare calls it before it adds
// the first new tool, so that two tools that appear together are independent.
func (s *Sights) strictestByFold() map[string]Facts {
	out := map[string]Facts{}
	for name, known := range s.Tools {
		f, ok := out[foldName(name)]
		if !ok {
			f = known.Facts
		}
		out[foldName(name)] = f.Join(known.Facts)
	}
	return out
}

// MarkRecorded records that a claim is in the audit log, and reports whether it wasn't before.
func (s *Sights) MarkRecorded(c *Claim) (first bool) {
	known := s.Tools[c.Tool.Name]
	if known == nil || known.Recorded&(1<<c.Claimed) != 0 {
		return false
	}
	known.Recorded |= 1 << c.Claimed
	return true
}

// ClearRecord reverts Told.
func (s *Sights) ClearRecord(c *Claim) {
	if known := s.Tools[c.Tool.Name]; known != nil {
		known.Recorded &^= 1 << c.Claimed
	}
}

// DistrustAll returns sights that believe no tool hints.
func DistrustAll(tools []*tool.Tool) *Sights {
	s := &Sights{Tools: map[string]*Sight{}}
	for _, t := range tools[:min(len(tools), Most)] {
		s.Tools[t.Name] = &Sight{Facts: Strictest}
	}
	return s
}

// Accept makes the claimed facts the believed ones. If there is no room for another tool, tools
// that are not in list are forgotten first.
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
		return tool.Errorf(tool.Limit, "tool %s: the hints of %d tools of upstream %s are stored, which is the "+
			"maximum: set its hints under tools in the configuration", c.Tool.Path(), Most, c.Tool.Upstream)
	}
	s.Tools[c.Tool.Name] = &Sight{Facts: c.Claimed}
	return nil
}

// foldName returns the common part of all spellings of a name: its letters and digits, in lower
// case.
func foldName(name string) string {
	f := strings.ReplaceAll(tool.Snake(name), "_", "")
	if f == "" {
		return name
	}
	return f
}
