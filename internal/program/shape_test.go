package program_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/sobek"

	"github.com/biplane-dev/biplane/internal/program"
)

var update = flag.Bool("update", false, "write the golden files anew")

// guest is what a program finds around it: two namespaces that answer with what they are called with.
const guest = `
var calls = [];
var upstream = (name) => new Proxy({}, { get: (_, member) => member === "then" || member === "toJSON" ? undefined : async (args) => {
	calls.push(name + "." + member);
	return { tool: name + "." + member, args: args ?? {}, items: [1, 2, 3] };
} });
var tools = { github: upstream("github"), files: upstream("files") };
var { github, files } = tools;
var callTool = async (path, args) => ({ tool: path, args });
var logged = [];
var console = { log: (...a) => { logged.push(a.join(" ")); }, error: (...a) => { logged.push(a.join(" ")); } };
var __import = async (spec, names) => {
	if (spec.startsWith("./tools/")) return tools[spec.split("/")[2]];
	if (spec === "node:path") return { join: (...p) => p.join("/"), default: { join: (...p) => p.join("/") } };
	if (spec === "./data.json") return { default: { n: 7 } };
	throw new Error("no module " + spec);
};`

// run runs code and gives its value as JSON, or what it threw.
func run(t *testing.T, code string) string {
	t.Helper()
	vm := sobek.New()
	if _, err := vm.RunString(guest); err != nil {
		t.Fatal(err)
	}
	if err := vm.Set("code", code); err != nil {
		t.Fatal(err)
	}
	v, err := vm.RunString(`(0, eval)(code)()`)
	if err != nil {
		return "does not run: " + err.Error()
	}
	p, ok := v.Export().(*sobek.Promise)
	if !ok {
		return "not a promise"
	}
	switch p.State() {
	case sobek.PromiseStateRejected:
		return "throws " + p.Result().String()
	case sobek.PromiseStatePending:
		return "pending"
	}
	if err := vm.Set("result", p.Result()); err != nil {
		t.Fatal(err)
	}
	s, err := vm.RunString(`(typeof result === "function" ? "a function" : JSON.stringify(result) ?? "undefined") + (calls.length || logged.length ? "\n" + [...calls, ...logged].join("\n") : "")`)
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// TestShapes prepares and runs the programs of testdata/*.txtar and compares code, value, calls and notes with what
// follows them there.
func TestShapes(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { golden(t, path, outcome) })
	}
}

func outcome(t *testing.T, source string) []byte {
	var b bytes.Buffer
	source = strings.NewReplacer("<BOM>", "\ufeff", "<CR>", "\r").Replace(source)
	p, err := program.New(program.Config{}).Prepare(source, "")
	if err != nil {
		fmt.Fprintf(&b, "error: %s\n", err)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "%s\n=> %s\n", p.Code, run(t, p.Code))
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if len(p.Imports) > 0 {
		j, _ := json.Marshal(p.Imports)
		fmt.Fprintf(&b, "imports: %s\n", j)
	}
	return b.Bytes()
}
