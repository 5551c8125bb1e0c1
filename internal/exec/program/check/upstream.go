package check

import (
	"slices"
	"strings"
)

// computed lists words in programs that may use upstreams not named in their text. They do so by
// computed names, as files, by search, through the global object, or in generated code.
var computed = []string{
	"tools", "search", "callTool", "import", "require", "readdir", "globalThis", "self", "this", "window", "global",
	"eval", "Function", "constructor", `\u`,
}

// MayUseUpstream returns a function that reports whether a program may use the upstream with a name
// and a namespace. It is nil if the program may use any upstream: because it can reach it by a
// computed name, or calls a tool by its bare name. It only scans the text, and may be true of an
// upstream that the program doesn't use.
func MayUseUpstream(source string) func(name, namespace string) bool {
	if slices.ContainsFunc(computed, func(w string) bool { return strings.Contains(source, w) }) ||
		CallsUndeclared(source) {
		return nil
	}
	return func(name, namespace string) bool {
		return strings.Contains(source, name) || strings.Contains(source, namespace)
	}
}
