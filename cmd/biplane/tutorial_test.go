package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// TestTutorial follows the tutorial: it writes the files and runs the commands, in order. The first
// line of a block is ```sh, ```sh exit 3, or ```yaml biplane.yaml for a file.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	text, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	dir := t.TempDir()
	npx := fmt.Sprintf("#!/bin/sh\nshift 2\nexec %q %q \"$@\"\n",
		peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/server-filesystem/dist/index.js"))
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	writeFile(t, filepath.Join(dir, "bin", "npx"), npx, 0o700)

	commands, entries := 0, 0
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		head, body, _ := strings.Cut(part, "\n")
		kind, argument, _ := strings.Cut(head, " ")
		switch {
		case kind == "sh":
			want, _ := strconv.Atoi(strings.TrimPrefix(argument, "exit "))
			runBlock(t, dir, body, want)
			commands++
		case kind == "json":
			runEntry(t, dir, body)
			entries++
		case argument != "":
			writeFile(t, filepath.Join(dir, argument), body, 0o600)
		}
	}
	if commands < 10 {
		t.Errorf("%d blocks of commands ran, want at least 10: has the page changed its form?", commands)
	}
	if entries != 1 {
		t.Errorf("%d client configurations were tried, want 1", entries)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "box", "todo.txt")); string(got) != "call Bob" {
		t.Errorf("after the tutorial box/todo.txt is %q (%v), want %q", got, err, "call Bob")
	}
}

// runBlock runs the commands of a block, which must exit with the code want, and returns their
// output. apr_... stands for the only pending request.
func runBlock(t *testing.T, dir, body string, want int) string {
	t.Helper()
	body = strings.ReplaceAll(body, "apr_...", "$(biplane approvals -o json | grep -o 'apr_[a-z0-9]*' | head -n 1)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-eu", "-c", body)
	c.Dir = dir
	c.Env = documentEnvironment(dir)
	out, err := c.CombinedOutput()
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	if code != want {
		t.Fatalf("exit code %d, want %d\n%s\n%s", code, want, body, out)
	}
	return string(out)
}

// documentEnvironment returns the environment of a document's commands: dir is the home directory,
// and dir/bin is on the PATH.
func documentEnvironment(dir string) []string {
	return append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "HOME="+dir,
		"XDG_DATA_HOME="+filepath.Join(dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}
