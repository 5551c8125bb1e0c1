package child

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/stack"
	"github.com/biplane-dev/biplane/internal/tool"
)

// probeFlag goes before the number of the attempt from which on a child is to make them, instead of serving.
const probeFlag = "probe="

// Main is what a child does, in a process that a Driver started: args are what follows its Command. It makes a driver,
// lets it make a sandbox, so that all it needs of the system is open, arms every protection while the driver tries itself
// out (Probe), and then serves until the parent ends. The error is why it couldn't begin, or how the parent broke the protocol.
func Main(args []string, make func() (sandbox.Driver, error)) error {
	if len(args) == 0 {
		return tool.Errorf(tool.Invalid, "this command is for Biplane itself: it becomes a process around the embedded engine")
	}
	conn, err := inherited()
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
		} // else Create says so to those who ask
		// Beside arming, most of which is waiting for the kernel: a driver tries itself out once, and the parent wants to know at once.
		tried.Go(func() {
			stack.Grow()
			if caps, err := driver.Probe(context.Background()); err == nil { // else whoever asks hears
				h.Capabilities = &caps
			}
		})
	}
	h.Protections = arm(args[0], all)
	tried.Wait()
	if err := w.send(kindHello, 0, 0, encodeHello(h), nil); err != nil {
		return err
	}
	if len(args) > 1 {
		return try(w, conn, number(args[1]))
	}
	// Without a parent there is nothing to save.
	return serve(conn, w, driver, func() { os.Exit(0) })
}

// number is the number after probeFlag; 0, which is the first, where there is none.
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
