package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Probe runs a guest of the first language and stops an endless one, once, and returns the
// capabilities.
func (d *Driver) Probe(context.Context) (sandbox.Capabilities, error) {
	d.probed.once.Do(func() { d.probed.caps, d.probed.err = d.tryOut() })
	return d.probed.caps, d.probed.err
}

// tryOut runs a guest, stops an endless one by revoking its memory, and returns the host's
// capabilities.
func (d *Driver) tryOut() (sandbox.Capabilities, error) {
	first := d.kinds[0]
	img, err := first.loadImage()
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	if err := d.tryGuest(first); err != nil {
		return sandbox.Capabilities{}, fmt.Errorf("try the embedded engine: %w", err)
	}
	caps := sandbox.Capabilities{
		Driver: "wasm",
		Tier:   tool.WASM,
		Details: map[string]string{
			"memory": fmt.Sprintf(
				"copy-on-write of an image of %d KiB in a %s; a reservation of 8 GiB without access around each guest",
				img.size>>10, img.file.kind),
			"stop":    "the engine's interrupts, then revocation of the guest's memory (tried)",
			"cpu":     cpuClockName,
			"imports": "one stream of lines; no clock, randomness, files, network or modules but what those lines bring",
		},
		Missing: append([]string{sandbox.Unenclosed}, missing...),
	}
	caps.Engines, caps.Builds = map[string]string{}, map[string]string{}
	var titles []string
	for _, k := range d.kinds {
		titles = append(titles, k.lang.title)
		caps.Runtimes = append(caps.Runtimes, k.lang.name)
		caps.Engines[k.lang.name] = k.lang.title + translated
		if g := k.lang.golden; len(g) > headSize {
			caps.Builds[k.lang.name] = identity(g[len(imageMagic)+nameSize:]).String()
		}
	}
	caps.Engine = strings.Join(titles, " and ") + translated
	return caps, nil
}

// translated is appended to the names of engines.
const translated = " (WebAssembly, translated to Go)"

// tryGuest evaluates an expression in a guest, then revokes the memory of a guest in a loop that no
// interrupt stops.
func (d *Driver) tryGuest(k *kind) error {
	img, err := k.loadImage()
	if err != nil {
		return err
	}
	r, err := d.newRegion(img, defaultMemory)
	if err != nil {
		return err
	}
	defer d.pool.returnRegion(img, r)
	r.warm(img.hot) // also for the first program, which gets this region
	host := &trialHost{begun: make(chan struct{}), taken: make(chan struct{})}
	g := newGuest(r, img, host)
	if err := g.enter(func() error { return g.engine.runTrial(false) }); err != nil {
		return err
	}
	done := make(chan error, 1)
	host.endless = true
	go func() {
		stack.Grow()
		done <- g.enter(func() error { return g.engine.runTrial(true) })
	}()
	for {
		select {
		case <-host.begun:
		case <-time.After(time.Millisecond): // an engine that doesn't poll may not be inside yet
		}
		if err := g.revoke(); err != nil {
			return fmt.Errorf("revoke a guest's memory: %w", err)
		}
		host.once.Do(func() { close(host.taken) })
		select {
		case err := <-done:
			if !errors.Is(err, errRevoked) {
				return fmt.Errorf("revoke a guest's memory: it ended with %w", err)
			}
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// A silentHost is the host of a guest that is never interrupted and gets no answers.
type silentHost struct{}

func (silentHost) interrupted() bool         { return false }
func (silentHost) write([]byte)              {}
func (silentHost) ask([]byte) (string, bool) { return "", false }

// A trialHost is a silentHost that signals when an endless guest has started, and blocks it until
// its memory is revoked. It runs during startup, when others need the processor.
type trialHost struct {
	silentHost
	endless bool
	begun   chan struct{}
	taken   chan struct{} // closed, once, when the memory was revoked
	once    sync.Once
}

// interrupted signals that the guest runs. It doesn't stop it.
func (t *trialHost) interrupted() bool {
	if t.endless {
		t.endless = false
		close(t.begun)
		<-t.taken
	}
	return false
}
