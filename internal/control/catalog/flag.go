package catalog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Flag is an argument of a call as written on a command line: --limit 3.
type Flag struct {
	Name  string
	Value *string // nil: none was given
}

// AddFlags adds flags to the arguments of a call. Their values have the types of the schema. A flag
// that fits no type is passed as text, for Validate to reject.
func (r *Resolver) AddFlags(who tool.Principal, path string, args json.RawMessage, flags []Flag) json.RawMessage {
	e, err := r.catalog.View().Resolve(path)
	if err != nil {
		if e, err = r.visible(who).Find(path); err != nil {
			e = &Entry{Tool: &tool.Tool{InputSchema: json.RawMessage(`{}`)}}
		}
	}
	return e.addFlags(args, flags)
}

func (e *Entry) addFlags(args json.RawMessage, flags []Flag) json.RawMessage {
	var fields map[string]json.RawMessage
	if len(bytes.TrimSpace(args)) > 0 && (json.Unmarshal(args, &fields) != nil || fields == nil) {
		return args // Validate rejects it
	}
	p := e.params()
	out := object{}
	given := map[string][]*string{}
	var names []string
	for _, f := range flags {
		name := p.flagName(f)
		if given[name] == nil {
			names = append(names, name)
		}
		given[name] = append(given[name], p.flagValue(name, f))
	}
	for _, k := range keysOf(args) {
		if given[k] == nil {
			out.add(k, fields[k])
		}
	}
	for _, name := range names {
		out.add(name, flagJSON(p.types[name], given[name], e.Tool.InputSchema))
	}
	return out.text()
}

// flagName returns the argument that a flag sets: --issue-number sets issue_number, and --no-draft
// sets draft.
func (p *parameters) flagName(f Flag) string {
	name := f.Name
	if _, ok := p.types[name]; ok {
		return name
	}
	if found := p.correctSpelling(name); found != "" {
		return found
	}
	if rest, ok := strings.CutPrefix(name, "no-"); ok && f.Value == nil {
		if _, ok := p.types[rest]; ok {
			return rest
		}
		if found := p.correctSpelling(rest); found != "" {
			return found
		}
	}
	return name
}

// flagValue returns the text of a flag's value: true or false if it has none.
func (p *parameters) flagValue(name string, f Flag) *string {
	value := "true"
	switch {
	case f.Value != nil:
		return f.Value
	case strings.HasPrefix(f.Name, "no-") && fold(f.Name) != fold(name):
		value = "false"
	}
	return &value
}

// flagJSON returns the values of a flag as JSON of the types that a schema allows.
func flagJSON(schema json.RawMessage, values []*string, root json.RawMessage) json.RawMessage {
	types, items := typesOf(schema, root, 0)
	if slices.Contains(types, "array") {
		var list []json.RawMessage
		if len(values) == 1 && !slices.Contains(types, "string") && json.Unmarshal([]byte(*values[0]), &list) == nil &&
			list != nil {
			return json.RawMessage(*values[0])
		}
		if len(values) > 1 || !slices.ContainsFunc(types, func(t string) bool { return t != "array" && t != "null" }) {
			inner, _ := typesOf(items, root, 0)
			for _, v := range values {
				list = append(list, scalarJSON(inner, *v))
			}
			return marshalList(list)
		}
	}
	if len(values) == 1 {
		return scalarJSON(types, *values[0])
	}
	var list []json.RawMessage // Validate rejects it, unless the schema allows anything
	for _, v := range values {
		list = append(list, scalarJSON(types, *v))
	}
	return marshalList(list)
}

func marshalList(list []json.RawMessage) json.RawMessage {
	return slices.Concat(json.RawMessage("["), bytes.Join(toBytes(list), []byte(",")), json.RawMessage("]"))
}

func toBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// scalarJSON returns a text as JSON of one of types. It is a JSON text if any type is allowed.
func scalarJSON(types []string, value string) json.RawMessage {
	quoted, err := tool.Marshal(value)
	if err != nil || slices.Contains(types, "string") {
		return quoted
	}
	text := bytes.TrimSpace([]byte(value))
	if !json.Valid(text) {
		return quoted
	}
	kind := kindOf(text)
	fits := len(types) == 0 || slices.Contains(types, kind) || kind == "number" && slices.Contains(types, "integer")
	if !fits || kind == "string" {
		return quoted
	}
	return text
}

// kindOf returns the type of a JSON text.
func kindOf(text []byte) string {
	switch text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// maxUnion is the number of levels of unions and references that typesOf follows.
const maxUnion = 8

// typesOf returns the types that a schema allows, and the schema of an array's items. It returns no
// types if it allows all.
func typesOf(schema, root json.RawMessage, depth int) (types []string, items json.RawMessage) {
	var s struct {
		Type         json.RawMessage
		Items        json.RawMessage
		Enum         []json.RawMessage
		Const        json.RawMessage
		AnyOf, OneOf []json.RawMessage
		Ref          string `json:"$ref"`
	}
	if depth > maxUnion || json.Unmarshal(schema, &s) != nil {
		return nil, nil
	}
	var one string
	switch {
	case json.Unmarshal(s.Type, &one) == nil && one != "":
		return []string{one}, s.Items
	case json.Unmarshal(s.Type, &types) == nil && len(types) > 0:
		return types, s.Items
	case s.Ref != "":
		return typesOf(refIn(root, s.Ref), root, depth+1)
	}
	if len(s.Const) > 0 {
		s.Enum = append(s.Enum, s.Const)
	}
	for _, v := range s.Enum {
		types = append(types, kindOf(bytes.TrimSpace(v)))
	}
	for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
		inner, of := typesOf(part, root, depth+1)
		if len(inner) == 0 {
			return nil, nil
		}
		if types = append(types, inner...); items == nil {
			items = of
		}
	}
	return types, items
}

// refIn returns the part of a document that a local reference names, or nil.
func refIn(root json.RawMessage, ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for _, key := range strings.Split(path, "/") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(root, &fields) != nil {
			return nil
		}
		root = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
	}
	return root
}
