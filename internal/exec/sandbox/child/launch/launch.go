// Package launch starts the processes around the engine, and starts one while the rest of this
// program is still being initialized.
//
// For that reason it is a separate package that imports only os and its dependencies. Go
// initializes a package as soon as its imports are, so this one is among the first, milliseconds
// before package child, which implements the protocol. It starts processes on Linux only. Elsewhere
// Begin does nothing, and child starts its processes itself.
package launch

import (
	"os"
	"runtime"
	"slices"
	"sync"
)

// maxSaid is how much of a process's standard error is kept, in bytes.
const maxSaid = 4 << 10

// Environment returns the complete environment of a process. The settings keep the runtime from
// reading files for the number of processors, at the start and later.
func Environment() []string {
	return []string{"GOMAXPROCS=" + decimal(runtime.GOMAXPROCS(0)), "GODEBUG=updatemaxprocs=0,containermaxprocs=0"}
}

// decimal formats n, which is at least 0. It avoids package strconv, whose initialization would
// delay this package.
func decimal(n int) string {
	b := []byte{byte('0' + n%10)}
	for n /= 10; n > 0; n /= 10 {
		b = append(b, byte('0'+n%10))
	}
	slices.Reverse(b)
	return string(b)
}

// Called is the name under which this program was called; its processes get the same name. It is
// read during initialization, because a process may be started then, before other code changes
// os.Args.
var Called = os.Args[0]

// A Tail keeps the beginning of a process's standard error, where Go reports why it exits.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps b as far as it fits, and drops the rest.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), maxSaid-len(t.text))]...)
	return len(b), nil
}

// Text returns the kept text.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
