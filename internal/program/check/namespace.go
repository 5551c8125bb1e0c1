package check

import (
	"strings"
	"unicode"
)

const (
	// fewTools is up to how many tools of a whole catalog a program is told of all of them.
	fewTools = 300
	// fewMembers is up to how many tools of an upstream a program that mentions it is told of all of them.
	fewMembers = 300
)

// Namespaces gives what the program finds as globals: every upstream of the view, with its members where the catalog is
// small or the source mentions the upstream, and of a large upstream those members that the source mentions too. A
// member that isn't listed can be called all the same.
func (x *Index) Namespaces(source string) map[string][]string {
	v := x.view
	entries := v.Entries()
	all := make(map[string][]string)
	size := make(map[string]int)
	for _, u := range v.Upstreams() {
		all[u.Namespace] = []string{}
		size[u.Namespace] = u.Tools
	}
	mentioned := words(source)
	for _, e := range entries {
		switch {
		case len(entries) <= fewTools:
		case !mentioned[e.Namespace]:
			continue
		case size[e.Namespace] > fewMembers && !mentioned[e.Member]:
			continue
		}
		all[e.Namespace] = append(all[e.Namespace], e.Member)
	}
	return all
}

// words gives the identifiers in s, wherever they stand.
func words(s string) map[string]bool {
	found := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r != '_' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Mc, r)
	}) {
		found[w] = true
	}
	return found
}
