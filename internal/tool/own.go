package tool

import "strings"

// Own is the name of the upstream that holds Biplane's own tools. No configured upstream may have
// it.
const Own = "biplane"

// The paths of Biplane's own tools.
const (
	SearchPath  = Own + ".search"
	ExecutePath = Own + ".execute"
	ResumePath  = Own + ".resume"
	PlanPath    = Own + ".plan"   // used for the approval request of a plan; no catalog has it
	ResultPath  = Own + ".result" // used by programs to read a large result in parts
)

// ExecuteTool returns the tool execute without its definition. It stands for a program that is
// counted without a call of execute.
func ExecuteTool() *Tool { return &Tool{Upstream: Own, Name: "execute"} }

// SandboxPrefix begins the names of Biplane's own tools for principals' own sandboxes.
const SandboxPrefix = "sandbox_"

// UsesSandbox reports whether t is one of Biplane's own tools for principals' own sandboxes.
func UsesSandbox(t *Tool) bool {
	return t != nil && t.Upstream == Own && strings.HasPrefix(t.Name, SandboxPrefix)
}
