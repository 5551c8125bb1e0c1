package guest

import (
	"context"
	"errors"
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
