package daemon_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// backupKey returns the keys of a test's backups.
func backupKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatalf("age.GenerateX25519Identity: %v", err)
	}
	return k
}

// TestBackupUnderLoad makes backups while programs run and write sessions. Each restored folder
// has an intact record that is as long as the checkpoint before the backup, and its sessions.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	p, dir, out, k := newPeer(t), t.TempDir(), t.TempDir(), backupKey(t)
	text := "mcpServers: { peer: { url: '" + p.URL + "' } }\n"
	d, _ := run(t, dir, text)
	if _, err := d.Client().Run(t.Context(), api.RunRequest{Session: "kept",
		Code: `let kept = "x".repeat(3e5); 1`}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	var over atomic.Bool
	var work sync.WaitGroup
	work.Go(func() {
		for !over.Load() {
			execute(t, d.Client(), `for (let i = 0; i < 5; i++) await callTool("peer.echo", { n: i })`)
		}
	})
	for _, name := range []string{"first", "second"} {
		point, err := d.Client().Audit().MakeCheckpoint(t.Context())
		if err != nil {
			t.Fatalf("Checkpoint: %v", err)
		}
		file := filepath.Join(out, name+".backup")
		if _, err := daemon.WriteBackup(t.Context(), dir, file, "test", point.Checkpoint, k.Recipient()); err != nil {
			t.Fatalf("WriteBackup: %v", err)
		}
		if _, err := daemon.WriteBackup(t.Context(), dir, file, "test", point.Checkpoint, k.Recipient()); err == nil {
			t.Error("a second backup replaced the file")
		}
		c := daemon.Config{DataDir: filepath.Join(out, name), Version: "test"}
		b, err := daemon.RestoreBackup(t.Context(), c, file, k)
		if err != nil || !b.Report.OK || len(b.Report.Outside) != 1 || !b.Report.Outside[0].OK {
			t.Fatalf("RestoreBackup: %+v, %v, want an intact record", b, err)
		}
		if _, err := daemon.RestoreBackup(t.Context(), c, file, k); err == nil {
			t.Error("a restore replaced a data folder")
		}
		restored, stop := run(t, c.DataDir, text)
		x, err := restored.Client().Run(t.Context(), api.RunRequest{Session: "kept", Code: `kept.length`})
		if err != nil || string(x.Value) != "300000" {
			t.Errorf("the restored session: %+v, %v, want its variable", x, err)
		}
		stop()
	}
	over.Store(true)
	work.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, "backup-*")); err != nil || len(left) > 0 {
		t.Errorf("the data folder has %v left of backups, %v", left, err)
	}
}

// TestRestoreEndsExecutions checks that a program that ran at the time of the backup doesn't
// continue in the restored folder: its later writes would be made twice.
func TestRestoreEndsExecutions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, mayDecide)
	key := approverKey(t, d)
	raw(t, d, key, "execute", `{"code":"return await callTool(\"till.put\", {n:1})"}`, "")
	asked := pending(t, d, 1)
	restoredDir := moveFolder(t, d, dir, stop)
	restored := again(t, restoredDir, p)
	x, err := restored.Client().Execution(t.Context(), asked[0].Execution)
	if err != nil || x.State != "interrupted" {
		t.Errorf("after the restore: %+v, %v, want an interrupted execution", x, err)
	}
	pending(t, restored, 0)
	p.booked(t)
}

// moveFolder backs up the data folder of a daemon, stops it, and restores the backup. It returns
// the restored folder.
func moveFolder(t *testing.T, d *daemon.Daemon, dir string, stop func()) string {
	t.Helper()
	out, k := t.TempDir(), backupKey(t)
	point, err := d.Client().Audit().MakeCheckpoint(t.Context())
	if err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	file := filepath.Join(out, "a.backup")
	if _, err := daemon.WriteBackup(t.Context(), dir, file, "test", point.Checkpoint, k.Recipient()); err != nil {
		t.Fatalf("WriteBackup: %v", err)
	}
	stop()
	c := daemon.Config{DataDir: filepath.Join(out, "data"), Version: "test"}
	if _, err := daemon.RestoreBackup(t.Context(), c, file, k); err != nil {
		t.Fatalf("RestoreBackup: %v", err)
	}
	return c.DataDir
}

// TestRestoreEndsApprovals checks that an approval that no call had used at the time of the backup
// permits none in the restored folder: the call may have been made since.
func TestRestoreEndsApprovals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, "mode: direct\n"+mayDecide)
	raw(t, d, approverKey(t, d), "till_put", `{"n":1}`, "")
	asked := pending(t, d, 1)[0]
	yes := api.Decision{Approve: true, Digest: asked.Digest}
	if _, err := d.Client().Approvals().Decide(t.Context(), asked.ID, yes); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	restoredDir := moveFolder(t, d, dir, stop)
	r, err := again(t, restoredDir, p).Client().Approvals().Get(t.Context(), asked.ID)
	if err != nil || r.State != "withdrawn" {
		t.Errorf("after the restore: %+v, %v, want a withdrawn request", r, err)
	}
}

// TestDamagedBackup checks that nothing is restored from a damaged file, or with another key.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	dir, out, k := t.TempDir(), t.TempDir(), backupKey(t)
	d, stop := run(t, dir, "")
	execute(t, d.Client(), `1`)
	point, err := d.Client().Audit().MakeCheckpoint(t.Context())
	if err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	stop()
	file := filepath.Join(out, "a.backup")
	if _, err := daemon.WriteBackup(t.Context(), dir, file, "test", point.Checkpoint, k.Recipient()); err != nil {
		t.Fatalf("WriteBackup: %v", err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	target := daemon.Config{DataDir: filepath.Join(out, "data"), Version: "test"}
	damage := func(name string, data []byte) string {
		path := filepath.Join(out, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		return path
	}
	changed := append([]byte(nil), whole...)
	changed[len(changed)/2] ^= 1
	for name, c := range map[string]struct {
		file string
		key  age.Identity
	}{
		"changed":     {damage("changed", changed), k},
		"cut":         {damage("cut", whole[:len(whole)*2/3]), k},
		"another key": {file, backupKey(t)},
	} {
		if _, err := daemon.RestoreBackup(t.Context(), target, c.file, c.key); err == nil {
			t.Errorf("%s: restored, want an error", name)
		}
		left, err := os.ReadDir(out)
		if err != nil || len(left) > 3 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}
