package program

import (
	"regexp"
	"sync"
)

// lazily makes a regular expression when it is first needed: most programs need none, and to make all of them was a part of
// the program's start that could be seen.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
