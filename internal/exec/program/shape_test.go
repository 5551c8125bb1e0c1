package program_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestShapes prepares and runs the programs of testdata/*.txtar, and compares code, value, calls
// and notes with the files that follow them.
func TestShapes(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("paths = %v, err = %v, want err == nil && len(paths) != 0", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { golden(t, path, outcome) })
	}
}

func outcome(t *testing.T, source string) []byte {
	var b bytes.Buffer
	source = strings.NewReplacer("<BOM>", "\ufeff", "<CR>", "\r").Replace(source)
	p, err := program.New(program.Config{}).Prepare(program.Request{Source: source})
	if err != nil {
		fmt.Fprintf(&b, "error: %s\n", err)
		return b.Bytes()
	}
	if p.Runtime != "js" {
		fmt.Fprintf(&b, "%s\n%s", p.Runtime, p.Code)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "%s\n%s\n", p.Code, run(t, p))
	if p.Remark != "" {
		fmt.Fprintf(&b, "note: %s\n", p.Remark)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if len(p.Imports) > 0 {
		j, _ := json.Marshal(p.Imports)
		fmt.Fprintf(&b, "imports: %s\n", j)
	}
	return b.Bytes()
}
