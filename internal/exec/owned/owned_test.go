//go:build linux

package owned_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A rig has sandboxes in real processes, with a clock that the test sets.
type rig struct {
	*owned.Sandboxes
	t         *testing.T
	clock     *wallclock.Clock
	dir       string
	available int64 // memory of the host
}

// newRig returns a rig in which files are only measured before commands.
func newRig(t *testing.T, l owned.Limits) *rig {
	t.Helper()
	return newMeasuringRig(t, l, time.Hour)
}

func newMeasuringRig(t *testing.T, l owned.Limits, measureEach time.Duration) *rig {
	t.Helper()
	return newRigWith(t, owned.Config{Limits: l, MeasureEach: measureEach})
}

// newRigWith returns a rig with more configuration.
func newRigWith(t *testing.T, cfg owned.Config) *rig {
	t.Helper()
	d, err := process.New(process.Config{})
	if err != nil {
		t.Fatalf("process.New: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	r := &rig{t: t, clock: wallclock.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), dir: t.TempDir(),
		available: 1 << 40}
	db, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	key, err := secret.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	log := slog.New(slog.DiscardHandler)
	cfg.Dir, cfg.Log, cfg.Clock, cfg.Host = r.dir, log, r.clock, r
	switch s := cfg.Store.(type) {
	case *hastyStore:
		s.Store = db.OpenSandboxes(key, log)
	case *droppingStore:
		s.Store = db.OpenSandboxes(key, log)
	default:
		cfg.Store = db.OpenSandboxes(key, log)
	}
	switch s := cfg.Driver.(type) {
	case *stubborn:
		s.MachineDriver = d
	case *largeDriver:
		s.MachineDriver = d
	default:
		cfg.Driver = d
	}
	r.Sandboxes = owned.NewSandboxes(cfg)
	t.Cleanup(func() {
		if err := r.CloseAll(); err != nil {
			t.Errorf("CloseAll: %v", err)
		}
	})
	return r
}

// AvailableMemory implements owned.Host.
func (r *rig) AvailableMemory() int64 { return r.available }

// call calls a tool as a principal.
func (r *rig) call(who, name string, args map[string]any) (map[string]any, error) {
	r.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatalf("json.Marshal: %v", err)
	}
	res, err := r.CallTool(context.WithoutCancel(r.t.Context()), &tool.Call{Path: "biplane.sandbox_" + name,
		Arguments: raw, Tool: &tool.Tool{Upstream: tool.Own, Name: "sandbox_" + name},
		Principal: tool.Principal{ID: who}})
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err := json.Unmarshal(res.Structured, &v); err != nil {
		r.t.Fatalf("the result of %s: %v", name, err)
	}
	return v, nil
}

// mustCall calls a tool as the principal ann. The call must succeed.
func (r *rig) mustCall(name string, args map[string]any) map[string]any {
	r.t.Helper()
	v, err := r.call("ann", name, args)
	if err != nil {
		r.t.Fatalf("%s %v: %v", name, args, err)
	}
	return v
}

// stateOf returns the state of a sandbox of ann.
func (r *rig) stateOf(name string) string {
	r.t.Helper()
	return r.mustCall("show", map[string]any{"sandbox": name})["state"].(string)
}

// passTime advances the clock, and makes the changes that are due.
func (r *rig) passTime(d time.Duration) {
	r.clock.Advance(d)
	r.SweepIdle(r.t.Context())
}

