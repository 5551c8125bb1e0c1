package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// engines is the directory whose go:generate lines translate the engines.
const engines = "../../exec/sandbox/wasm"

// TestGenerated checks that the committed translations of the engines match their generators'
// output.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	sources, err := filepath.Glob(filepath.Join(engines, "*.go"))
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	n := 0
	for _, f := range sources {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for line := range strings.Lines(string(b)) {
			_, args, ok := strings.Cut(line, "/internal/lab/w2x ")
			if !ok || !strings.HasPrefix(line, "//go:generate go run ") {
				continue
			}
			n++
			j, err := parseJob(strings.Fields(args), io.Discard)
			if err != nil {
				t.Fatalf("f = %s, err = %v, want nil", f, err)
			}
			t.Run(j.opt.Package, func(t *testing.T) { checkGenerated(t, j) })
		}
	}
	if n == 0 {
		t.Errorf("%s has no go:generate line of w2x", engines)
	}
}

func checkGenerated(t *testing.T, j *job) {
	if j.sum == "" {
		t.Error("the module is not pinned: give its -sha256")
	}
	files, err := j.translateModule(engines)
	if err != nil {
		t.Fatalf("translateModule: %v", err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(engines, j.out, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what w2x makes (%v): run go generate ./internal/exec/sandbox/wasm",
				filepath.Join(j.out, name), err)
		}
	}
	left, err := filepath.Glob(filepath.Join(engines, j.out, "*.go"))
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, f := range left {
		if files[filepath.Base(f)] == nil {
			t.Errorf("%s is left over: run go generate ./internal/exec/sandbox/wasm", f)
		}
	}
}
