package child

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/resident"
	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// probeFlag prefixes the number of the first escape attempt that a child makes instead of serving.
const probeFlag = "probe="

// idleTime is about the time without frames from the parent after which a child releases memory.
const idleTime = 2 * time.Second

// Main runs a child, in a process started by a Driver. args is the arguments after Config.Command.
// Main creates a driver, and has it create a sandbox, so that everything it needs from the system
// is open. Then it arms every protection while the driver probes itself, and serves until the
// parent disconnects. The error reports why it couldn't start, or how the parent broke the
// protocol.
func Main(args []string, make func() (sandbox.Driver, error)) error {
	if len(args) == 0 {
		return tool.Errorf(tool.Invalid,
			"this command is for internal use: it starts a process around the embedded engine")
	}
	conn, err := openInherited()
	if err != nil {
		return err
	}
	w := newWriter(conn)
	driver, err := make()
	if err != nil {
		return w.send(kindHello, 0, 0, encodeHello(hello{Error: err.Error()}), nil)
	}
	var h hello
	var tried sync.WaitGroup
	if len(args) == 1 {
		if box, err := driver.Create(context.Background(), sandbox.Spec{}); err == nil {
			_ = box.Close() // it was empty
		} // otherwise a later Create returns the error
		// Runs concurrently with arming, which mostly waits for the kernel: a driver probes itself
		// once, and the parent wants the result immediately.
		tried.Go(func() {
			stack.Grow()
			// otherwise a later probe returns the error
			if caps, err := driver.Probe(context.Background()); err == nil {
				h.Capabilities = &caps
			}
		})
	}
	code, _ := resident.FindCode() // without it, the code stays in memory
	h.Protections = arm(args[0], all)
	tried.Wait()
	if err := w.send(kindHello, 0, 0, encodeHello(h), nil); err != nil {
		return err
	}
	if len(args) > 1 {
		return runAttempts(w, conn, number(args[1]))
	}
	// Without a parent there is no state to save.
	idle := resident.NewIdleNotifier(idleTime, idleCode{code})
	defer idle.StopWaiting()
	idle.NoteActivity()
	return serve(conn, w, driver, idle, func() { os.Exit(0) })
}

// idleCode is the program's code while nothing runs.
type idleCode struct{ code resident.Code }

// ReleaseMemory implements resident.Releaser. If it fails, the code stays in memory.
func (c idleCode) ReleaseMemory() { _ = c.code.ReleasePages() }

// number parses the number after probeFlag. If there is none, it returns 0, the first attempt.
func number(arg string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(arg, probeFlag))
	if err != nil {
		return 0
	}
	return n
}

func encodeHello(h hello) []byte {
	b, err := json.Marshal(h)
	if err != nil || len(b) > maxPayload {
		return []byte(`{"error":"it can't say what it is"}`)
	}
	return b
}