func TestStandby(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "a"})
	if v := r.mustCall("run", map[string]any{"sandbox": "a", "command": "echo x > kept"}); !strings.HasPrefix(
		v["woken"].(string), "sandbox started in ") {
		t.Errorf("the first use: %v", v["woken"])
	}
	r.mustCall("start", map[string]any{"sandbox": "a", "argv": []string{"sleep", "1000"}})
	if v := r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"}); v["woken"] != nil {
		t.Errorf("a sandbox that was awake: %v", v["woken"])
	}
	r.passTime(14 * time.Second)
	if s := r.stateOf("a"); s != "idle" {
		t.Errorf("after 14 s: %s", s)
	}
	r.passTime(time.Second)
	if s := r.stateOf("a"); s != "frozen" {
		t.Errorf("after 15 s: %s", s)
	}
	v := r.mustCall("processes", map[string]any{"sandbox": "a"})
	if !strings.HasPrefix(v["woken"].(string), "sandbox woken from standby (frozen) in ") ||
		len(v["processes"].([]any)) != 1 {
		t.Errorf("after a thaw: %v", v)
	}
	r.passTime(15 * time.Second)
	r.passTime(30 * time.Minute)
	if s := r.stateOf("a"); s != "stopped" {
		t.Errorf("after half an hour: %s", s)
	}
	v = r.mustCall("run", map[string]any{"sandbox": "a", "command": "cat kept"})
	if v["stdout"] != "x\n" || !strings.Contains(v["woken"].(string), "without its processes: it was not used for 30") {
		t.Errorf("after the end of its processes: %v", v)
	}
}

// TestSuspend freezes and continues a sandbox by request: not while it is used, and for as long as
// one that was frozen because it was idle.
func TestSuspend(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "a", "standby_seconds": -1})
	a := map[string]any{"sandbox": "a"}
	if v := r.mustCall("suspend", a); v["state"] != "stopped" {
		t.Errorf("without processes: %v, want stopped", v)
	}
	if v := r.mustCall("resume", a); v["state"] != "idle" {
		t.Errorf("resumed: %v, want idle", v)
	}
	r.mustCall("start", map[string]any{"sandbox": "a", "argv": []string{"sleep", "1000"}})
	r.passTime(time.Hour)
	for range 2 {
		if v := r.mustCall("suspend", a); v["state"] != "frozen" {
			t.Errorf("suspended: %v, want frozen", v)
		}
	}
	r.passTime(29 * time.Minute)
	if v := r.mustCall("resume", a); v["state"] != "idle" {
		t.Errorf("resumed after 29 min: %v, want idle", v)
	}
	if v := r.mustCall("processes", a); v["woken"] != nil || len(v["processes"].([]any)) != 1 {
		t.Errorf("after the resumption: %v, want its process, and that it was awake", v)
	}
	done := r.occupy("a")
	if _, err := r.call("ann", "suspend", a); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("suspended while an operation is under way: %v, want a conflict", err)
	}
	r.mustCall("end", a)
	if err := <-done; err == nil {
		t.Error("the operation in a sandbox that was ended succeeded")
	}
}

// TestStandbyNever checks that a sandbox stays awake if its owner wants that.
func TestStandbyNever(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "a", "standby_seconds": -1})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"})
	r.passTime(time.Hour)
	if s := r.stateOf("a"); s != "idle" {
		t.Errorf("after an hour: %s", s)
	}
}

// TestScarceMemory checks that frozen sandboxes lose their memory, then end, the oldest first.
func TestScarceMemory(t *testing.T) {
	r := newRig(t, owned.Limits{})
	for _, name := range []string{"a", "b"} {
		r.mustCall("create", map[string]any{"name": name})
		r.mustCall("run", map[string]any{"sandbox": name, "command": "echo " + name + " > kept"})
		r.clock.Advance(time.Second)
	}
	r.passTime(15 * time.Second)
	if a, b := r.stateOf("a"), r.stateOf("b"); a != "frozen" || b != "frozen" {
		t.Fatalf("before: %s, %s", a, b)
	}
	r.available = 0
	r.passTime(0)
	if a, b := r.stateOf("a"), r.stateOf("b"); a != "stopped" || b != "stopped" {
		t.Errorf("with scarce memory: %s, %s", a, b)
	}
	r.available = 1 << 40
	v := r.mustCall("run", map[string]any{"sandbox": "a", "command": "cat kept"})
	if v["stdout"] != "a\n" || !strings.Contains(v["woken"].(string), "memory was scarce") {
		t.Errorf("after that: %v", v)
	}
}

