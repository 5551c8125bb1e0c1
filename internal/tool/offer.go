package tool

import "encoding/json"

// The methods of MCP that a Tool can stand for (see Tool.Method).
const (
	ReadResource = "resources/read"
	GetPrompt    = "prompts/get"
)

// The ends of the paths of the tools that stand for these methods.
const (
	ReadSuffix = ".resources.read"
	GetSuffix  = ".prompts.get"
)

// NamesMethod reports whether name is that of a tool that stands for a method.
func NamesMethod(name string) bool { return name == ReadSuffix[1:] || name == GetSuffix[1:] }

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
	// Tools stand for the methods that use these: "resources.read" and "prompts.get". They are
	// judged and recorded like other tools, but lists of tools and searches don't have them.
	Tools []*Tool
}

// NewOffers returns Offers without any resource or prompt.
func NewOffers(upstream string, resources, prompts bool) *Offers {
	o := &Offers{Upstream: upstream}
	yes := true
	add := func(name, method, description, schema string) {
		o.Tools = append(o.Tools, &Tool{Upstream: upstream, Name: name, Method: method, Description: description,
			InputSchema: json.RawMessage(schema), Annotations: Annotations{ReadOnly: &yes}})
	}
	if resources {
		add(ReadSuffix[1:], ReadResource, "Read a resource.", `{"type":"object","properties":{"uri":`+
			`{"type":"string"}},"required":["uri"],"additionalProperties":false}`)
	}
	if prompts {
		add(GetSuffix[1:], GetPrompt, "Get a prompt.", `{"type":"object","properties":{"name":{"type":"string"},`+
			`"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],`+
			`"additionalProperties":false}`)
	}
	return o
}
