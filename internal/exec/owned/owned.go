// Package owned keeps principals' own sandboxes: machines (sandbox.Machine) that belong to a
// principal, with files that outlive their processes. Their operations are tools (ListTools), so
// each is a call that passes the gateway.
//
// A sandbox that is not used is put on standby: its processes are frozen, then their memory is
// taken back, then they are ended, with the files kept. The next use wakes it, and the answer names
// the state that it was in.
package owned

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits are bounds on sandboxes. A zero field means its default.
type Limits struct {
	Count       int           // sandboxes of all principals; default 256
	Each        int           // sandboxes of one principal; default 16
	Running     int           // sandboxes with processes, also frozen ones; default 16
	RunningEach int           // of one principal; default 4
	Memory      int64         // bytes of one sandbox's processes; default 512 MiB
	TotalMemory int64         // bytes of the processes of all sandboxes in standby; default 1 GiB
	Disk        int64         // bytes of one sandbox's files; default 1 GiB
	Files       int           // files and folders of one sandbox; default 100,000
	Processes   int           // processes and threads of one sandbox; default 256
	RunTime     time.Duration // the longest time of one command; default 1 h
	Standby     time.Duration // an idle sandbox is frozen after this time; default 15 s
	EndAfter    time.Duration // a frozen sandbox's processes are ended after this time; default 30 min
	Unused      time.Duration // an unused sandbox is removed with its files after this time; default 30 days
	Previews    time.Duration // the longest time that a link to a port is valid; 0: there are none
}

// CompleteLimits returns the limits with defaults for zero fields.
func (l Limits) CompleteLimits() Limits {
	setDefault(&l.Count, 256)
	setDefault(&l.Each, 16)
	setDefault(&l.Running, 16)
	setDefault(&l.RunningEach, 4)
	setDefault(&l.Memory, 512<<20)
	setDefault(&l.TotalMemory, 1<<30)
	setDefault(&l.Disk, 1<<30)
	setDefault(&l.Files, 100_000)
	setDefault(&l.Processes, 256)
	setDefault(&l.RunTime, time.Hour)
	setDefault(&l.Standby, 15*time.Second)
	setDefault(&l.EndAfter, 30*time.Minute)
	setDefault(&l.Unused, 30*24*time.Hour)
	return l
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// A Host is the system that sandboxes run on.
type Host interface {
	// AvailableMemory returns the memory that is left, in bytes.
	AvailableMemory() int64
}

// An Egress decides on the connections of sandboxes, and makes them. The zero Egress makes none.
type Egress struct {
	Network sandbox.Network
	Hosts   traffic.Hosts
	Door    tool.Caller
}

// Config configures Sandboxes. Dir, Store and Log must be set.
type Config struct {
	Driver sandbox.MachineDriver // nil: no sandbox can be created, for the reason in Unable
	Unable error
	Egress Egress // of sandboxes with a network
	// Previews opens ports to browsers; nil: none.
	Previews Previews
	Dir      string // folder of the sandboxes' files; created when needed
	Store    Store
	Limits   Limits
	Log      *slog.Logger
	Clock    *wallclock.Clock // nil: the system's
	Host     Host             // nil: this system
	// MeasureEach is the time between two measurements of a running sandbox's files; default 2 s.
	MeasureEach time.Duration
}

// Sandboxes are the sandboxes of all principals: their operations, and the keeper that puts idle
// ones on standby. They are safe for concurrent use.
type Sandboxes struct {
	machines
	kick chan struct{} // has an element when a deadline may have become earlier
}

// NewSandboxes returns Sandboxes. It reads and starts nothing.
func NewSandboxes(cfg Config) *Sandboxes {
	cfg.Limits = cfg.Limits.CompleteLimits()
	if cfg.Host == nil {
		cfg.Host = system{}
	}
	setDefault(&cfg.MeasureEach, 2*time.Second)
	return &Sandboxes{machines: machines{boxes: boxes{cfg: cfg, by: map[string]*box{}}},
		kick: make(chan struct{}, 1)}
}

// A Request asks for a new sandbox. Zero fields mean the defaults.
type Request struct {
	Name    string
	Image   string
	Memory  int64
	TTL     time.Duration
	Idle    time.Duration
	Standby time.Duration
	Network bool
}

// checkRequest returns an error if a request is invalid.
func (s *Sandboxes) checkRequest(q *Request) error {
	l := s.cfg.Limits
	switch {
	case s.cfg.Driver == nil:
		return tool.Errorf(tool.Unavailable, "sandboxes can't be created here: %w", s.cfg.Unable)
	case q.Name != "" && !isName(q.Name):
		return tool.Errorf(tool.Invalid, "invalid name %q: write 1 to 64 letters, digits, dots, underscores and "+
			"hyphens", text.Clip(q.Name, 80))
	case q.Memory < 0 || q.Memory > l.Memory:
		return tool.Errorf(tool.Limit, "a sandbox has at most %s of memory (sandboxes.memory)", text.Size(l.Memory))
	case q.Memory != 0 && q.Memory < 16<<20:
		return tool.Errorf(tool.Invalid, "a sandbox needs at least 16 MiB of memory")
	case q.Network && s.cfg.Egress.Network == nil:
		return tool.Errorf(tool.Unavailable, "sandboxes have no network here: create it without one")
	case q.TTL < 0 || q.Idle < 0 || q.Idle > l.Unused:
		return tool.Errorf(tool.Invalid, "ttl and idle must be positive, and idle at most %s (sandboxes.unused)",
			text.Setting(l.Unused))
	}
	return s.checkImage(q.Image)
}

// checkImage returns an error if there is no image with the name. Without one, it returns nil.
func (s *Sandboxes) checkImage(name string) error {
	d, ok := s.cfg.Driver.(sandbox.Imager)
	if name == "" || !ok {
		return nil
	}
	all, err := d.ListImages()
	if err == nil && !slices.ContainsFunc(all, func(i sandbox.Image) bool { return i.Name == name }) {
		err = tool.Errorf(tool.NotFound, "there is no image %q: biplane image list shows the images, "+
			"and biplane image build makes one", text.Clip(name, 80))
	}
	return err
}

// isName reports whether a sandbox may have a name. It can't be taken for an ID.
func isName(name string) bool {
	valid := func(c rune) bool {
		return c < 128 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("._-", c))
	}
	return len(name) > 0 && len(name) <= 64 && !strings.HasPrefix(name, idPrefix) &&
		!strings.ContainsFunc(name, func(c rune) bool { return !valid(c) })
}

