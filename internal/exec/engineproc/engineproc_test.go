package engineproc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/engineproc"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// The test's own binary becomes the process, since it links the package.

func TestBegun(t *testing.T) {
	d, err := child.New(child.Config{Command: []string{engineproc.Command},
		Begun: launch.Begin([]string{engineproc.Command})})
	if err != nil {
		t.Fatalf("child.New: %v", err)
	}
	defer d.Close()
	if o := sandboxtest.Exec(t.Context(), t, d, sandbox.Spec{}, `() => 1 + 1`, sandboxtest.Host{}); !o.Done ||
		string(o.Value) != "2" {
		t.Fatalf(`o = %+v, want o.Done && string(o.Value) == "2"`, o)
	}
	caps, err := d.Probe(t.Context())
	if err != nil || caps.Details["process"] == "" {
		t.Fatalf(`caps = %+v, err = %v, want err == nil && caps.Details["process"] != ""`, caps, err)
	}
}

func TestNotUsed(t *testing.T) {
	b := launch.Begin([]string{engineproc.Command})
	b.Close() // waits for its end
	var none *launch.EarlyProcess
	none.Close()
	if engineproc.Ahead() != nil {
		t.Error("a process was begun by a command that needs none")
	}
}

// TestByHand checks that a user who types the command gets an explanation.
func TestByHand(t *testing.T) {
	for _, args := range [][]string{{engineproc.Command, "plain"}, {engineproc.Command, "user", "probe=0"}} {
		out, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "for internal use") {
			t.Errorf("args = %v, err = %v, out = %s, want err != nil && strings.Contains(string(out), "+
				"\"for internal use\")", args, err, out)
		}
	}
}
