// Package launch starts processes around the engine, and begins one while the rest of this program is still being initialized.
//
// That is why it is a package, and why it imports nothing but os and what os does: Go initializes a package as soon as its own imports are, so that
// this one comes among the first, milliseconds before package child, which knows what is said to such a process. It starts them on
// Linux only; elsewhere Begin begins nothing, and child starts its processes itself.
package launch

import (
	"os"
	"runtime"
	"slices"
	"sync"
)

// maxSaid bounds what is kept of what a process writes to standard error, in bytes.
const maxSaid = 4 << 10

// Environment is all that a process is told by variables. The runtime is not to look at files for the number of processors, neither
// now nor later.
func Environment() []string {
	return []string{"GOMAXPROCS=" + decimal(runtime.GOMAXPROCS(0)), "GODEBUG=updatemaxprocs=0,containermaxprocs=0"}
}

// decimal writes n, which is at least 0: package strconv would be waited for.
func decimal(n int) string {
	b := []byte{byte('0' + n%10)}
	for n /= 10; n > 0; n /= 10 {
		b = append(b, byte('0'+n%10))
	}
	slices.Reverse(b)
	return string(b)
}

// Called is the name by which this program was called, as its processes are. It is read while the program is initialized, since one
// may be begun then, beside whatever else comes to change os.Args.
var Called = os.Args[0]

// A Tail keeps the beginning of what a process writes to standard error, where Go says why it ends.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps b, or drops it.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), maxSaid-len(t.text))]...)
	return len(b), nil
}

// Text gives what was kept.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
