package function_test

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/function"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// FuzzCatalog makes catalog tools from the description of a file's functions and from its text.
// This must succeed with any input, and each tool must be found under its own name.
func FuzzCatalog(f *testing.F) {
	f.Add(`[{"name":"f","kind":"function","text":"f","head":"function f(a) {}"}]`, "export function f(a: string[]) {}")
	f.Add(`[{"name":"f","kind":"function","head":"x => x"}]`, "/** @param {string=} x */ export const f = x => x")
	f.Add(`[{"name":"default","kind":"tool","label":"l","schema":{"type":"object",`+
		`"properties":{"a":{"$ref":"#"}}}}]`, "")
	f.Add(`[{"name":"f","kind":"function","annotations":{"readOnlyHint":1}},{"name":"f","problem":"x"}]`,
		"type T = { a: T[] } & Partial<T>; export function f({ a, b }: T, ...c: [x: 1, `t`]) {}")
	f.Add(`[{"name":"f","kind":"function","head":"function f("}]`,
		"enum E { A = 1, B } export async function* f<T>(a = '(', b?: E")
	f.Add(`[{"name":"f\u0000\u202e","kind":"x","description":"\u001b[1m","schema":[]}]`,
		"interface A extends A { [k: string]: A }")
	f.Fuzz(func(t *testing.T, described, source string) {
		file, err := function.ReadFile(fstest.MapFS{"f.ts": {Data: []byte(source)}}, "f.ts")
		if err != nil {
			return // the error is the result
		}
		good, _, err := file.ReadExports(json.RawMessage(described))
		if err != nil {
			return
		}
		c := catalog.New(catalog.Config{})
		var tools []*tool.Tool
		for i := range good {
			e := &good[i]
			if made, err := web.NewTool("f", e.Name, e.Title, e.Description, e.Annotations, e.Schema, nil); err == nil {
				tools = append(tools, made)
			}
		}
		c.Set(catalog.Source{Name: "f", Tools: tools, Health: tool.Health{State: tool.Ready}})
		for _, e := range c.View().Entries() {
			if found, err := c.View().Resolve(e.Path()); err != nil || found != e {
				t.Errorf("%s: got %v, %v, want the tool itself", e.Path(), found, err)
			}
			e.Positions()
			e.ListArguments()
			_ = e.CheckArguments(json.RawMessage(`{"a":1}`))
		}
	})
}

// FuzzManifest reads manifests of executables. The tool of each is valid in the catalog.
func FuzzManifest(f *testing.F) {
	f.Add("title: T\ndescription: |\n  Does x.\nread_only: true\nargs: [--json, -]\nparameters:\n  type: object\n" +
		"  properties: { a: { type: string, enum: [1, null, 2.5] } }\n")
	f.Add("executable: ../x\nparameters: { type: object, properties: { a: { $ref: '#' } } }")
	f.Add("a: &a [*a]\nparameters: &b { <<: *b }")
	f.Add("- - - - ? ? [[{{")
	f.Fuzz(func(t *testing.T, text string) {
		files := fstest.MapFS{"x.tool.yaml": {Data: []byte(text)}, "x": {Data: []byte("#!/bin/sh\n")}}
		file, err := function.ReadFile(files, "x.tool.yaml")
		if err != nil {
			return // the error is the result
		}
		for _, name := range file.Uses {
			if _, ok := files[name]; !ok {
				t.Errorf("it uses %q, which is not in the folder", name)
			}
		}
	})
}
