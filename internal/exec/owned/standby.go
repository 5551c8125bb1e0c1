package owned

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the state of a sandbox's processes.
type State string

// The states, from the quickest to wake to the slowest.
const (
	Running   State = "running"   // in use
	Idle      State = "idle"      // not in use, but its processes run
	Frozen    State = "frozen"    // its processes stand still
	Reclaimed State = "reclaimed" // frozen, and the system has taken back memory
	Stopped   State = "stopped"   // it has no processes, only files
)

// MemoryReserve is how much memory of the host must be left. Otherwise sandboxes in standby lose
// theirs.
const MemoryReserve = 512 << 20

// A box is a sandbox. Sandboxes.mu guards its fields, except turn.
type box struct {
	rec     Record
	turn    chan struct{} // has an element while its processes start, freeze, wake or end
	machine sandbox.Machine
	frozen  bool
	shrunk  bool      // its memory was taken back
	why     string    // why its processes were ended; empty: they were not started yet
	lacks   string    // what the host lacks to take back memory
	users   int       // operations under way
	since   time.Time // start of the idle time
	starts  bool      // its processes are starting
	removed bool
	removes int   // operations under way that remove files
	used    usage // of files
	egress  egressState

	saving sync.Mutex // while the record is stored or dropped, so that the newest is last
}

func newBox(r Record) *box { return &box{rec: r, turn: make(chan struct{}, 1), since: r.Used} }

// saveRecord stores the record of a sandbox, unless it was removed.
func (s *Sandboxes) saveRecord(ctx context.Context, b *box) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	s.mu.Lock()
	r, removed := b.rec, b.removed
	s.mu.Unlock()
	if removed {
		return nil
	}
	return s.cfg.Store.SaveSandbox(ctx, &r)
}

// currentState returns the state of the processes. Sandboxes.mu is held.
func (b *box) currentState() State {
	switch {
	case b.machine == nil:
		return Stopped
	case b.shrunk:
		return Reclaimed
	case b.frozen:
		return Frozen
	case b.users > 0:
		return Running
	}
	return Idle
}

// An Info describes a sandbox.
type Info struct {
	Record
	State  State  `json:"state"`
	Tier   string `json:"tier"`
	Why    string `json:"why,omitempty"` // why its processes were ended
	Used   int64  `json:"used_memory"`
	Bytes  int64  `json:"file_bytes"`
	Files  int    `json:"files"`
	Remark string `json:"remark,omitempty"`
}

// describeBox describes a sandbox.
func (s *Sandboxes) describeBox(b *box) *Info {
	s.mu.Lock()
	m := b.machine
	i := &Info{Record: b.rec, State: b.currentState(), Tier: tool.Process.String(), Why: b.why,
		Bytes: b.used.bytes, Files: b.used.files, Remark: b.lacks}
	s.mu.Unlock()
	if m != nil {
		i.Used = m.UsedMemory()
	}
	return i
}

// A Wake says from which state a sandbox was woken.
type Wake struct {
	From State         `json:"from"`
	Took time.Duration `json:"took"`
	Why  string        `json:"why,omitempty"` // why its processes had been ended
}

// A hold is the use of a sandbox by one operation.
type hold struct {
	*box
	all     *Sandboxes
	machine sandbox.Machine
	wake    Wake
	passed  int // labels that were passed to the caller
}

