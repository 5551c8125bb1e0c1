// Package lazily makes what most runs of this program never need when it is first needed. Regular expressions that were all
// compiled while the program was initialized took longer than many of its commands.
package lazily

import (
	"regexp"
	"strings"
	"sync"
)

// Regexp compiles expr when it is first asked for. Where expr is none, that panics, as regexp.MustCompile does.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Words makes a set of the words of lists, which space parts, when it is first asked for.
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
