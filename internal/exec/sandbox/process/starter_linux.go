package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/memfile"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
)

const (
	// maxFailed is the number of failures in a row after which no starter is tried for a while.
	maxFailed = 3
	// Then one is tried after firstPause. If it fails, too, the next one is tried after twice that
	// time, up to lastPause.
	firstPause = time.Minute
	lastPause  = time.Hour
)

// starters keeps the last starter (entry.RecordStarter), and tries none for a while after several
// have failed. Without a starter, a slower program enters the sandbox.
type starters struct {
	clock *wallclock.Clock

	mu      sync.Mutex
	last    []byte // the last starter
	madeFor string // its setup, and the state of the host's folders

	failed int       // failures in a row of starters where the program succeeded
	reason error     // of the last failure
	next   time.Time // none is tried before, after maxFailed failures
}

// expectsStarter reports whether a starter will enter a sandbox, as far as is known before its
// setup.
func (d *Driver) expectsStarter(b *box) bool {
	switch {
	case !entry.HasStarters() || d.small.openFile(d.cfg.Command) == nil || b.image != nil || b.chooseNetwork() != nil ||
		b.spec.Runtime == "python" || b.spec.Runtime == "js" || b.machine != nil && len(b.machine.Mounts) > 0:
		return false
	}
	p := &d.starters
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed < maxFailed || !p.clock.Now().Before(p.next)
}

// openStarter returns a starter for a setup, or nil if the program must enter that sandbox. The
// caller adds it to the files of h, as the last of them.
func (p *starters) openStarter(s *entry.Setup, h *handover) (*os.File, error) {
	content, err := p.recordStarter(*s, entry.SocketFD+len(h.files)+2)
	if content == nil || err != nil || !p.mayTry() {
		return nil, err
	}
	f, err := memfile.CreateFile("biplane-start")
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// recordStarter returns the last starter if it was made for the same setup, and the host's folders
// that are looked at have not changed. Otherwise it returns a new one.
func (p *starters) recordStarter(s entry.Setup, first int) ([]byte, error) {
	key, err := describeEntry(s, first)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	last, madeFor := p.last, p.madeFor
	p.mu.Unlock()
	if madeFor == key {
		return last, nil
	}
	content, err := entry.RecordStarter(s, first)
	if content == nil || err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.last, p.madeFor = content, key
	p.mu.Unlock()
	return content, nil
}

// describeEntry returns a text that differs if another starter is needed. It leaves out the paths
// of mounts that are handed over as descriptors: a starter doesn't use them.
func describeEntry(s entry.Setup, first int) (string, error) {
	var root, etc unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat("/etc", &etc)); err != nil {
		return "", err
	}
	s.Mounts = slices.Clone(s.Mounts)
	for i := range s.Mounts {
		if s.Mounts[i].Mount {
			s.Mounts[i].Path = ""
		}
	}
	line, err := json.Marshal(s)
	return fmt.Sprint(first, root.Ino, root.Mtim, root.Ctim, etc.Ino, etc.Mtim, etc.Ctim, string(line)), err
}

// mayTry reports whether a starter is tried now. During a pause, only one sandbox may try one when
// the pause is over.
func (p *starters) mayTry() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed < maxFailed {
		return true
	}
	now := p.clock.Now()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(p.pauseTime())
	return true
}

// pauseTime returns how long no starter is tried after the failures so far. p.mu is held.
func (p *starters) pauseTime() time.Duration {
	pause := firstPause
	for range p.failed - maxFailed {
		pause = min(2*pause, lastPause)
	}
	return pause
}

// noteSuccess ends a pause: a starter has entered a sandbox.
func (p *starters) noteSuccess(log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed >= maxFailed {
		log.Info("sandboxes start fast again: their starter works")
	}
	p.failed, p.reason = 0, nil
}

// noteFailure counts a failure, and makes the next sandbox have a new starter. The failure may
// pass: memory was scarce, or a limit of the host was reached.
func (p *starters) noteFailure(err error, log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.madeFor = nil, ""
	p.failed++
	p.reason = err
	log.Info("a sandbox started slowly: its starter failed", "error", err)
	if p.failed >= maxFailed {
		p.next = p.clock.Now().Add(p.pauseTime())
		log.Warn("sandboxes start slowly: their starters failed", "failures", p.failed, "retry", p.next, "error", err)
	}
}

// describeFailure returns why no starter is tried now, or "".
func (p *starters) describeFailure() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed < maxFailed {
		return ""
	}
	return fmt.Sprintf("sandboxes start some milliseconds slower, with all protections: %d starters failed in a row, "+
		"and the next is tried at %s. The last failure: %s", p.failed, p.next.UTC().Format(time.RFC3339),
		text.Cut(p.reason.Error(), 1000))
}
