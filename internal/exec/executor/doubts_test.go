package executor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestUndeclaredArguments checks that the answer mentions wrong argument names, which a tool that
// allows undeclared arguments silently ignores.
func TestUndeclaredArguments(t *testing.T) {
	t.Parallel()
	a := standard()
	a["open"] = func(_ context.Context, c *tool.Call) (*tool.Result, error) { return tool.Text(false, "text"), nil }
	r := newRig(t, a, nil)
	for _, c := range []struct{ language, code, want string }{
		{"typescript", `await box.open({ path: "a", lines: 1 })`,
			"note: box.open: argument lines is not declared, so that the tool may ignore it; declared: head, mode, path"},
		{"typescript", `const a = [{ path: "a", lines: 1 }]; for (const x of [...a, ...a]) await box.open(x); 1`,
			"note: box.open: argument lines is not declared, so that the tool may ignore it; declared: head, mode, path"},
		{"python", `await box.open(path="a", lines=1)`, "note: box.open: argument lines is not declared, so that the " +
			"tool may ignore it; declared: head, mode, path"},
		{"python", `await box.open(path="a", heads=1)`, "note: box.open: argument heads is not declared, so that the " +
			"tool may ignore it; did you mean head?; declared: head, mode, path"},
		{"typescript", `await box.open({ path: "a", heads: 1 })`,
			"note: box.open: argument heads is not declared; did you mean head?"},
		{"typescript", `await box.open({ path: "a", head: 1 })`, ""},
		{"typescript", `await box.echo({ anything: 1 })`, ""},
		{"typescript", `await callTool(["box.open"].pop(), { lines: 1 }).catch(() => 1)`, ""}, // the call was not made
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		text := strings.Join(textsOf(t, res), "\n")
		var notes []string
		for _, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, "note: ") {
				notes = append(notes, l)
			}
		}
		if got := strings.Join(notes, "\n"); res.IsError || got != c.want {
			t.Errorf("%s\n got %s\nwant %s\n%s", c.code, got, c.want, text)
		}
	}
}
