//go:build !linux

package child

import (
	"errors"
	"runtime"
)

// confines reports whether this system has protections without which a child must not run.
const confines = false

// layers selects the protections that arm arms.
type layers uint

const all layers = 0

// arm reports the protections of this system, which is only a separate process, and the protections
// that it lacks.
func arm(string, layers) []Protection {
	var ps protections
	ps.add("own process", "in a session of its own, without the environment of its parent", false, nil)
	none := errors.New("there is none on " + runtime.GOOS)
	ps.add("system call filter", "", true, none)
	ps.add("namespaces", "", true, none)
	ps.add("empty root", "", true, none)
	return ps
}
