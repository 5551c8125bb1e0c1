// Package lazily creates values on first use, if most runs of this program never need them.
// Compiling all regular expressions at initialization took longer than many commands.
package lazily

import (
	"regexp"
	"strings"
	"sync"
)

// Regexp returns a function that compiles expr on its first call. If expr is invalid, that call
// panics, like regexp.MustCompile.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Words returns a function that builds the set of the space-separated words of lists on its first
// call.
func Words(lists ...string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, l := range lists {
			for _, w := range strings.Fields(l) {
				set[w] = true
			}
		}
		return set
	})
}