// useBox wakes a principal's sandbox. The caller calls endUse. labels are those of the caller's
// data, which the sandbox keeps.
func (s *Sandboxes) useBox(ctx context.Context, p tool.Principal, name string, labels []string) (*hold, error) {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	if err == nil && s.closed {
		err = errClosed
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	b.users++
	b.egress.user = p
	s.mu.Unlock()
	h := &hold{box: b, all: s}
	if err = s.bringLabels(ctx, b, labels); err == nil {
		err = h.wakeBox(ctx)
	}
	if err != nil {
		h.endUse()
		return nil, err
	}
	return h, nil
}

// keepLabels adds labels to a sandbox, and stores them before anything else happens. It reports
// whether there are more than before.
func (s *Sandboxes) keepLabels(ctx context.Context, b *box, labels []string) (more bool, err error) {
	s.mu.Lock()
	joined := tool.JoinLabels(b.rec.Labels, labels)
	more = len(joined) != len(b.rec.Labels)
	b.rec.Labels = joined
	s.mu.Unlock()
	if !more {
		return false, nil
	}
	return true, s.saveRecord(ctx, b)
}

// passLabels passes the sandbox's labels to the caller, before any output that may have them. They
// grow while an operation is under way, if another one brings data with labels.
func (h *hold) passLabels(o tool.Observer) error {
	h.all.mu.Lock()
	labels := h.rec.Labels
	h.all.mu.Unlock()
	if len(labels) == h.passed {
		return nil
	}
	if err := o.OnLabels(labels); err != nil {
		return err
	}
	h.passed = len(labels)
	return nil
}

// beginRemoving notes that files are being removed, until end is called.
func (h *hold) beginRemoving() (end func()) {
	count := func(n int) {
		h.all.mu.Lock()
		defer h.all.mu.Unlock()
		h.removes += n
	}
	count(1)
	return func() { count(-1) }
}

// wakeBox starts or thaws the processes.
func (h *hold) wakeBox(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	s := h.all
	began := time.Now()
	s.mu.Lock()
	m, from, removed := h.box.machine, h.currentState(), h.removed
	s.mu.Unlock()
	if removed {
		return tool.Errorf(tool.NotFound, "the sandbox was ended meanwhile")
	}
	if m != nil {
		select {
		case <-m.EndSignal():
			s.dropMachine(h.box, m, tool.AsError(m.EndReason()).Msg)
			m, from = nil, Stopped
		default:
		}
	}
	if m != nil && (from == Frozen || from == Reclaimed) {
		if err := m.ThawGuest(); err != nil {
			s.dropMachine(h.box, m, tool.AsError(err).Msg)
			m, from = nil, Stopped
		}
	}
	if m == nil {
		var err error
		if m, err = s.startMachine(ctx, h.box); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.machine, h.wake = m, Wake{From: from, Took: time.Since(began), Why: h.why}
	h.box.frozen, h.shrunk, h.why = false, false, ""
	return nil
}

// startMachine starts the processes of a sandbox. Its turn is held.
func (s *Sandboxes) startMachine(ctx context.Context, b *box) (sandbox.Machine, error) {
	if s.cfg.Driver == nil {
		return nil, tool.Errorf(tool.Unavailable, "sandboxes can't run here: %w", s.cfg.Unable)
	}
	if err := s.makeRoom(b); err != nil {
		return nil, err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.starts = false
	}()
	spec := sandbox.MachineSpec{Folder: s.folderOf(b.rec.ID), Owner: b.rec.Owner, Image: b.rec.Image,
		Memory: b.rec.Memory, Processes: s.cfg.Limits.Processes}
	s.addNetwork(b, &spec)
	m, err := s.cfg.Driver.CreateMachine(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	gone := s.closed || b.removed
	if !gone {
		b.machine = m
		s.guards.Go(func() { s.guardFiles(b, m) })
	}
	s.mu.Unlock()
	if gone {
		if err := m.Close(); err != nil {
			return nil, err
		}
		return nil, errClosed
	}
	return m, nil
}

// dropMachine closes processes that have ended, or ends them, and notes why.
func (s *Sandboxes) dropMachine(b *box, m sandbox.Machine, why string) {
	s.mu.Lock()
	if b.machine == m {
		b.why = why // before operations under way notice the end
	}
	s.mu.Unlock()
	if err := m.Close(); err != nil {
		s.cfg.Log.Warn("sandbox not closed", "sandbox", b.rec.ID, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.machine == m {
		b.machine, b.frozen, b.shrunk, b.why = nil, false, false, why
	}
}

// makeRoom ends the processes of idle sandboxes until the processes of b may start. The principal
// with the most loses one first. b has its place until it no longer starts. b's turn is held.
func (s *Sandboxes) makeRoom(b *box) error {
	l := s.cfg.Limits
	for {
		s.mu.Lock()
		all, own := 0, 0
		for _, o := range s.by {
			if o.machine != nil || o.starts {
				all++
				if o.rec.Owner == b.rec.Owner {
					own++
				}
			}
		}
		var victim *box
		switch {
		case own >= l.RunningEach:
			victim = s.findVictim(b.rec.Owner)
		case all >= l.Running:
			victim = s.findVictim("")
		default:
			b.starts = true
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		if victim == nil {
			return tool.Errorf(tool.Limit, "too many sandboxes are in use (%d of yours, at most %d; %d in all, "+
				"at most %d): wait for one, or end one", own, l.RunningEach, all, l.Running)
		}
		s.stopBox(victim, "other sandboxes needed its place")
	}
}

// findVictim returns the idle sandbox with processes that was unused for longest. It is one of
// owner, or, if empty, of the owner with the most. findVictim returns nil if there is none. s.mu is
// held.
func (s *Sandboxes) findVictim(owner string) (victim *box) {
	have := map[string]int{}
	for _, b := range s.by {
		if b.machine != nil {
			have[b.rec.Owner]++
		}
	}
	for _, b := range s.by {
		switch {
		case b.machine == nil || b.users > 0 || len(b.turn) > 0 || owner != "" && b.rec.Owner != owner:
		case victim == nil, have[b.rec.Owner] > have[victim.rec.Owner],
			have[b.rec.Owner] == have[victim.rec.Owner] && b.since.Before(victim.since):
			victim = b
		}
	}
	return victim
}

// changeIdle changes the state of a sandbox unless it is in use.
func (s *Sandboxes) changeIdle(b *box, change func(m sandbox.Machine)) {
	select {
	case b.turn <- struct{}{}:
	default:
		return // it is being used
	}
	defer func() { <-b.turn }()
	s.mu.Lock()
	m, busy := b.machine, b.users > 0
	s.mu.Unlock()
	if m != nil && !busy {
		change(m)
	}
}

// stopBox ends the processes of an idle sandbox.
func (s *Sandboxes) stopBox(b *box, why string) {
	s.changeIdle(b, func(m sandbox.Machine) { s.dropMachine(b, m, why) })
}

// freezeBox freezes an idle sandbox.
func (s *Sandboxes) freezeBox(b *box) {
	s.changeIdle(b, func(m sandbox.Machine) {
		if err := m.FreezeGuest(); err != nil {
			s.dropMachine(b, m, "it could not be frozen: "+err.Error())
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		b.frozen = true
	})
}

// SuspendSandbox freezes the processes of a principal's sandbox before it is idle for long enough.
func (s *Sandboxes) SuspendSandbox(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	idle := err == nil && b.currentState() == Idle
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if idle {
		s.freezeBox(b)
		s.mu.Lock()
		b.since = s.cfg.Clock.Now().UTC() // its processes are ended Limits.EndAfter from now
		s.mu.Unlock()
		s.wakeKeeper()
	}
	i := s.describeBox(b)
	if i.State == Running || i.State == Idle {
		return nil, tool.Errorf(tool.Conflict, "the sandbox is in use: wait for its operations to end, then suspend it")
	}
	return i, nil
}

// ResumeSandbox starts or thaws the processes of a principal's sandbox. labels are those of the
// caller's data.
func (s *Sandboxes) ResumeSandbox(ctx context.Context, p tool.Principal, name string, labels []string) (*Info, error) {
	h, err := s.useBox(ctx, p, name, labels)
	if err != nil {
		return nil, err
	}
	h.endUse()
	return s.describeBox(h.box), nil
}

// shrinkBox reclaims memory of a frozen sandbox.
func (s *Sandboxes) shrinkBox(b *box) {
	s.changeIdle(b, func(m sandbox.Machine) {
		freed, err := m.ReclaimMemory()
		s.mu.Lock()
		defer s.mu.Unlock()
		b.shrunk = true
		if b.lacks = ""; err != nil {
			b.lacks = fmt.Sprintf("of its memory, %s could be taken back: %s", text.Size(freed), err)
		}
	})
}

// endUse ends the use of a sandbox.
func (h *hold) endUse() {
	s := h.all
	s.mu.Lock()
	now := s.cfg.Clock.Now().UTC()
	h.users--
	h.since, h.rec.Used = now, now
	s.mu.Unlock()
	if err := s.saveRecord(context.Background(), h.box); err != nil {
		s.cfg.Log.Warn("use of a sandbox not stored", "sandbox", h.rec.ID, "error", err)
	}
	s.wakeKeeper()
}

// wakeKeeper makes RunKeeper look at the deadlines again.
func (s *Sandboxes) wakeKeeper() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// RunKeeper sends idle sandboxes to standby and removes expired ones, until ctx is done.
func (s *Sandboxes) RunKeeper(ctx context.Context) {
	for {
		next := s.SweepIdle(ctx)
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.kick:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// A due is the next change of a sandbox's state, and its time.
type due struct {
	box  *box
	what State // Frozen, Stopped; empty: it is removed
	at   time.Time
}

// nextChange returns the next change of a sandbox. Sandboxes.mu is held.
func (s *Sandboxes) nextChange(b *box) (d due, ok bool) {
	l := s.cfg.Limits
	unused := l.Unused
	if b.rec.Idle > 0 {
		unused = b.rec.Idle
	}
	d = due{b, "", b.since.Add(unused)}
	if b.users > 0 {
		d.at = s.cfg.Clock.Now().Add(unused) // not while it is in use
	}
	if e := b.rec.Expires; !e.IsZero() && e.Before(d.at) {
		d.at = e
	}
	standby := l.Standby
	if b.rec.Standby != 0 {
		standby = b.rec.Standby
	}
	var other due
	switch b.currentState() {
	case Idle:
		if standby < 0 {
			return d, true
		}
		other = due{b, Frozen, b.since.Add(standby)}
	case Frozen, Reclaimed:
		other = due{b, Stopped, b.since.Add(l.EndAfter)}
	default:
		return d, true
	}
	if other.at.Before(d.at) {
		d = other
	}
	return d, true
}

// SweepIdle makes the changes that are due, and returns after which time the next one is.
func (s *Sandboxes) SweepIdle(ctx context.Context) time.Duration {
	s.mu.Lock()
	if err := s.loadRecords(ctx); err != nil {
		s.mu.Unlock()
		s.cfg.Log.Warn("sandboxes not read", "error", err)
		return time.Minute
	}
	now, next := s.cfg.Clock.Now(), time.Hour
	var todo []due
	for _, b := range s.by {
		d, ok := s.nextChange(b)
		switch wait := d.at.Sub(now); {
		case !ok:
		case wait <= 0:
			todo = append(todo, d)
			next = time.Second // what follows, or another try
		default:
			next = min(next, wait)
		}
	}
	s.mu.Unlock()
	for _, d := range todo {
		switch d.what {
		case Frozen:
			s.freezeBox(d.box)
		case Stopped:
			s.stopBox(d.box, "it was not used for "+text.Setting(s.cfg.Limits.EndAfter))
		default:
			if len(d.box.turn) > 0 {
				continue // it stands still for long, or starts: the others must not wait for it
			}
			if err := s.removeBox(ctx, d.box); err != nil {
				s.cfg.Log.Warn("expired sandbox not removed", "sandbox", d.box.rec.ID, "error", err)
			}
		}
	}
	s.relieveMemory()
	return max(next, 10*time.Millisecond)
}
