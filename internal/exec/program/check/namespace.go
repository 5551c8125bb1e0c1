package check

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// pythonNames are names that have a meaning in every Python program.
var pythonNames = lazily.Words(
	`False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield match case type self cls
	abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright credits
	delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input
	int isinstance issubclass iter len license list locals map max memoryview min next object oct open ord pow print property quit
	range repr reversed round set setattr slice sorted staticmethod str sum super tuple vars zip
	tools call_tool callTool search read_result readResult emit ToolError asyncio json main run servers codemode mcp api
	text image notify store load sleep final_answer`)

const (
	// fewTools is the maximum size of a catalog all of whose tools are listed for every program.
	fewTools = 300
	// fewMembers is the maximum number of tools of an upstream that are all listed for a program
	// that mentions it.
	fewMembers = 300
)

// methodMembers are the members with which programs use the resources and prompts of MCP servers.
var methodMembers = [...]string{"resources_read", "resources_list", "resources_templates", "prompts_get",
	"prompts_list"}

// Namespaces returns the global names of the program: every upstream of the view, with its members.
// In a large catalog, only upstreams that the source mentions have members. A large upstream has
// only the members that the source mentions, too. A member that isn't listed can be called anyway.
// whole are the namespaces whose members are complete.
func (x *Index) Namespaces(source string) (all map[string][]string, whole []string) {
	v := x.view
	all = make(map[string][]string)
	size := make(map[string]int)
	total := 0
	for _, u := range v.Upstreams() {
		all[u.Namespace] = []string{}
		size[u.Namespace] = u.Tools
		total += u.Tools
	}
	mentioned, complete := words(source), make(map[string]int)
	for space, member := range v.MemberNames() {
		complete[space]++
		switch {
		case total <= fewTools:
		case !mentioned[space]:
			continue
		case size[space] > fewMembers && !mentioned[member] && !isMentioned(member, mentioned):
			continue
		}
		all[space] = append(all[space], member)
	}
	for space, members := range all { // even if the upstream has no such method: the call's error says so
		for _, member := range methodMembers {
			group, _, _ := strings.Cut(member, "_")
			if mentioned[space] && mentioned[group] && !slices.Contains(members, member) {
				all[space] = append(all[space], member)
			}
		}
	}
	for name, members := range all {
		if len(members) == complete[name] && x.spaces[name].current() {
			whole = append(whole, name)
		}
	}
	slices.Sort(whole)
	return all, whole
}

// isMentioned reports whether all words of a member are in the source: github.resources.read for
// resources_read.
func isMentioned(member string, mentioned map[string]bool) bool {
	for part := range strings.SplitSeq(member, "_") {
		if !mentioned[part] {
			return false
		}
	}
	return true
}

// maxAliases is the maximum number of aliases of a program.
const maxAliases = 500

// Aliases returns the words of a source that denote an upstream or a tool in the style of another
// system, with their plain paths. It omits words that have a meaning in the language, and names
// that the program declares take precedence anyway.
func (x *Index) Aliases(source string, python bool) map[string]string {
	taken := globalNames
	if python {
		taken = pythonNames
	}
	out := map[string]string{}
	for _, w := range slices.Sorted(maps.Keys(words(source))) { // sorted: the same program gets the same ones
		if taken.Has(w) || x.spaces[w] != nil || len(w) < 2 || len(out) >= maxAliases {
			continue
		}
		if to := x.view.Alias(w); to != "" {
			out[w] = to
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// words returns all identifiers in s.
func words(s string) map[string]bool {
	found := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) &&
			!unicode.Is(unicode.Mc, r)
	}) {
		found[w] = true
	}
	return found
}
