//go:build linux

package owned_test

import (
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
