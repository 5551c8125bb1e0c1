//go:build linux

package owned_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestRemovedFiles checks that files count that were removed and that a process still has open,
// once each, and only as long as it has them.
func TestRemovedFiles(t *testing.T) {
	r := newMeasuringRig(t, owned.Limits{Disk: 4 << 20}, time.Hour)
	r.mustCall("create", map[string]any{"name": "a"})
	v := r.mustCall("start", map[string]any{"sandbox": "a",
		"command": "exec 3>gone; rm gone; head -c 3000000 /dev/zero >&3; exec 4>&3; echo filled; sleep 1000"})
	process := v["process"].(map[string]any)["id"]
	r.mustCall("logs", map[string]any{"sandbox": "a", "process": process, "wait_seconds": 60})
	if n := r.mustCall("show", map[string]any{"sandbox": "a"})["file_bytes"].(float64); n < 3_000_000 || n > 3_100_000 {
		t.Errorf("the files occupy %.0f bytes, want about 3,000,000", n)
	}
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "head -c 2000000 /dev/zero > more"})
	_, err := r.call("ann", "run", map[string]any{"sandbox": "a", "command": "true"})
	if tool.AsError(err).Kind != tool.Limit || !strings.Contains(err.Error(), "files exceed") {
		t.Errorf("with too many bytes, some of them removed: %v", err)
	}
	r.mustCall("stop", map[string]any{"sandbox": "a", "process": process})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"})
}

// A hastyStore says when a record was stored, and waits.
type hastyStore struct {
	owned.Store
	saved chan struct{} // receives when a record was stored
	goOn  chan struct{}
}

func (s *hastyStore) SaveSandbox(ctx context.Context, r *owned.Record) error {
	err := s.Store.SaveSandbox(ctx, r)
	s.saved <- struct{}{}
	<-s.goOn
	return err
}

// TestEndWhileCreated checks that no folder is left of a sandbox that is ended while it is created.
func TestEndWhileCreated(t *testing.T) {
	h := &hastyStore{saved: make(chan struct{}), goOn: make(chan struct{})}
	r := newRigWith(t, owned.Config{Store: h, MeasureEach: time.Hour})
	ann := tool.Principal{ID: "ann"}
	created, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.CreateSandbox(t.Context(), ann, nil, owned.Request{Name: "a"})
		created <- err
	}()
	<-h.saved
	go func() {
		_, err := r.EndSandbox(t.Context(), ann, "a")
		ended <- err
	}()
	for {
		if _, err := r.FindSandbox(t.Context(), ann, "a"); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for the end to go as far as it can
	h.goOn <- struct{}{}
	if err := errors.Join(<-created, <-ended); err != nil {
		t.Errorf("CreateSandbox and EndSandbox: %v", err)
	}
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v, want nothing", left, err)
	}
	if all, err := h.LoadSandboxes(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the records are %+v, %v, want none", all, err)
	}
}

// TestFolderErrors checks that an error about a sandbox's files doesn't show where they are.
func TestFolderErrors(t *testing.T) {
	r := newRigWith(t, owned.Config{MeasureEach: time.Hour})
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatalf("RemoveAll: %v", err)
	}
	if err := os.WriteFile(r.dir, nil, 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	_, err := r.call("ann", "create", map[string]any{"name": "a"})
	if err == nil || strings.Contains(err.Error(), r.dir) ||
		!strings.Contains(err.Error(), "the sandbox's files could not be created: not a directory") {
		t.Errorf("create: %v, want an error without the folder %s", err, r.dir)
	}
}
