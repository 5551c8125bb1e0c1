//go:build linux

package owned_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestUseFrozen checks that the processes of a sandbox stand still while its files are used, and
// that a sandbox in use, and one of another principal, can't be held.
func TestUseFrozen(t *testing.T) {
	r := newRig(t, owned.Limits{})
	ann := tool.Principal{ID: "ann"}
	r.mustCall("create", map[string]any{"name": "a"})
	r.mustCall("start", map[string]any{"sandbox": "a", "command": "while :; do date +%s%N > beat; done"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "until test -s beat; do :; done; mkfifo pipe"})
	// changes reports whether the processes write: at once, or not within some of their turns.
	changes := func(dir string) bool {
		read := func() string {
			b, err := os.ReadFile(filepath.Join(dir, "beat"))
			if err != nil {
				t.Fatalf("read what the processes write: %v", err)
			}
			return string(b)
		}
		first := read()
		for range 20 {
			time.Sleep(time.Millisecond)
			if read() != first {
				return true
			}
		}
		return false
	}
	entered := make(chan struct{})
	err := r.UseFrozen(t.Context(), ann, "a", func(s *owned.FrozenSandbox) error {
		if changes(s.Folder) {
			t.Error("the processes run")
		}
		go func() {
			defer close(entered)
			r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"})
		}()
		select {
		case <-entered:
			t.Error("an operation began meanwhile")
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	})
	if err != nil {
		t.Fatalf("UseFrozen: %v", err)
	}
	<-entered
	r.mustCall("run", map[string]any{"sandbox": "a",
		"command": `a=$(cat beat); until test "$(cat beat)" != "$a"; do :; done`})

	if err := r.UseFrozen(t.Context(), tool.Principal{ID: "bob"}, "a", nil); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("UseFrozen of another's sandbox: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.mustCall("run", map[string]any{"sandbox": "a", "command": "cat pipe"})
	}()
	for r.stateOf("a") != "running" {
		time.Sleep(time.Millisecond)
	}
	if err := r.UseFrozen(t.Context(), ann, "a", nil); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("UseFrozen of a sandbox in use: %v", err)
	}
	if _, err := r.SuspendSandbox(t.Context(), ann, "a"); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("SuspendSandbox of a sandbox in use: %v", err)
	}
	r.mustCall("start", map[string]any{"sandbox": "a", "command": "echo > pipe"})
	<-ended
	if _, err := r.SuspendSandbox(t.Context(), ann, "a"); err != nil {
		t.Fatalf("SuspendSandbox: %v", err)
	}
	if err := r.UseFrozen(t.Context(), ann, "a", func(*owned.FrozenSandbox) error { return nil }); err != nil ||
		r.stateOf("a") != "frozen" {
		t.Errorf("UseFrozen of a frozen sandbox: %v, it is %s", err, r.stateOf("a"))
	}
}

// TestStillKeepsNoOthers checks that sandboxes are put on standby and removed while one whose time
// is over stands still.
func TestStillKeepsNoOthers(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "a", "ttl_seconds": 60})
	r.mustCall("create", map[string]any{"name": "b"})
	r.mustCall("start", map[string]any{"sandbox": "b", "argv": []string{"sleep", "1000"}})
	err := r.UseFrozen(t.Context(), tool.Principal{ID: "ann"}, "a", func(*owned.FrozenSandbox) error {
		swept := make(chan struct{})
		go func() {
			defer close(swept)
			r.passTime(2 * time.Minute)
		}()
		select {
		case <-swept:
		case <-time.After(10 * time.Second):
			t.Error("the others wait")
			return nil
		}
		if s := r.stateOf("b"); s != "frozen" {
			t.Errorf("another sandbox is %s meanwhile, want frozen", s)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("UseFrozen: %v", err)
	}
	r.passTime(time.Second)
	if _, err := r.call("ann", "show", map[string]any{"sandbox": "a"}); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("afterwards: %v, want it removed", err)
	}
}

// A stubborn driver has machines that report an error when they are frozen, although their
// processes stand still.
type stubborn struct{ sandbox.MachineDriver }

func (d *stubborn) CreateMachine(ctx context.Context, spec sandbox.MachineSpec) (sandbox.Machine, error) {
	m, err := d.MachineDriver.CreateMachine(ctx, spec)
	return stubbornMachine{m}, err
}

type stubbornMachine struct{ sandbox.Machine }

func (m stubbornMachine) FreezeGuest() error {
	return errors.Join(m.Machine.FreezeGuest(), errors.New("some processes run"))
}

// TestStillFails checks that a sandbox that can't be frozen can be used afterwards.
func TestStillFails(t *testing.T) {
	r := newRigWith(t, owned.Config{MeasureEach: time.Hour, Driver: &stubborn{}})
	r.mustCall("create", map[string]any{"name": "a"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"})
	err := r.UseFrozen(t.Context(), tool.Principal{ID: "ann"}, "a", func(*owned.FrozenSandbox) error {
		t.Error("its processes may run")
		return nil
	})
	if err == nil {
		t.Error("UseFrozen of processes that can't be frozen: no error")
	}
	ran := make(chan error, 1)
	go func() {
		_, err := r.call("ann", "run", map[string]any{"sandbox": "a", "command": "true"})
		ran <- err
	}()
	select {
	case err := <-ran:
		if err != nil {
			t.Errorf("afterwards: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("afterwards its processes still stand still")
		_ = r.CloseAll()
		<-ran
	}
}
