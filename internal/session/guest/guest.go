// Package guest gives the guests of programs: fresh ones, ones that a snapshot brings back, and ones that have run the programs of a
// journal again. It knows what the driver can do, and nothing of who uses a guest for what.
package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// runtimes are the names that drivers have for what runs a language.
var runtimes = map[string]string{"typescript": "js", "python": "python"}

// Runtime is the name that drivers have for what runs a language; empty where nothing does.
func Runtime(language string) string { return runtimes[language] }

// Engine is the name and the version of what runs a language, for people.
func Engine(caps sandbox.Capabilities, language string) string {
	if e := caps.Engines[runtimes[language]]; e != "" {
		return e
	}
	return caps.Engine
}

// Build is the identity of the engine that runs a language.
func Build(caps sandbox.Capabilities, language string) string {
	if b := caps.Builds[runtimes[language]]; b != "" {
		return b
	}
	return caps.Engine
}

// Config makes a Source.
type Config struct {
	Driver sandbox.Driver
	Memory int64         // bytes a guest may hold; 0: the driver's default
	CPU    time.Duration // CPU time of one program
}

// A Source gives guests. It is safe for concurrent use.
type Source struct {
	cfg  Config
	caps capabilities
}

// New makes a Source.
func New(cfg Config) *Source { return &Source{cfg: cfg} }

// ErrNoSnapshots is the error where the state of a guest is to be kept, and can't be.
var ErrNoSnapshots = tool.Errorf(tool.Unavailable, "this kind of sandbox has no sessions: its state can't be kept. Leave session out")

// capabilities are what a driver says that it can do, asked until it has said so once: what kept it from that may pass.
type capabilities struct {
	mu   sync.Mutex
	said *sandbox.Capabilities
}

func (c *capabilities) of(ctx context.Context, d sandbox.Driver) (sandbox.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil {
		said, err := d.Probe(ctx)
		if err != nil {
			return said, err
		}
		c.said = &said
	}
	return *c.said, nil
}

// Runs reports whether the driver runs a language, and where it does what it can.
func (s *Source) Runs(ctx context.Context, language string) (sandbox.Capabilities, error) {
	caps, err := s.caps.of(ctx, s.cfg.Driver)
	var crash *sandbox.CrashError
	switch {
	case errors.As(err, &crash): // the next program may find another process
		return caps, err
	case err != nil:
		return caps, &tool.Error{Kind: tool.Unavailable, Msg: "no sandbox can run here: " + err.Error(), Err: err}
	}
	if !slices.Contains(caps.Runtimes, runtimes[language]) {
		var there []string
		for name, runtime := range runtimes {
			if slices.Contains(caps.Runtimes, runtime) {
				there = append(there, strconv.Quote(name))
			}
		}
		slices.Sort(there)
		return caps, tool.Errorf(tool.Invalid, "language %q can't run here: write the program in %s", language, strings.Join(there, " or "))
	}
	return caps, nil
}

// spec is what sandboxes are made for.
func (s *Source) spec(language, owner string) sandbox.Spec {
	return sandbox.Spec{Runtime: runtimes[language], Owner: owner, Memory: s.cfg.Memory, CPU: s.cfg.CPU}
}

// Fresh makes a guest that has run nothing.
func (s *Source) Fresh(ctx context.Context, owner, language string) (sandbox.Sandbox, error) {
	box, err := s.cfg.Driver.Create(ctx, s.spec(language, owner))
	if err != nil {
		return nil, fmt.Errorf("create a sandbox: %w", err)
	}
	return box, nil
}

// Restores reports whether a guest such as box can be brought back when it was closed.
func (s *Source) Restores(box sandbox.Sandbox) bool {
	_, snapshots := box.(sandbox.Snapshotter)
	_, restores := s.cfg.Driver.(sandbox.Restorer)
	return snapshots && restores
}

// Restore makes a guest of a snapshot.
func (s *Source) Restore(ctx context.Context, owner, language string, snapshot []byte) (sandbox.Sandbox, error) {
	r, ok := s.cfg.Driver.(sandbox.Restorer)
	if !ok {
		return nil, ErrNoSnapshots
	}
	return r.Restore(ctx, s.spec(language, owner), snapshot)
}

// Snapshot gives a guest as it is.
func Snapshot(ctx context.Context, box sandbox.Sandbox) ([]byte, error) {
	s, ok := box.(sandbox.Snapshotter)
	if !ok {
		return nil, ErrNoSnapshots
	}
	return s.Snapshot(ctx)
}

// Replay is Rerun, and gives what the programs leave as a snapshot, too.
func (s *Source) Replay(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox, snapshot []byte, err error) {
	if box, err = s.Rerun(ctx, owner, language, journals); err != nil {
		return nil, nil, err
	}
	if snapshot, err = Snapshot(ctx, box); err != nil {
		return nil, nil, errors.Join(err, box.Close())
	}
	return box, snapshot, nil
}

// Rerun makes a guest that has run the programs of a language again; without any a fresh one.
func (s *Source) Rerun(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox, err error) {
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
		if err := j.Replay(ctx, box, nil); err != nil {
			return nil, tool.Errorf(tool.Conflict, "program %d of %d: %w", i+1, len(journals), err)
		}
	}
	return box, nil
}
