package typegen

import (
	"strings"
)

// facts describes in words what a type can't express: bounds, format, default. For results it
// includes only what helps to read them.
func facts(n *node, input bool) string {
	if n.kind != jObject {
		return ""
	}
	var f []string
	add := func(s string) {
		if s != "" {
			f = append(f, s)
		}
	}
	if n.isTrue("deprecated") {
		add("deprecated")
	}
	wide := isWide(n) && !input && hasName(typesOf(n), "integer")
	if wide {
		add("a bigint beyond 2^53")
	}
	format := n.str("format")
	switch format {
	case "int32", "int64", "uint64", "double", "float":
	default:
		add(oneLine(format, 40))
	}
	if !input {
		return strings.Join(f, ", ")
	}
	if hasName(typesOf(n), "integer") {
		add("integer")
	}
	add(span(n, "minimum", "maximum", ""))
	add(bound(n, "exclusiveMinimum", "more than "))
	add(bound(n, "exclusiveMaximum", "less than "))
	add(bound(n, "multipleOf", "multiple of "))
	add(span(n, "minLength", "maxLength", " characters"))
	if items := n.get("items"); n.get("prefixItems") == nil && (items == nil || items.kind != jArray) {
		add(span(n, "minItems", "maxItems", " items"))
	}
	if n.isTrue("uniqueItems") {
		add("no duplicates")
	}
	if p := n.str("pattern"); p != "" && len(p) <= 80 {
		add("matches /" + oneLine(p, 80) + "/")
	}
	if d := n.get("default"); d != nil {
		if s := string(d.appendJSON(nil)); len(s) <= 60 {
			add("default " + oneLine(s, 60))
		}
	}
	return strings.Join(f, ", ")
}

func hasName(names []string, want string) bool {
	for _, n := range names {
		if n == want {
			return true
		}
	}
	return false
}

func bound(n *node, key, word string) string {
	v := n.get(key)
	if v == nil || v.kind != jNumber || len(v.s) > 30 {
		return ""
	}
	return word + v.s
}

func span(n *node, low, high, unit string) string {
	lo, hi := bound(n, low, ""), bound(n, high, "")
	if lo == "1" && (hi == "" || hi == "1") || lo == "" && hi == "1" {
		unit = strings.TrimSuffix(unit, "s")
	}
	switch {
	case lo == "0" && unit != "" && hi == "":
		return ""
	case lo != "" && lo == hi:
		return "exactly " + lo + unit
	case lo != "" && hi != "":
		return lo + " to " + hi + unit
	case lo != "":
		return "at least " + lo + unit
	case hi != "":
		return "at most " + hi + unit
	}
	return ""
}
