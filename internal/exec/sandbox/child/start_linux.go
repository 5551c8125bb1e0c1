package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
)

// nobodyID is the user and group of a child.
const nobodyID = launch.NobodyID

// startWith starts a child by the given plan or a later one, and returns the number of the plan
// used.
func startWith(command []string, plan int, more []string) (peer, int, error) {
	p, plan, err := launch.Start(command, plan, more)
	if err != nil {
		return nil, plan, err
	}
	return newPeer(p), plan, nil
}

// takeOver returns the child that was started in advance, to the first caller.
func takeOver(b *launch.EarlyProcess) (peer, bool, error) {
	p, ok, err := b.Take()
	if err != nil || !ok {
		return nil, ok, err
	}
	return newPeer(p), true, nil
}

// A linuxPeer is a child at the other end of a socket.
type linuxPeer struct {
	socket
	p *launch.Process
}

func newPeer(p *launch.Process) *linuxPeer {
	return &linuxPeer{newSocket(p.Socket, "parent"), p}
}

func (p *linuxPeer) kill()         { p.p.Kill() }
func (p *linuxPeer) memory() int64 { return residentMemory(p.p.PID) }

// wait waits for the child to end, and describes the end in words that follow "the engine's
// process".
func (p *linuxPeer) wait() string {
	status, err := p.p.Wait()
	if err != nil {
		return "ended"
	}
	return ending(status, p.p.Said.Text())
}

// residentMemory returns the resident memory of a process, in bytes, or 0 if unknown.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