// occupy starts an operation that uses a sandbox until it is ended, and then sends its error.
func (r *rig) occupy(name string) <-chan error {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := r.call("ann", "run", map[string]any{"sandbox": name, "command": "touch used; sleep 1000"})
		done <- err
	}()
	r.mustCall("watch", map[string]any{"sandbox": name, "path": "."})
	for off := any(0); ; {
		if _, err := r.call("ann", "stat", map[string]any{"sandbox": name, "path": "used"}); err == nil {
			return done
		}
		w := r.mustCall("watch", map[string]any{"sandbox": name, "path": ".", "offset": off, "wait_seconds": 1})
		off = w["offset"]
	}
}

// TestRoom checks that an idle sandbox ends for another one of its principal, and none in use.
func TestRoom(t *testing.T) {
	r := newRig(t, owned.Limits{RunningEach: 1, Each: 3})
	for _, name := range []string{"a", "b"} {
		r.mustCall("create", map[string]any{"name": name})
		r.mustCall("run", map[string]any{"sandbox": name, "command": "true"})
	}
	if s := r.stateOf("a"); s != "stopped" {
		t.Errorf("the first sandbox: %s", s)
	}
	done := r.occupy("b")
	_, err := r.call("ann", "run", map[string]any{"sandbox": "a", "command": "true"})
	if tool.AsError(err).Kind != tool.Limit {
		t.Errorf("a second sandbox while the first is used: %v", err)
	}
	r.mustCall("end", map[string]any{"sandbox": "b"})
	if err := <-done; tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("a command in a sandbox that was ended: %v", err)
	}
	r.mustCall("create", map[string]any{"name": "c"})
	r.mustCall("create", map[string]any{"name": "d"})
	if _, err := r.call("ann", "create", map[string]any{"name": "e"}); tool.AsError(err).Kind != tool.Limit {
		t.Errorf("one sandbox too many: %v", err)
	}
}

// TestOthers checks that no tool shows or changes a sandbox of another principal.
func TestOthers(t *testing.T) {
	r := newRig(t, owned.Limits{})
	id := r.mustCall("create", map[string]any{"name": "a"})["id"]
	for _, def := range owned.ListTools() {
		name := strings.TrimPrefix(def.Name, tool.SandboxPrefix)
		if name == "create" || name == "list" {
			continue
		}
		for _, sandbox := range []any{id, "a", "../" + id.(string), "", "."} {
			_, err := r.call("eve", name, map[string]any{"sandbox": sandbox, "command": "true", "path": "x"})
			if tool.AsError(err).Kind != tool.NotFound {
				t.Errorf("%s %v as another principal: %v", name, sandbox, err)
			}
		}
	}
	if v, err := r.call("eve", "list", nil); err != nil || len(v["sandboxes"].([]any)) != 0 {
		t.Errorf("list as another principal: %v, %v", v, err)
	}
	if _, err := r.call("eve", "create", map[string]any{"name": id}); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("a sandbox named like an id: %v", err)
	}
}

