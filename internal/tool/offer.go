package tool

import (
	"encoding/json"
	"slices"
	"strings"
)

// The MCP methods that a Tool can stand for (see Tool.Method).
const (
	ReadResource = "resources/read"
	GetPrompt    = "prompts/get"
	Complete     = "completion/complete"
	Subscribe    = "resources/subscribe"

	// Programs list with these. The answers are the lists that Biplane keeps.
	ListResources = "resources/list"
	ListTemplates = "resources/templates/list"
	ListPrompts   = "prompts/list"
)

// The ends of the paths of the tools that stand for these methods.
const (
	ReadSuffix     = ".resources.read"
	GetSuffix      = ".prompts.get"
	CompleteSuffix = ".completion.complete"

	SubscribeSuffix = ".resources.subscribe"
)

// A methodTool describes the tool that stands for a method. A tool that lists requires that its
// principal may use the tool of another method.
type methodTool struct{ method, suffix, description, schema, requires string }

const noArguments = `{"type":"object","properties":{},"additionalProperties":false}`

var methodTools = []methodTool{
	{ReadResource, ReadSuffix, "Read a resource.", `{"type":"object","properties":{"uri":{"type":"string"}},` +
		`"required":["uri"],"additionalProperties":false}`, ""},
	{GetPrompt, GetSuffix, "Get a prompt.", `{"type":"object","properties":{"name":{"type":"string"},` +
		`"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],` +
		`"additionalProperties":false}`, ""},
	{Complete, CompleteSuffix, "Propose values for an argument of a prompt or a resource template.",
		`{"type":"object","properties":{"ref":{"type":"object","properties":{"type":{"enum":["ref/prompt",` +
			`"ref/resource"]},"name":{"type":"string"},"uri":{"type":"string"}},"required":["type"]},` +
			`"argument":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},` +
			`"required":["name","value"]},"context":{"type":"object"}},"required":["ref","argument"],` +
			`"additionalProperties":false}`, ""},
	{Subscribe, SubscribeSuffix, "Be notified when a resource is updated.", `{"type":"object","properties":{"uri":` +
		`{"type":"string"}},"required":["uri"],"additionalProperties":false}`, ""},
	{ListResources, ".resources.list", "List the resources.", noArguments, ReadResource},
	{ListTemplates, ".resources.templates", "List the resource templates.", noArguments, ReadResource},
	{ListPrompts, ".prompts.list", "List the prompts.", noArguments, GetPrompt},
}

// MethodIn returns the method of the tool with a path as programs use it, or "". An example is
// "github.resources_read", which is also "github.resources.read".
func MethodIn(path string) string {
	_, name, _ := strings.Cut(path, ".")
	for _, m := range methodTools {
		if strings.ReplaceAll(name, ".", "_") == strings.ReplaceAll(m.suffix[1:], ".", "_") {
			return m.method
		}
	}
	return ""
}

// InPrograms reports whether programs may call the tool of a method.
func InPrograms(method string) bool { return method != Complete && method != Subscribe }

// RequiredTool returns the tool that a principal must be able to use to call t, or nil.
func (t *Tool) RequiredTool() *Tool {
	if t.Method == "" {
		return nil
	}
	for _, m := range methodTools {
		if m.method == t.Method && m.requires != "" {
			return NewOffers(t.Upstream, m.requires).Tools[0]
		}
	}
	return nil
}

// NamesMethod reports whether a tool with this name stands for a method.
func NamesMethod(name string) bool {
	return slices.ContainsFunc(methodTools, func(m methodTool) bool { return name == m.suffix[1:] })
}

// IsMethod reports whether tools stand for an MCP method (see Tool.Method).
func IsMethod(method string) bool {
	return slices.ContainsFunc(methodTools, func(m methodTool) bool { return method == m.method })
}

// InstructionsName is the name of the tool that holds an upstream's instructions.
const InstructionsName = "instructions"

// An Offer is a resource, a resource template or a prompt of an upstream.
type Offer struct {
	Key string          // its URI, URI template or name, which is unique among its kind at the upstream
	Raw json.RawMessage // definition as sent by the upstream, byte for byte
}

// Offers lists what an upstream offers besides tools, in the upstream's order. It is immutable.
type Offers struct {
	Upstream  string
	Resources []Offer
	Templates []Offer
	Prompts   []Offer
	// Instructions describe the upstream to agents, in the description of a tool that can't be
	// called. So they are scanned, pinned and accepted like the definitions of tools. Nil: none.
	Instructions *Tool
	// Tools stand for the methods that use these: "resources.read", "prompts.get",
	// "resources.list", for example. They are judged and recorded like other tools, but lists of
	// tools and searches don't have them.
	Tools []*Tool
}

// NewOffers returns Offers without any resource or prompt, with the tools for the given methods.
func NewOffers(upstream string, methods ...string) *Offers {
	o := &Offers{Upstream: upstream}
	yes := true
	for _, m := range methodTools {
		if slices.Contains(methods, m.method) {
			o.Tools = append(o.Tools, &Tool{Upstream: upstream, Name: m.suffix[1:], Method: m.method,
				Description: m.description, InputSchema: json.RawMessage(m.schema),
				Annotations: Annotations{ReadOnly: &yes}})
		}
	}
	return o
}
