package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog/catalogtest"
)

// An oneFile is a source with one file.
type oneFile []byte

func (s oneFile) readFile(_ context.Context, name string, most int) ([]byte, error) {
	switch {
	case name != "api.yaml":
		return nil, errors.New("no such file")
	case len(s) > most:
		return nil, errors.New("too large")
	}
	return s, nil
}

// FuzzDocument makes catalog tools of documents. Each tool has valid JSON Schemas, and each request
// stays on the document's server.
func FuzzDocument(f *testing.F) {
	f.Add([]byte("openapi: 3.0.3\npaths:\n  /a/{b}:\n    get:\n      operationId: c\n      parameters: " +
		"[{name: b, in: path, style: matrix, schema: {type: array}}, {name: d, in: query, style: deepObject}]\n" +
		"      responses: {'200': {content: {application/json: {schema: {$ref: '#/components/schemas/E'}}}}}\n" +
		"components: {schemas: {E: {properties: {e: {$ref: '#/components/schemas/E'}}}}}\n"))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/x":{"post":{"tags":["t"],"requestBody":{"content":{` +
		`"multipart/form-data":{"schema":{"type":["object","null"],"properties":{"f":{"format":"binary"}}},` +
		`"encoding":{"f":{"contentType":"a/b"}}},"text/plain":{}}},"security":[{"k":["s"]}]}}},` +
		`"components":{"securitySchemes":{"k":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"/t"}}}}}}`))
	f.Add([]byte("swagger: '2.0'\nhost: h\nbasePath: /v1\npaths:\n  /a:\n    post:\n      consumes: [a/b]\n" +
		"      parameters: [{in: body, name: b, schema: {$ref: '#/definitions/B'}}]\n" +
		"      responses: {default: {description: d}}\ndefinitions: {B: {type: object}}\n"))
	f.Add([]byte("a: &a [*a]\nb: &b {<<: *b}\nopenapi: 3.0.0\npaths: {/a: {$ref: '#/paths/~1a'}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := loadDocument(t.Context(), oneFile(text), "api.yaml")
		if err != nil {
			return
		}
		table, err := readTable(d, "u", serverConfig{fixed: "https://api.example.com/v1"})
		if err != nil {
			return
		}
		for _, x := range table.tools {
			if !json.Valid(x.InputSchema) || !json.Valid(x.OutputSchema) {
				t.Errorf("%s: its schemas are %s and %s", x.Name, x.InputSchema, x.OutputSchema)
			}
		}
		catalogtest.CheckTools(t, "u", table.tools)
		for name, o := range table.byName {
			args := newMap()
			for _, p := range o.params {
				args.addField(p.argument, newText("../@evil.example/?#"))
			}
			r, err := o.buildRequest(args)
			if err != nil {
				continue
			}
			if to, err := r.buildURL(); err == nil && to.Host != "api.example.com" {
				t.Errorf("%s: a request goes to %s", name, to)
			}
		}
	})
}
