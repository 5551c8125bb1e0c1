package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Since revision 2026-07-28 a client repeats parts of a message as HTTP headers, for intermediaries
// that route or inspect requests without reading bodies (Streamable HTTP, "Request Metadata").
// The configured headers are added in httpLink.sendOnce.

// A binding maps an argument to the header Mcp-Param-<header>, which repeats it.
type binding struct {
	path   []string // of property names
	header string
}

// maxBindingDepth limits how deep bindings are searched in a schema.
const maxBindingDepth = 32

// mirrorHeaders sets the headers that repeat parts of m.
func mirrorHeaders(h http.Header, m *message) {
	h.Set("Mcp-Method", m.method)
	if m.name != "" {
		h.Set("Mcp-Name", headerValue(m.name))
	}
	for k, v := range m.params {
		h.Set("Mcp-Param-"+k, v)
	}
}

// parseBindings returns the bindings in a tool's schema. An error makes the tool unusable over
// HTTP.
func parseBindings(schema json.RawMessage) ([]binding, error) {
	if !strings.Contains(string(schema), `x-mcp-header`) {
		return nil, nil
	}
	var out []binding
	seen := map[string]bool{}
	var walk func(schema json.RawMessage, path []string) error
	walk = func(schema json.RawMessage, path []string) error {
		var v struct {
			Type       json.RawMessage            `json:"type"`
			Header     json.RawMessage            `json:"x-mcp-header"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(path) > maxBindingDepth || json.Unmarshal(schema, &v) != nil {
			return nil
		}
		if v.Header != nil {
			name, err := bindingName(v.Header, v.Type)
			if err != nil {
				return fmt.Errorf("property %q: %w", strings.Join(path, "."), err)
			}
			if key := strings.ToLower(name); seen[key] {
				return fmt.Errorf("property %q: x-mcp-header %q is used twice", strings.Join(path, "."), name)
			} else {
				seen[key] = true
			}
			out = append(out, binding{append([]string(nil), path...), name})
		}
		for name, p := range v.Properties {
			if err := walk(p, append(path, name)); err != nil {
				return err
			}
		}
		return nil
	}
	return out, walk(schema, nil)
}

func bindingName(header, typ json.RawMessage) (string, error) {
	var name, t string
	if json.Unmarshal(header, &name) != nil || !isToken(name) {
		return "", fmt.Errorf("x-mcp-header %s is not a header name", cleanLine(string(header), 60))
	}
	_ = json.Unmarshal(typ, &t)
	if t != "string" && t != "integer" && t != "boolean" {
		return "", fmt.Errorf("x-mcp-header is for strings, integers and booleans, not for type %s",
			cleanLine(string(typ), 60))
	}
	return name, nil
}

// isToken reports whether s is a valid header name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for _, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c) {
			return false
		}
	}
	return s != ""
}

// boundHeaders returns the headers for the bound arguments, without their prefix.
func boundHeaders(bs []binding, args json.RawMessage) map[string]string {
	if len(bs) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, b := range bs {
		if v, ok := formatPrimitive(lookupPath(args, b.path)); ok {
			out[b.header] = headerValue(v)
		}
	}
	return out
}

// lookupPath returns the value at a path of property names, or nil.
func lookupPath(v json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(v, &m) != nil {
			return nil
		}
		v = m[name]
	}
	return v
}

// formatPrimitive returns a string, a boolean or an integer as text. Integers that a double can't
// represent are omitted, as the revision requires.
func formatPrimitive(v json.RawMessage) (string, bool) {
	switch {
	case len(v) == 0 || string(v) == "null":
		return "", false
	case string(v) == "true" || string(v) == "false":
		return string(v), true
	case v[0] == '"':
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53-1 {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// headerValue encodes s as a header value: unchanged if that is safe, otherwise in the revision's
// Base64 form.
func headerValue(s string) string {
	const prefix, suffix = "=?base64?", "?="
	plain := strings.Trim(s, " \t") == s && !(strings.HasPrefix(s, prefix) && strings.HasSuffix(s, suffix))
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(s)) + suffix
}
