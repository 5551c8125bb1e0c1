//go:build !linux

package child

import (
	"errors"
	"runtime"
)

// confines says that this system has protections without which a child is not to run.
const confines = false

// layers are the protections that arm arms.
type layers uint

const all layers = 0

// arm arms what this system has, which is a process of its own, and says what it lacks.
func arm(string, layers) []Protection {
	var ps protections
	ps.add("own process", "in a session of its own, without the environment of its parent", false, nil)
	none := errors.New("there is none on " + runtime.GOOS)
	ps.add("system call filter", "", true, none)
	ps.add("namespaces", "", true, none)
	ps.add("empty root", "", true, none)
	return ps
}
