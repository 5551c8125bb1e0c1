package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// defaults are the defaults of a schema's required members. Servers accept calls without these
// members (zod 4 writes such schemas): they fill in the defaults before validation. Biplane does
// the same.
type defaults struct {
	names   []string                   // required members with a default, in the schema's order
	values  map[string]json.RawMessage // their defaults
	members map[string]*defaults       // for members that are objects
	items   *defaults                  // for the elements of an array
}

// maxDefaults is the maximum size of one schema's defaults, in bytes.
const maxDefaults = 64 << 10

// readDefaults returns the defaults of a schema, or nil if there are none. left is the remaining
// number of bytes for them.
func readDefaults(raw json.RawMessage, depth int, left *int) *defaults {
	if depth > 8 || !bytes.Contains(raw, []byte(`"default"`)) || !bytes.Contains(raw, []byte(`"required"`)) {
		return nil
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Items      json.RawMessage            `json:"items"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	d := &defaults{values: map[string]json.RawMessage{}, members: map[string]*defaults{}}
	for _, name := range s.Required {
		var p struct {
			Default json.RawMessage `json:"default"`
		}
		if json.Unmarshal(s.Properties[name], &p) != nil || p.Default == nil || d.values[name] != nil {
			continue
		}
		if *left -= len(name) + len(p.Default); *left < 0 {
			return nil
		}
		d.names, d.values[name] = append(d.names, name), p.Default
	}
	for name, p := range s.Properties {
		if m := readDefaults(p, depth+1, left); m != nil {
			d.members[name] = m
		}
	}
	d.items = readDefaults(s.Items, depth+1, left)
	if len(d.names) == 0 && len(d.members) == 0 && d.items == nil {
		return nil
	}
	return d
}

// declaredArguments returns the names of the arguments that a schema declares, if it allows
// undeclared ones without constraints. An undeclared argument is then passed on, and probably
// ignored. Otherwise it returns nil.
func declaredArguments(raw json.RawMessage) []string {
	var s map[string]json.RawMessage
	var properties map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil || json.Unmarshal(s["properties"], &properties) != nil {
		return nil
	}
	for _, k := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "propertyNames",
		"unevaluatedProperties"} {
		if s[k] != nil {
			return nil
		}
	}
	switch string(bytes.TrimSpace(s["additionalProperties"])) {
	case "", "true", "{}":
		return slices.Sorted(maps.Keys(properties))
	}
	return nil
}

// maxDoubted is the maximum size of arguments that are checked for undeclared ones, in bytes.
const maxDoubted = 64 << 10

// describeUnknownArguments returns a note on the arguments that a tool doesn't declare, or the
// empty string if it declares all.
func describeUnknownArguments(declared []string, args json.RawMessage) string {
	if len(declared) == 0 || len(args) == 0 || len(args) > maxDoubted {
		return ""
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return ""
	}
	var free, strange []string
	for _, name := range declared {
		if _, ok := given[name]; !ok {
			free = append(free, name)
		}
	}
	for name := range given {
		if _, ok := slices.BinarySearch(declared, name); !ok {
			strange = append(strange, name)
		}
	}
	if len(strange) == 0 {
		return ""
	}
	slices.Sort(strange)
	text := "argument " + oneLine(nameList(strange), 300) + " is not declared, so that the tool may ignore it"
	if len(strange) == 1 {
		if near := nearestName(strange[0], free); near != "" {
			text += "; did you mean " + cut(near, 60) + "?"
		}
	}
	return text + "; declared: " + oneLine(nameList(declared), 600)
}

// fill returns a value with the defaults of missing members added. Existing members keep their
// bytes. Invalid JSON is returned unchanged.
func (d *defaults) fill(raw json.RawMessage) json.RawMessage {
	if d == nil {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	first, err := dec.Token()
	if err != nil {
		return raw
	}
	var out bytes.Buffer
	kept := 0 // this many bytes of raw are in out, or need no change
	given := map[string]bool{}
	for dec.More() {
		member := d.items
		if first == json.Delim('{') {
			key, err := dec.Token()
			name, ok := key.(string)
			if err != nil || !ok {
				return raw
			}
			given[name], member = true, d.members[name]
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return raw
		}
		if full := member.fill(v); len(full) != len(v) {
			out.Write(raw[kept : int(dec.InputOffset())-len(v)])
			out.Write(full)
			kept = int(dec.InputOffset())
		}
	}
	if end, err := dec.Token(); err != nil || end != json.Delim('}') && end != json.Delim(']') {
		return raw
	}
	at := int(dec.InputOffset()) - 1 // position of the closing bracket
	out.Write(raw[kept:at])
	if first == json.Delim('{') {
		for _, name := range d.names {
			if given[name] {
				continue
			}
			if len(given) > 0 {
				out.WriteByte(',')
			}
			key, _ := json.Marshal(name) // a string can always be marshaled
			out.Write(key)
			out.WriteByte(':')
			out.Write(d.values[name])
			given[name] = true
		}
	}
	out.Write(raw[at:])
	return out.Bytes()
}
