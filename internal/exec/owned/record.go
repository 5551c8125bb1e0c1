package owned

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Record is the stored form of a sandbox.
type Record struct {
	ID      string        `json:"id"`
	Owner   string        `json:"owner"` // ID of the principal
	Name    string        `json:"name,omitempty"`
	Image   string        `json:"image,omitempty"`
	Memory  int64         `json:"memory"` // limit, in bytes
	Created time.Time     `json:"created"`
	Used    time.Time     `json:"used"`
	Expires time.Time     `json:"expires,omitzero"`  // when it is removed in any case; zero: never
	Idle    time.Duration `json:"idle,omitempty"`    // unused for this time, it is removed; 0: Limits.Unused
	Standby time.Duration `json:"standby,omitempty"` // instead of Limits.Standby; negative: never
	Network bool          `json:"network,omitempty"` // it reaches the hosts that policy permits
	// Labels are the labels of the data that its callers had read, sorted.
	Labels []string `json:"labels,omitempty"`
}

// A Store stores records.
type Store interface {
	LoadSandboxes(ctx context.Context) ([]Record, error)
	SaveSandbox(ctx context.Context, r *Record) error
	DropSandbox(ctx context.Context, id string) error
}

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

// boxes are the sandboxes of all principals with their records, which they keep stored.
type boxes struct {
	cfg Config

	mu     sync.Mutex
	loaded bool
	by     map[string]*box // by ID
	closed bool
}

// A box is a sandbox. boxes.mu guards its fields, except turn.
type box struct {
	rec     Record
	labeled int           // labels of rec that are stored, too
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

func newBox(r Record) *box {
	return &box{rec: r, labeled: len(r.Labels), turn: make(chan struct{}, 1), since: r.Used}
}

// currentState returns the state of the processes. boxes.mu is held.
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

// loadRecords reads the records once. bs.mu is held.
func (bs *boxes) loadRecords(ctx context.Context) error {
	if bs.loaded {
		return nil
	}
	all, err := bs.cfg.Store.LoadSandboxes(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		bs.by[r.ID] = newBox(r)
		if !r.Used.Equal(r.Created) {
			continue
		}
		if err := os.MkdirAll(bs.folderOf(r.ID), 0o700); err != nil { // this process died when it created it
			bs.cfg.Log.Warn("folder of a sandbox not created", "sandbox", r.ID, "error", err)
		}
	}
	bs.loaded = true
	return nil
}

// addBox adds a sandbox if the limits have room for it.
func (bs *boxes) addBox(ctx context.Context, b *box) error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if err := bs.loadRecords(ctx); err != nil {
		return err
	}
	own := 0
	for _, o := range bs.by {
		if o.rec.Owner != b.rec.Owner {
			continue
		}
		if own++; b.rec.Name != "" && o.rec.Name == b.rec.Name {
			return tool.Errorf(tool.Conflict, "you have a sandbox %q already: use it, or end it", b.rec.Name)
		}
	}
	switch l := bs.cfg.Limits; {
	case bs.closed:
		return errClosed
	case own >= l.Each:
		return tool.Errorf(tool.Limit, "you have %s, and may have no more (sandboxes.each): end one",
			text.Count(own, "sandbox"))
	case len(bs.by) >= l.Count:
		return tool.Errorf(tool.Limit, "there are %s, and may be no more (sandboxes.count)",
			text.Count(len(bs.by), "sandbox"))
	}
	bs.by[b.rec.ID] = b
	return nil
}

var errClosed = &tool.Error{Kind: tool.Unavailable, Msg: "biplane is stopping: try again when it is back"}

// findBox returns a principal's sandbox by ID or name. bs.mu is held.
func (bs *boxes) findBox(ctx context.Context, p tool.Principal, name string) (*box, error) {
	if err := bs.loadRecords(ctx); err != nil {
		return nil, err
	}
	if b := bs.by[name]; b != nil && b.rec.Owner == p.ID {
		return b, nil
	}
	for _, b := range bs.by {
		if b.rec.Owner == p.ID && b.rec.Name == name && name != "" {
			return b, nil
		}
	}
	// Others' sandboxes get the same answer, so that no one can find IDs by trying.
	return nil, tool.Errorf(tool.NotFound, "you have no sandbox %q: biplane sandboxes lists yours, and "+
		"biplane sandboxes create makes one", text.Clip(name, 80))
}

// folderOf returns the folder of a sandbox's files.
func (bs *boxes) folderOf(id string) string { return filepath.Join(bs.cfg.Dir, id) }

// saveRecord stores the record of a sandbox, unless it was removed.
func (bs *boxes) saveRecord(ctx context.Context, b *box) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	bs.mu.Lock()
	r, removed := b.rec, b.removed
	bs.mu.Unlock()
	if removed {
		return nil
	}
	if err := bs.cfg.Store.SaveSandbox(ctx, &r); err != nil {
		return err
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b.labeled = len(r.Labels)
	return nil
}

// keepLabels adds labels to a sandbox. They are stored when it returns, even if another operation
// has added them and is storing them, or could not store them. It reports whether there are more
// than before.
func (bs *boxes) keepLabels(ctx context.Context, b *box, labels []string) (more bool, err error) {
	bs.mu.Lock()
	joined := tool.JoinLabels(b.rec.Labels, labels)
	more = len(joined) != len(b.rec.Labels)
	b.rec.Labels = joined
	stored := b.labeled >= len(joined)
	bs.mu.Unlock()
	if stored {
		return more, nil
	}
	return more, bs.saveRecord(ctx, b)
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
func (bs *boxes) describeBox(b *box) *Info {
	bs.mu.Lock()
	m := b.machine
	i := &Info{Record: b.rec, State: b.currentState(), Tier: tool.Process.String(), Why: b.why,
		Bytes: b.used.bytes, Files: b.used.files, Remark: b.lacks}
	bs.mu.Unlock()
	if m != nil {
		i.Used = m.UsedMemory()
	}
	return i
}
