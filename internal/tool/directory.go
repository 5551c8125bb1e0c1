package tool

import (
	"encoding/json"
	"iter"
)

// UpstreamInfo describes an upstream and its names.
type UpstreamInfo struct {
	Name      string
	Namespace string // Name as a JavaScript identifier
	Health    Health
	Tools     int // number of tools
}

// A Directory has the tools that a principal can see, under the names that programs use. It is
// immutable. Equal directories have the same tools.
type Directory interface {
	// Upstreams returns all upstreams except Biplane itself, sorted by name.
	Upstreams() []UpstreamInfo
	// MemberNames returns the namespace of each tool of these upstreams, and the tool's name in it.
	// This includes tools that aren't listed elsewhere.
	MemberNames() iter.Seq2[string, string]
	// FindTool returns the tool with a path, in the plain form or in one that other systems use.
	// If there is none, the error is of kind NotFound and names the nearest tools. If there are
	// several, it is of kind Conflict.
	FindTool(path string) (Entry, error)
	// Space returns the namespace of the upstream that a name refers to, in any form. It returns ""
	// if no or several upstreams match.
	Space(name string) string
	// Alias returns the plain path of the tool or upstream that a single name refers to, in any
	// form. It returns name itself if several tools match, and "" if none does.
	Alias(name string) string
}

// An Entry is a tool in a Directory. It is comparable.
type Entry interface {
	// Path returns the name that programs use, "<namespace>.<member>".
	Path() string
	// InputSchema returns the JSON Schema of the arguments.
	InputSchema() json.RawMessage
	// ListArguments lists the declared arguments in one line; empty if none are declared.
	ListArguments() string
	// Positions returns the names of the arguments in schema order.
	Positions() []string
	// FindSpelling returns the argument of which name is another spelling, or "" if no or several
	// arguments match.
	FindSpelling(name string) string
	// CheckArguments returns an error of kind Invalid if a call with these arguments, in any form,
	// would be rejected.
	CheckArguments(args json.RawMessage) error
}
