package function_test

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/biplane-dev/biplane/internal/control/catalog/catalogtest"
	"github.com/biplane-dev/biplane/internal/exec/function"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// FuzzCatalog makes catalog tools from the description of a file's functions and from its text.
// This must succeed with any input, and each tool must be found under its own name.
func FuzzCatalog(f *testing.F) {
	f.Add(`[{"name":"f","kind":"function","text":"f","head":"function f(a) {}"}]`,
		"export function f(a: string[]) {}", false)
	f.Add(`[{"name":"f","kind":"function","head":"x => x"}]`,
		"/** @param {string=} x */ export const f = x => x", false)
	f.Add(`[{"name":"default","kind":"tool","label":"l","schema":{"type":"object",`+
		`"properties":{"a":{"$ref":"#"}}}}]`, "", false)
	f.Add(`[{"name":"f","kind":"function","annotations":{"readOnlyHint":1}},{"name":"f","problem":"x"}]`,
		"type T = { a: T[] } & Partial<T>; export function f({ a, b }: T, ...c: [x: 1, `t`]) {}", false)
	f.Add(`[{"name":"f","kind":"function","head":"function f("}]`,
		"enum E { A = 1, B } export async function* f<T>(a = '(', b?: E", false)
	f.Add(`[{"name":"f\u0000\u202e","kind":"x","description":"\u001b[1m","schema":[]}]`,
		"interface A extends A { [k: string]: A }", false)
	f.Add(`[{"name":"f","kind":"function","schema":{"type":"object","properties":{"a":{"type":"string"}}}}]`,
		"async def f(a: str, *, b: int = 1) -> dict:\n    \"\"\"Does x.\"\"\"\n", true)
	f.Add(`[{"name":"f","kind":"function","description":"d","schema":{"properties":{"a":{"type":["string",7]}}}}]`,
		"def f(*a, **b):\n  return \"", true)
	f.Fuzz(func(t *testing.T, described, source string, python bool) {
		name := "f.ts"
		if python {
			name = "f.py"
		}
		file, err := function.ReadFile(fstest.MapFS{name: {Data: []byte(source)}}, name)
		if err != nil {
			return // the error is the result
		}
		good, _, err := file.ReadExports(json.RawMessage(described))
		if err != nil {
			return
		}
		checkCatalog(t, good)
	})
}

// checkCatalog makes catalog tools of exports.
func checkCatalog(t *testing.T, exports []function.Export) {
	t.Helper()
	var tools []*tool.Tool
	for i := range exports {
		e := &exports[i]
		if made, err := web.NewTool("f", e.Name, e.Title, e.Description, e.Annotations, e.Schema, nil); err == nil {
			tools = append(tools, made)
		}
	}
	catalogtest.CheckTools(t, "f", tools)
}

// FuzzManifest reads manifests of executables, and makes catalog tools of them.
func FuzzManifest(f *testing.F) {
	f.Add("title: T\ndescription: |\n  Does x.\nread_only: true\nargs: [--json, -]\nparameters:\n  type: object\n" +
		"  properties: { a: { type: string, enum: [1, null, 2.5] } }\n")
	f.Add("executable: ../x\nparameters: { type: object, properties: { a: { $ref: '#' } } }")
	f.Add("a: &a [*a]\nparameters: &b { <<: *b }")
	f.Add("- - - - ? ? [[{{")
	f.Fuzz(func(t *testing.T, text string) {
		files := fstest.MapFS{"x.tool.yaml": {Data: []byte(text)}, "x": {Data: []byte("#!/bin/sh\n")}}
		var host function.Host
		m, err := host.LoadFile(t.Context(), files, "x.tool.yaml", &function.Permission{})
		if err != nil {
			return // the error is the result
		}
		checkCatalog(t, m.Exports)
		for _, name := range m.Uses {
			if _, ok := files[name]; !ok {
				t.Errorf("it uses %q, which is not in the folder", name)
			}
		}
	})
}
