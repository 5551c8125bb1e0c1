// Package guest creates the guests of programs: fresh ones, ones restored from a snapshot, and ones
// rebuilt from a journal. It chooses the kind of sandbox for a program by what the drivers can do,
// but doesn't know what guests are used for.
package guest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// runtimes maps languages to the drivers' names of their runtimes.
var runtimes = map[string]string{"typescript": "js", "python": "python", "bash": "bash", "go": "go", "rust": "rust",
	"java": "java"}

// Runtime returns the drivers' name of a language's runtime, or "" if there is none.
func Runtime(language string) string { return runtimes[language] }

// Engine returns the name and version of the engine that runs a language, for display.
func Engine(caps sandbox.Capabilities, language string) string {
	if e := caps.Engines[runtimes[language]]; e != "" {
		return e
	}
	return caps.Engine
}

// Build returns the identity of the engine build that runs a language.
func Build(caps sandbox.Capabilities, language string) string {
	if b := caps.Builds[runtimes[language]]; b != "" {
		return b
	}
	return caps.Engine
}

// A Source creates guests of one kind of sandbox. It is safe for concurrent use.
type Source struct {
	kind  sandbox.Kind
	cfg   Config
	caps  *capabilities
	image string // image of the sandboxes; empty: the driver's default
}

// KindName returns the name of the kind of sandbox.
func (s *Source) KindName() string { return s.kind.Name }

// ErrNoSnapshots means that the state of a guest can't be stored.
var ErrNoSnapshots = &tool.Error{Kind: tool.Unavailable,
	Msg: "this kind of sandbox has no sessions: its state can't be kept. Leave session out"}

// capabilities caches the capabilities of a driver once it has reported them. Errors are not
// cached, since they may be temporary.
type capabilities struct {
	mu     sync.Mutex
	cached *sandbox.Capabilities
}

// probeOnce returns the capabilities of d. It probes d unless an earlier probe succeeded.
func (c *capabilities) probeOnce(ctx context.Context, d sandbox.Driver) (sandbox.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached == nil {
		said, err := d.Probe(ctx)
		if err != nil {
			return said, err
		}
		c.cached = &said
	}
	return *c.cached, nil
}

// spec returns the spec of sandboxes for a language and an owner.
func (s *Source) spec(language, owner string) sandbox.Spec {
	return sandbox.Spec{Runtime: runtimes[language], Owner: owner, Memory: s.cfg.Memory, CPU: s.cfg.CPU,
		Image: s.image}
}

// BuildOf returns the identity of the engine build that runs a language.
func (s *Source) BuildOf(ctx context.Context, language string) (string, error) {
	caps, err := s.caps.probeOnce(ctx, s.kind.Driver)
	return Build(caps, language), err
}

// Fresh creates a guest that has run nothing.
func (s *Source) Fresh(ctx context.Context, owner, language string) (sandbox.Sandbox, error) {
	box, err := s.kind.Driver.Create(ctx, s.spec(language, owner))
	if err != nil {
		return nil, fmt.Errorf("create a sandbox: %w", err)
	}
	return box, nil
}

// Restores reports whether a guest like box can be restored after it was closed.
func (s *Source) Restores(box sandbox.Sandbox) bool {
	_, snapshots := box.(sandbox.Snapshotter)
	_, restores := s.kind.Driver.(sandbox.Restorer)
	return snapshots && restores
}

// Restore creates a guest from a snapshot.
func (s *Source) Restore(ctx context.Context, owner, language string, snapshot []byte) (sandbox.Sandbox, error) {
	r, ok := s.kind.Driver.(sandbox.Restorer)
	if !ok {
		return nil, ErrNoSnapshots
	}
	return r.Restore(ctx, s.spec(language, owner), snapshot)
}

// Snapshot returns a snapshot of a guest.
func Snapshot(ctx context.Context, box sandbox.Sandbox) ([]byte, error) {
	s, ok := box.(sandbox.Snapshotter)
	if !ok {
		return nil, ErrNoSnapshots
	}
	return s.Snapshot(ctx)
}

// Replay does the same as Rerun, and also returns a snapshot of the guest.
func (s *Source) Replay(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox,
	snapshot []byte, err error) {
	if box, err = s.Rerun(ctx, owner, language, journals); err != nil {
		return nil, nil, err
	}
	if snapshot, err = Snapshot(ctx, box); err != nil {
		return nil, nil, errors.Join(err, box.Close())
	}
	return box, snapshot, nil
}

// Rerun creates a guest and replays the programs of a language. Without programs it returns a fresh
// guest.
func (s *Source) Rerun(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox,
	err error) {
	if box, err = s.Fresh(ctx, owner, language); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.Close())
		}
	}()
	for i, j := range journals {
		if j.Language != language {
			continue
		}
		if err := replay(ctx, box, j); err != nil {
			return nil, tool.Errorf(tool.Conflict, "program %d of %d: %w", i+1, len(journals), err)
		}
	}
	return box, nil
}
