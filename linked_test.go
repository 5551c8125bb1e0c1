package biplane_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// slowToStart lists packages that the binary must not link, since they work for milliseconds before
// main: every process of an engine would start with that.
var slowToStart = []string{
	"github.com/santhosh-tekuri/jsonschema/v6", // compiles the schemas of all drafts
}

func TestLinkedPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/biplane").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	if len(linked) < 100 {
		t.Fatalf("go list shows %d packages, want those of the whole binary", len(linked))
	}
	for _, p := range slowToStart {
		if slices.Contains(linked, p) {
			t.Errorf("the binary links %s, which makes each process start later", p)
		}
	}
}