const idPrefix = "sb_"

// CreateSandbox creates a sandbox. Its processes start with its first use.
func (s *Sandboxes) CreateSandbox(ctx context.Context, p tool.Principal, labels []string, q Request) (*Info, error) {
	if err := s.checkRequest(&q); err != nil {
		return nil, err
	}
	now := s.cfg.Clock.Now().UTC()
	r := Record{ID: idPrefix + strings.ToLower(rand.Text()[:20]), Owner: p.ID, Name: q.Name, Image: q.Image,
		Memory: q.Memory, Created: now, Used: now, Idle: q.Idle, Standby: q.Standby, Network: q.Network,
		Labels: labels}
	if r.Memory == 0 {
		r.Memory = s.cfg.Limits.Memory
	}
	if q.TTL > 0 {
		r.Expires = now.Add(q.TTL)
	}
	b := newBox(r)
	b.turn <- struct{}{} // other calls wait until it has a record and a folder
	defer func() { <-b.turn }()
	if err := s.addBox(ctx, b); err != nil {
		return nil, err
	}
	err := s.saveRecord(ctx, b)
	if err == nil {
		err = s.explainFiles(b, "created", os.MkdirAll(s.folderOf(r.ID), 0o700))
	}
	if err != nil {
		s.mu.Lock()
		b.removed = true
		delete(s.by, r.ID)
		s.mu.Unlock()
		return nil, errors.Join(err, s.cfg.Store.DropSandbox(context.WithoutCancel(ctx), r.ID))
	}
	s.wakeKeeper()
	return s.describeBox(b), nil
}

