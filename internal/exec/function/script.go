package function

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// moduleSource is the module that files get as "biplane", and as "zod" if they have no other.
//
//go:embed module.js
var moduleSource string

// runtimeSource is an expression in JavaScript: an object that describes and calls exports.
//
//go:embed runtime.js
var runtimeSource string

// pythonSource is the same for Python.
//
//go:embed runtime.py
var pythonSource string

// buildScript returns the code that calls a method of the runtime with what f exports.
func (f *File) buildScript(env map[string]string, method string, how *invocation,
	arguments json.RawMessage) program.Bundled {
	if f.Language == "python" {
		return f.pythonScript(env, method, how, arguments)
	}
	if env == nil {
		env = map[string]string{}
	}
	var b strings.Builder
	// The head is one line, so that the module begins on the second one.
	fmt.Fprintf(&b, "__module(\"folder.js\", \"1\", function (module, exports, require) { const process = { env: "+
		"JSON.parse(%s), argv: [], platform: \"linux\", cwd: () => \"/\" };\n", quoteValue(env))
	b.WriteString(f.code)
	b.WriteString("\n});\n(async () => { const m = await __import(\"/folder.js\"), runtime = ")
	b.WriteString(strings.TrimSpace(runtimeSource))
	fmt.Fprintf(&b, "; return runtime.%s(m, JSON.parse(%s), JSON.parse(%s)); })", method, quoteValue(how),
		quoteJSON(arguments))
	return program.Bundled{Code: b.String(), Before: 1, Map: f.srcMap, Sources: f.sources}
}

// quoteValue returns a value as a string literal with its JSON.
func quoteValue(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte("null") // can't happen: maps of strings and invocations always marshal
	}
	return quoteJSON(raw)
}

// quoteJSON returns JSON as a string literal in JavaScript and Python.
func quoteJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	literal, err := json.Marshal(string(raw))
	if err != nil {
		return `"null"` // can't happen: strings always marshal
	}
	return string(literal)
}