// TestExpiry checks that sandboxes end after the times that their owners set, with their files.
func TestExpiry(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "ttl", "ttl_seconds": 100})
	r.mustCall("create", map[string]any{"name": "idle", "idle_seconds": 60})
	r.clock.Advance(30 * time.Second)
	r.mustCall("run", map[string]any{"sandbox": "idle", "command": "echo > file"})
	r.passTime(59 * time.Second)
	r.stateOf("idle")
	r.passTime(time.Second)
	if _, err := r.call("ann", "show", map[string]any{"sandbox": "idle"}); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("after its idle time: %v", err)
	}
	r.passTime(10 * time.Second)
	if _, err := r.call("ann", "show", map[string]any{"sandbox": "ttl"}); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("after its time: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(r.dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestOutputAndDisk checks that long output is cut, and that files have a limit.
func TestOutputAndDisk(t *testing.T) {
	r := newRig(t, owned.Limits{Disk: 4 << 20, Files: 100})
	r.mustCall("create", map[string]any{"name": "a"})
	const long = "head -c 1000000 /dev/zero | tr '\\0' x; echo end"
	v := r.mustCall("run", map[string]any{"sandbox": "a", "command": long})
	out := v["stdout"].(string)
	if len(out) > 70<<10 || !strings.HasSuffix(out, "xend\n") || v["omitted"] != 934468.0 {
		t.Errorf("long output: %d bytes, %v left out", len(out), v["omitted"])
	}
	_, err := r.call("ann", "run", map[string]any{"sandbox": "a", "command": "cat /dev/zero"})
	if tool.AsError(err).Kind != tool.Limit {
		t.Errorf("endless output: %v", err)
	}
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "head -c 5000000 /dev/zero > big"})
	if _, err := r.call("ann", "run", map[string]any{"sandbox": "a", "command": "true"}); tool.AsError(err).Kind !=
		tool.Limit {
		t.Errorf("with too many bytes: %v", err)
	}
	r.mustCall("remove", map[string]any{"sandbox": "a", "path": "big"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "true"})
}

// TestLinks checks that links lead nowhere outside, and that their targets survive the end.
func TestLinks(t *testing.T) {
	r := newRig(t, owned.Limits{})
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	r.mustCall("create", map[string]any{"name": "a"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "ln -s " + outside + " link; ln -s / root"})
	for _, path := range []string{"link", "root" + outside, "../.." + outside, outside} {
		if v, err := r.call("ann", "read", map[string]any{"sandbox": "a", "path": path}); err == nil {
			t.Errorf("read %s: %v", path, v)
		}
	}
	r.mustCall("end", map[string]any{"sandbox": "a"})
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside of an ended sandbox: %v", err)
	}
}

// TestGuard checks that a background process can't exceed the limit of files, and that a folder
// that can't be read counts.
func TestGuard(t *testing.T) {
	r := newMeasuringRig(t, owned.Limits{Disk: 4 << 20}, time.Millisecond)
	r.mustCall("create", map[string]any{"name": "a"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "mkdir -m 300 hidden"})
	_, err := r.call("ann", "start", map[string]any{"sandbox": "a",
		"command": "head -c 5000000 /dev/zero > hidden/big; sleep 1000"})
	if err == nil {
		_, err = r.call("ann", "logs", map[string]any{"sandbox": "a", "process": 1, "wait_seconds": 60})
	}
	if tool.AsError(err).Kind != tool.Limit || !strings.Contains(err.Error(), "files exceed") {
		t.Errorf("after too many bytes: %v", err)
	}
}

// TestHugeTime checks that a time that fits in no duration is no way around the limit.
func TestHugeTime(t *testing.T) {
	r := newRig(t, owned.Limits{RunTime: time.Millisecond})
	r.mustCall("create", map[string]any{"name": "a", "ttl_seconds": 1e300})
	v := r.mustCall("run", map[string]any{"sandbox": "a", "command": "sleep 1000", "timeout_seconds": 1e300})
	if exit := v["exit"].(map[string]any); exit["timed_out"] != true {
		t.Errorf("exit: %v", exit)
	}
}

// TestProtectedFolder checks that a sandbox can be ended with folders that can't be changed.
func TestProtectedFolder(t *testing.T) {
	r := newRig(t, owned.Limits{})
	r.mustCall("create", map[string]any{"name": "a"})
	r.mustCall("run", map[string]any{"sandbox": "a", "command": "mkdir -p d/e; touch d/e/f; chmod 0 d/e d"})
	r.mustCall("end", map[string]any{"sandbox": "a"})
	if left, err := filepath.Glob(filepath.Join(r.dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
