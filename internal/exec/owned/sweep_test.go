//go:build linux

package owned_test

import (
	"context"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A droppingStore calls dropped after it deleted a record.
type droppingStore struct {
	owned.Store
	dropped func(id string)
}

func (s *droppingStore) DropSandbox(ctx context.Context, id string) error {
	err := s.Store.DropSandbox(ctx, id)
	s.dropped(id)
	return err
}

// A largeDriver makes machines that use a fixed amount of memory, of which nothing can be taken
// back. It calls closing before it closes one, with its number.
type largeDriver struct {
	sandbox.MachineDriver
	used    int64
	asked   int // how often the use of a machine was read
	made    int
	closing func(machine int)
}

func (d *largeDriver) CreateMachine(ctx context.Context, spec sandbox.MachineSpec) (sandbox.Machine, error) {
	m, err := d.MachineDriver.CreateMachine(ctx, spec)
	d.made++
	return largeMachine{m, d, d.made - 1}, err
}

type largeMachine struct {
	sandbox.Machine
	driver *largeDriver
	number int
}

func (m largeMachine) UsedMemory() int64 {
	m.driver.asked++
	return m.driver.used
}

func (m largeMachine) ReclaimMemory() (int64, error) { return 0, nil }

func (m largeMachine) Close() error {
	if m.driver.closing != nil {
		m.driver.closing(m.number)
	}
	return m.Machine.Close()
}

// TestUsedBeforeRemoval checks that an unused sandbox is kept if it is used while another one is
// removed.
func TestUsedBeforeRemoval(t *testing.T) {
	s := &droppingStore{}
	r := newRigWith(t, owned.Config{Store: s, MeasureEach: time.Hour, Limits: owned.Limits{Unused: time.Hour}})
	ann := tool.Principal{ID: "ann"}
	for _, name := range []string{"a", "b"} {
		r.mustCall("create", map[string]any{"name": name})
	}
	s.dropped = func(string) {
		for _, name := range []string{"a", "b"} {
			if _, err := r.FindSandbox(t.Context(), ann, name); err == nil {
				r.mustCall("write", map[string]any{"sandbox": name, "path": "kept", "text": "x"})
			}
		}
	}
	r.passTime(time.Hour)
	all, err := r.ListSandboxes(t.Context(), ann)
	if err != nil || len(all) != 1 {
		t.Fatalf("ListSandboxes: %v, %v, want the one that was used", all, err)
	}
	if v := r.mustCall("read", map[string]any{"sandbox": all[0].ID, "path": "kept"}); v["text"] != "x" {
		t.Errorf("its file: %v", v)
	}
}

// TestUsedBeforeStop checks that the processes of a frozen sandbox are kept if it is used while
// those of another one are ended.
func TestUsedBeforeStop(t *testing.T) {
	d := &largeDriver{}
	r := newRigWith(t, owned.Config{Driver: d, MeasureEach: time.Hour})
	names := []string{"a", "b"}
	for _, name := range names {
		r.mustCall("create", map[string]any{"name": name})
		r.mustCall("start", map[string]any{"sandbox": name, "argv": []string{"sleep", "1000"}})
	}
	r.passTime(15 * time.Second)
	d.closing = func(machine int) {
		d.closing = nil
		r.mustCall("resume", map[string]any{"sandbox": names[1-machine]})
	}
	r.passTime(30 * time.Minute)
	states := map[string]int{}
	for _, name := range names {
		states[r.stateOf(name)]++
	}
	if states["stopped"] != 1 || states["idle"] != 1 {
		t.Errorf("the states are %v, want that the one in use was kept", states)
	}
}

// TestScarceMemoryShares checks that a principal with much memory in standby loses processes before
// a principal with little, whose sandbox was unused for longer.
func TestScarceMemoryShares(t *testing.T) {
	r := newRigWith(t, owned.Config{Driver: &largeDriver{used: 100 << 20}, MeasureEach: time.Hour,
		Limits: owned.Limits{TotalMemory: 250 << 20}})
	for _, s := range [][2]string{{"ann", "a"}, {"bob", "b"}, {"bob", "c"}} {
		if _, err := r.call(s[0], "create", map[string]any{"name": s[1]}); err != nil {
			t.Fatalf("create: %v", err)
		}
		if _, err := r.call(s[0], "resume", map[string]any{"sandbox": s[1]}); err != nil {
			t.Fatalf("resume: %v", err)
		}
		r.clock.Advance(time.Second)
	}
	r.passTime(15 * time.Second)
	var got []string
	for _, s := range [][2]string{{"ann", "a"}, {"bob", "b"}, {"bob", "c"}} {
		v, err := r.call(s[0], "show", map[string]any{"sandbox": s[1]})
		if err != nil {
			t.Fatalf("show: %v", err)
		}
		got = append(got, v["state"].(string))
	}
	if got[0] != "reclaimed" || got[1] != "stopped" || got[2] != "reclaimed" {
		t.Errorf("the states are %v, want that only the older one of bob was ended", got)
	}
}

// TestScarceMemoryReads checks that the memory of each sandbox is read once, and again only after
// it was changed.
func TestScarceMemoryReads(t *testing.T) {
	d := &largeDriver{used: 100 << 20}
	r := newRigWith(t, owned.Config{Driver: d, MeasureEach: time.Hour, Limits: owned.Limits{TotalMemory: 50 << 20}})
	const n = 6
	for i := range n {
		name := string(rune('a' + i))
		r.mustCall("create", map[string]any{"name": name})
		r.mustCall("resume", map[string]any{"sandbox": name})
	}
	d.asked = 0
	r.passTime(15 * time.Second)
	if s := r.stateOf("a"); s != "stopped" || d.asked > 3*n {
		t.Errorf("the sandbox is %s after %d reads of memory, want stopped after at most %d", s, d.asked, 3*n)
	}
}
