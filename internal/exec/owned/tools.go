package owned

import (
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An operation is a tool of sandboxes.
type operation struct {
	name        string // without tool.SandboxPrefix
	title       string
	description string
	properties  string // of its arguments, besides the sandbox: members of a JSON object
	required    []string
	reads       bool // it changes nothing
	free        bool // it is not about one sandbox
}

const (
	runProperties = `"command":{"type":"string","description":"a shell command"},"argv":{"type":"array",` +
		`"items":{"type":"string"},"description":"a program and its arguments, instead of command"},` +
		`"directory":{"type":"string","description":"default /workspace"},"environment":{"type":"object",` +
		`"additionalProperties":{"type":"string"}}`
	pathProperty    = `"path":{"type":"string","description":"relative to /workspace, or absolute"}`
	processProperty = `"process":{"type":"integer","minimum":1}`
	waitProperty    = `"wait_seconds":{"type":"number","minimum":0,"maximum":60,"description":"how long to wait for ` +
		`something new"}`
	seconds = `{"type":"number","exclusiveMinimum":0}`
)

// operations lists the tools, in the order in which agents see them.
var operations = []operation{
	{name: "create", title: "Create a sandbox", free: true,
		description: "Create a sandbox with files of its own. Its " +
			"processes start with its first use.",
		properties: `"name":{"type":"string"},"image":{"type":"string"},"memory":{"type":"integer","description":` +
			`"bytes"},"ttl_seconds":` + seconds + `,"idle_seconds":` + seconds +
			`,"standby_seconds":{"type":"number","description":"freeze it when it was idle for this time; ` +
			`-1: never"},"network":{"type":"boolean","description":"it reaches the hosts that policy permits"}`},
	{name: "list", title: "List the sandboxes", free: true, reads: true,
		description: "List your sandboxes."},
	{name: "show", title: "Show the sandbox", reads: true,
		description: "Show the state of the sandbox, its memory and " +
			"its files' size."},
	{name: "run", title: "Run a command",
		description: "Run a command to its end. Its output is streamed as progress. " +
			"The answer has the output, shortened if it is long, and the exit status or the signal. Processes that " +
			"it leaves in the background lose their output: use start for those.",
		properties: runProperties + `,"input":{"type":"string","description":"its standard input"},"timeout_seconds":` +
			`{"type":"number","exclusiveMinimum":0,"description":"default 60"}`},
	{name: "start", title: "Start a process",
		description: "Start a process in the background.",
		properties:  runProperties},
	{name: "processes", title: "List the processes", reads: true,
		description: "List the background processes."},
	{name: "logs", title: "Read a process's output", reads: true,
		description: "Read the output of a background process " +
			"from an offset. The newest MiB is kept.",
		properties: processProperty + `,"offset":{"type":"integer","description":"negative: from the end"},` +
			`"length":{"type":"integer","minimum":1},` + waitProperty, required: []string{"process"}},
	{name: "stop", title: "Stop a process",
		description: "Stop a background process and its descendants: with SIGTERM, " +
			"after a moment with SIGKILL; or send it another signal.",
		properties: processProperty + `,"signal":{"type":"integer","minimum":1,"maximum":64}`,
		required:   []string{"process"}},
	{name: "read", title: "Read a file", reads: true,
		description: "Read a file, or a part of it: text, or base64 if it " +
			"is not text.",
		properties: pathProperty + `,"offset":{"type":"integer"},"length":{"type":"integer","minimum":1}`,
		required:   []string{"path"}},
	{name: "write", title: "Write a file",
		description: "Write a file, or a part of it. Missing folders are made.",
		properties: pathProperty + `,"text":{"type":"string"},"base64":{"type":"string",` +
			`"description":"instead of text"},"offset":{"type":"integer","minimum":0,"description":` +
			`"write there instead of replacing the file"},` +
			`"append":{"type":"boolean"}`, required: []string{"path"}},
	{name: "files", title: "List files", reads: true,
		description: "List a folder.",
		properties:  pathProperty + `,"recursive":{"type":"boolean"}`},
	{name: "stat", title: "Describe a file", reads: true,
		description: "Describe a file or a folder.",
		properties:  pathProperty, required: []string{"path"}},
	{name: "mkdir", title: "Make a folder",
		description: "Make a folder, and the missing ones above it.",
		properties:  pathProperty, required: []string{"path"}},
	{name: "move", title: "Move a file",
		description: "Move a file or a folder.",
		properties:  pathProperty + `,"to":{"type":"string"}`, required: []string{"path", "to"}},
	{name: "remove", title: "Remove a file",
		description: "Remove a file, or with recursive a folder.",
		properties:  pathProperty + `,"recursive":{"type":"boolean"}`, required: []string{"path"}},
	{name: "watch", title: "Watch files", reads: true,
		description: "Return the changes below a folder since an offset: " +
			"0, or the offset of the answer before. lost means that some may be missing.",
		properties: pathProperty + `,"offset":{"type":"integer","minimum":0},` + waitProperty},
	{name: "ports", title: "List ports", reads: true,
		description: "List the TCP ports that processes listen on."},
	{name: "preview", title: "Open a port in a browser",
		description: "Make a link that opens a server in the sandbox, on a given port, in a browser. " +
			"It expires. Pages must use relative addresses.",
		properties: `"port":{"type":"integer","minimum":1,"maximum":65535},"expires_seconds":` + seconds,
		required:   []string{"port"}},
	{name: "suspend", title: "Suspend the sandbox",
		description: "Freeze the processes of the sandbox, unless an operation is under way. Its next use " +
			"continues them."},
	{name: "resume", title: "Resume the sandbox",
		description: "Start or continue the processes of the sandbox, so that its next use begins at once."},
	{name: "end", title: "End the sandbox",
		description: "End the sandbox, and remove its files."},
}

// sandboxProperty is the argument that names the sandbox.
const sandboxProperty = `"sandbox":{"type":"string","description":"id or name"}`

// ListTools returns the definitions of the tools of sandboxes: tools of Biplane's own.
func ListTools() []*tool.Tool {
	out := make([]*tool.Tool, 0, len(operations))
	for i := range operations {
		out = append(out, operations[i].defineTool(tool.SandboxPrefix, !operations[i].free))
	}
	return out
}

// ToolsOfOne returns the tools of one sandbox, under short names and without the argument that
// names it.
func ToolsOfOne() []*tool.Tool {
	var out []*tool.Tool
	for i := range operations {
		if !operations[i].free {
			out = append(out, operations[i].defineTool("", false))
		}
	}
	return out
}

// defineTool returns the definition of a tool.
func (o *operation) defineTool(prefix string, named bool) *tool.Tool {
	var properties []string
	required := o.required
	if named {
		properties, required = append(properties, sandboxProperty), append([]string{"sandbox"}, required...)
	}
	if o.properties != "" {
		properties = append(properties, o.properties)
	}
	schema := `{"type":"object","properties":{` + strings.Join(properties, ",") + `}`
	if len(required) > 0 {
		schema += `,"required":["` + strings.Join(required, `","`) + `"]`
	}
	no := false
	return &tool.Tool{Upstream: tool.Own, Name: prefix + o.name, Title: o.title, Description: o.description,
		InputSchema: json.RawMessage(schema + `,"additionalProperties":false}`),
		Annotations: tool.Annotations{ReadOnly: &o.reads, OpenWorld: &no}}
}

// newArguments are the arguments of the tool create.
type newArguments struct {
	Name    string  `json:"name"`
	Image   string  `json:"image"`
	Memory  int64   `json:"memory"`
	TTL     float64 `json:"ttl_seconds"`
	Idle    float64 `json:"idle_seconds"`
	Standby float64 `json:"standby_seconds"`
	Network bool    `json:"network"`
}

// arguments are the arguments of all tools.
type arguments struct {
	Sandbox string `json:"sandbox"`
	newArguments

	Command     string            `json:"command"`
	Argv        []string          `json:"argv"`
	Directory   string            `json:"directory"`
	Environment map[string]string `json:"environment"`
	Input       string            `json:"input"`
	Timeout     float64           `json:"timeout_seconds"`

	Process   int     `json:"process"`
	Signal    int     `json:"signal"`
	Path      string  `json:"path"`
	To        string  `json:"to"`
	Text      *string `json:"text"`
	Base64    []byte  `json:"base64"`
	Offset    *int64  `json:"offset"`
	Length    int64   `json:"length"`
	Append    bool    `json:"append"`
	Recursive bool    `json:"recursive"`
	Wait      float64 `json:"wait_seconds"`
	Port      int     `json:"port"`
	Expires   float64 `json:"expires_seconds"`
}
