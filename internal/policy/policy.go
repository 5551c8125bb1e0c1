// Package policy decides, without I/O, whether a call may proceed and within what bounds.
//
// There is one policy so far, Open, which allows everything; whoever starts Biplane is told so. The zero Engine has no
// rule and allows nothing.
package policy

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Effect is what a decision says.
type Effect string

// The effects, strictest first. The zero Effect is treated as Deny.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask" // a person decides
	Allow Effect = "allow"
)

// A Request is what is to be decided on.
type Request struct {
	Principal tool.Principal
	Tool      *tool.Tool
	Arguments json.RawMessage // nil where only listing is decided on
	Parent    string          // the execution that asks; empty for a call from outside
}

// A Decision is the answer, with its reason for the record and for whoever asked.
type Decision struct {
	Effect Effect
	Policy string // the policy that decided
	Reason string // one line for people
	Grant  tool.Grant
}

// An Engine decides. It is immutable and safe for concurrent use.
type Engine struct {
	open bool
	tier tool.Tier
}

// Open makes the engine that allows every call, to be run at tier or stronger.
func Open(tier tool.Tier) *Engine { return &Engine{open: true, tier: tier} }

// Decide decides on r.
func (e *Engine) Decide(Request) Decision {
	if !e.open {
		return Decision{Effect: Deny, Policy: "none", Reason: "no policy allows it"}
	}
	return Decision{Effect: Allow, Policy: "open", Reason: "the open policy allows every call", Grant: tool.Grant{Tier: e.tier}}
}