// ListSandboxes returns a principal's sandboxes, the oldest first.
func (s *Sandboxes) ListSandboxes(ctx context.Context, p tool.Principal) ([]Info, error) {
	s.mu.Lock()
	err := s.loadRecords(ctx)
	var own []*box
	for _, b := range s.by {
		if b.rec.Owner == p.ID {
			own = append(own, b)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(own))
	for _, b := range own {
		out = append(out, *s.describeBox(b))
	}
	slices.SortFunc(out, func(a, b Info) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// ListEnding returns the IDs of all sandboxes that are removed by a time, with that time. Sandboxes
// with a life of at most short are not among them.
func (s *Sandboxes) ListEnding(ctx context.Context, by time.Time, short time.Duration) (out []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.loadRecords(ctx); err != nil {
		return nil, err
	}
	for _, b := range s.by {
		if e := b.rec.Expires; !e.IsZero() && e.Before(by) && e.Sub(b.rec.Created) > short {
			out = append(out, b.rec.ID+" "+e.UTC().Format(time.RFC3339))
		}
	}
	return out, nil
}

// ShowSandbox describes a principal's sandbox.
func (s *Sandboxes) ShowSandbox(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.measureBox(b); err != nil && tool.AsError(err).Kind != tool.Limit {
		return nil, err
	}
	return s.describeBox(b), nil
}

// EndSandbox ends a principal's sandbox, and removes its files.
func (s *Sandboxes) EndSandbox(ctx context.Context, p tool.Principal, name string) (id string, err error) {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	return b.rec.ID, s.removeBox(ctx, b, nil)
}

// removeBox ends a sandbox, and removes its files, then its record. So after a crash or a failure,
// the sandbox is still there, and can be ended again. Unless isDue is nil, removeBox does
// nothing if it returns false; boxes.mu is held then.
func (s *Sandboxes) removeBox(ctx context.Context, b *box, isDue func() bool) error {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	if b.removed || isDue != nil && !isDue() {
		s.mu.Unlock()
		return nil // it is being removed, or used
	}
	b.removed = true
	delete(s.by, b.rec.ID)
	m := b.machine
	s.mu.Unlock()
	err := s.removeParts(ctx, b, m)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	b.removed = false
	s.by[b.rec.ID] = b
	s.mu.Unlock()
	return fmt.Errorf("end a sandbox: %w", err)
}

// removeParts ends a sandbox's processes, and removes its files and its record.
func (s *Sandboxes) removeParts(ctx context.Context, b *box, m sandbox.Machine) error {
	if m != nil { // also ends the operations under way
		if err := m.Close(); err != nil {
			return err
		}
	}
	b.turn <- struct{}{} // a start under way sees that it was removed
	defer func() { <-b.turn }()
	s.mu.Lock()
	m, b.machine = b.machine, nil
	s.mu.Unlock()
	if m != nil {
		if err := m.Close(); err != nil {
			return err
		}
		<-m.EndSignal() // someone else may be closing it
	}
	if err := folder.RemoveFolder(s.folderOf(b.rec.ID)); err != nil {
		return s.explainFiles(b, "removed", err)
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	return s.cfg.Store.DropSandbox(ctx, b.rec.ID)
}

// CloseAll ends the processes of all sandboxes. Their files are kept.
func (s *Sandboxes) CloseAll() error {
	s.mu.Lock()
	s.closed = true
	var all []sandbox.Machine
	for _, b := range s.by {
		if b.machine != nil {
			all = append(all, b.machine)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, m := range all {
		errs = append(errs, m.Close())
	}
	s.guards.Wait()
	return errors.Join(errs...)
}

// FindSandbox returns the ID of a principal's sandbox.
func (s *Sandboxes) FindSandbox(ctx context.Context, p tool.Principal, name string) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findBox(ctx, p, name)
	if err != nil {
		return "", err
	}
	return b.rec.ID, nil
}

// HasSandbox reports whether there is a sandbox with an ID, of whichever principal.
func (s *Sandboxes) HasSandbox(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id] != nil
}
