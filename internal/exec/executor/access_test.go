package executor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A warden denies writing some files.
type warden struct {
	mu      sync.Mutex
	barred  string
	refused []string
}

func (w *warden) May(u vfs.Use) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u.Write && u.Path == w.barred {
		return tool.Errorf(tool.Denied, "policy test: not %s", u.Path)
	}
	return nil
}

func (w *warden) Refused(_ context.Context, u vfs.Use, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, fmt.Sprintf("%s %s", u.Path, u.Principal.ID))
}

// TestRecoveryDoesNotDecideOnFilesAgain checks that decisions made before the process ended stand
// afterwards, whatever the policies are by then. Later file operations are decided by the new
// policies.
func TestRecoveryDoesNotDecideOnFilesAgain(t *testing.T) {
	t.Parallel()
	w := &warden{barred: "workspace/no"}
	s := newScene(t, func(cfg *executor.Config) { cfg.Access = w })
	gate := make(chan struct{})
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(
			map[string]any{"code": `const fs = await import("node:fs"), p = fs.promises; const said = [];
			for (let i = 0; i < 2; i++) { try { fs.writeFileSync("no", "1") } catch (e) { said.push(e.code) } await p.writeFile("no", "1").catch(e => said.push(e.code)); }
			fs.writeFileSync("yes", "1"); await p.appendFile("yes", "2");
			await box.read({ n: 1 });
			await p.writeFile("yes", "3").catch(e => said.push("then " + e.code)); await p.writeFile("no", "4");
			return [said, fs.readdirSync("workspace"), fs.readFileSync("yes", "utf8"), fs.readFileSync("no", "utf8")]`, "session": "s"})
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	var id string
	eventually(t, "it is written down", func() bool {
		all, err := s.x.Executions(context.Background(), s.who, journal.Query{States: []journal.State{journal.Running}})
		if err != nil || len(all) != 1 {
			return false
		}
		id = all[0].ID
		return true
	})
	w.mu.Lock()
	before := slices.Clone(w.refused)
	w.barred = "workspace/yes"
	w.mu.Unlock()
	if len(before) != 1 {
		t.Errorf("on record before: %q", before)
	}
	s.crash(0)
	<-over
	close(gate)
	want := `[["EACCES","EACCES","EACCES","EACCES","then EACCES"],["no","yes"],"12","4"]`
	if d := s.ended(id); d.State != journal.Done || string(d.Value) != want {
		t.Errorf("%s %s %+v, want %s", d.State, d.Value, d.Error, want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.refused[len(before):]; len(got) != 1 || got[0] != "workspace/yes "+s.who.ID {
		t.Errorf("on record after: %q", got)
	}
}
