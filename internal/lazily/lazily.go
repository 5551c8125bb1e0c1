// Package lazily makes what most runs of this program never need when it is first needed. Regular expressions that were all
// compiled while the program was initialized took longer than many of its commands.
package lazily

import (
	"regexp"
	"sync"
)

// Regexp compiles expr when it is first asked for. Where expr is none, that panics, as regexp.MustCompile does.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
