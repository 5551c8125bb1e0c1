package tool

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

// ExecuteTool returns the tool execute without its definition: what is known of a program that
// is counted without a call of execute.
func ExecuteTool() *Tool { return &Tool{Upstream: Own, Name: "execute"} }
