package guest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A host is a driver that only has capabilities.
type host sandbox.Capabilities

func (h host) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities(h), nil
}

func (host) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, errors.New("no sandbox is created")
}

// TestEmbeddedNode checks the list of Node's modules against the embedded engine's runtime.
func TestEmbeddedNode(t *testing.T) {
	b, err := os.ReadFile("../../sandbox/wasm/guest/src/modules.js")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	_, table, _ := strings.Cut(string(b), "const builtin = record({")
	table, _, _ = strings.Cut(table, "});")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  "?([\w/]+)"?: \(`).FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	want := strings.Fields(embeddedNode)
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the runtime has %v, the list %v", names, want)
	}
}

func TestExplainImports(t *testing.T) {
	engine := sandbox.Kind{Name: "wasm", Tier: tool.WASM,
		Driver: host{Tier: tool.WASM, Runtimes: []string{"python"}}}
	process := sandbox.Kind{Name: "process", Tier: tool.Process,
		Driver: host{Tier: tool.Process, Runtimes: []string{"python"},
			Modules: map[string][]string{"python": {"pandas", "numpy"}}}}
	broken := sandbox.Kind{Name: "process", Tier: tool.Process, Err: errors.New("there are no namespaces")}
	for _, c := range []struct {
		name      string
		kinds     []sandbox.Kind
		imports   string
		inSession bool
		want      string
	}{
		{"standard library", []sandbox.Kind{engine, process}, "json _x", false, ""},
		{"nowhere", []sandbox.Kind{engine, process}, "json polars pandas", false, "no sandbox has polars: install it"},
		{"outside of the session", []sandbox.Kind{engine, process}, "pandas", true, "in another session"},
		{"neither", []sandbox.Kind{engine, process}, "PIL", true, "apt-get install python3-pil"},
		{"no such sandbox", []sandbox.Kind{engine, broken}, "pandas", false, "there are no namespaces"},
		{"the engine only", []sandbox.Kind{engine}, "pandas", false, ""},
	} {
		n := Need{Language: "python", Imports: strings.Fields(c.imports)}
		got := New(Config{Kinds: c.kinds}).ExplainImports(t.Context(), n, c.inSession)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestExplainNodeImports checks the texts for programs in TypeScript.
func TestExplainNodeImports(t *testing.T) {
	engine := sandbox.Kind{Name: "wasm", Tier: tool.WASM, Driver: host{Tier: tool.WASM, Runtimes: []string{"js"}}}
	process := sandbox.Kind{Name: "process", Tier: tool.Process, Driver: host{Tier: tool.Process,
		Runtimes: []string{"js"}, Modules: map[string][]string{"js": {"child_process", "zod", "@a/b"}}}}
	absent := sandbox.Kind{Name: "process", Tier: tool.Process, Driver: host{Tier: tool.Process,
		Runtimes: []string{"python"}, Unavailable: map[string]string{"js": "install nodejs"}}}
	for _, c := range []struct {
		name, imports, requires string
		process                 sandbox.Kind
		inSession               bool
		want                    string
	}{
		{"embedded", "fs path", "", process, false, ""},
		{"nowhere", "zod left-pad/x", "", process, false, "no sandbox has left-pad/x: install it for the system's " +
			"Node.js, for example with npm install -g left-pad"},
		{"require", "", "fs nope", process, false, "npm install -g fs"},
		{"scope", "@a/b/c", "", process, true, "in another session"},
		{"no Node.js", "zod", "", absent, false, "can't run typescript: install nodejs"},
	} {
		n := Need{Language: "typescript", Imports: strings.Fields(c.imports), Requires: strings.Fields(c.requires)}
		got := New(Config{Kinds: []sandbox.Kind{engine, c.process}}).ExplainImports(t.Context(), n, c.inSession)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
