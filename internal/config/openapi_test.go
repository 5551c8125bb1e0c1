package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAPIs checks that the upstreams of all kinds are listed, shown without secrets, and have
// different names.
func TestAPIs(t *testing.T) {
	const text = `
mcpServers: {files: {command: x}}
openapi: {pets: {spec: p.yaml, labels: [pii], auth: {key: very-secret}, headers: {X-Key: other-secret}}}
`
	c, err := Parse("/etc/biplane.yaml", []byte(text), func(string) (string, bool) { return "", false }, 0)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	all := c.ListSources()
	if len(all) != 2 || all[1].Part != "openapi" || all[1].Name != "pets" || len(c.Tools) != 1 {
		t.Errorf("sources %+v, rules %+v", all, c.Tools)
	}
	shown, err := json.Marshal(c.Shown("/data"))
	if err != nil || !json.Valid(shown) || strings.Contains(string(shown), "secret") ||
		!strings.Contains(string(shown), `"openapi":[{"name":"pets"`) {
		t.Errorf("shown: %s, %v", shown, err)
	}
	_, err = Parse("/b.yaml", []byte("mcpServers: {a: {command: x}}\nopenapi: {a: {spec: p.yaml}}\n"),
		func(string) (string, bool) { return "", false }, 0)
	if err == nil || !strings.Contains(err.Error(), "openapi.a: mcpServers has an upstream of this name") {
		t.Errorf("two upstreams of one name: %v", err)
	}
}

// TestMissingFiles checks that missing files and folders of upstreams are reported.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("{}"), 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	const text = `
openapi: {a: {spec: a.yaml}, b: {spec: b.yaml}, c: {spec: 'https://c.example/openapi.json'}}
graphql: {d: {url: 'https://d.example', schema: d.graphql}}
folders: {e: {path: a.yaml}, f: {path: ., files: [a.yaml, data]}, g: {path: a.yaml/tools}}
`
	noVariables := func(string) (string, bool) { return "", false }
	c, err := Parse(filepath.Join(dir, "biplane.yaml"), []byte(text), noVariables, 0)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	var got []string
	for _, p := range c.ListMissing() {
		got = append(got, fmt.Sprintf("%d %s", p.Line, strings.ReplaceAll(p.Message, dir, "")))
	}
	want := []string{"2 openapi.b.spec: /b.yaml does not exist", "3 graphql.d.schema: /d.graphql does not exist",
		"4 folders.e.path: /a.yaml is not a folder", "4 folders.f.files: /data does not exist",
		"4 folders.g.path: /a.yaml/tools can't be read: not a directory"}
	if !slices.Equal(got, want) {
		t.Errorf("missing %q, want %q", got, want)
	}
}

// TestSignInKeys checks the settings of APIs that people sign in to.
func TestSignInKeys(t *testing.T) {
	parse := func(entry string) error {
		_, err := Parse("/etc/b.yaml", []byte("openapi: { a: { "+entry+" } }\n"),
			func(string) (string, bool) { return "", false }, 0)
		return err
	}
	const spec = "spec: 'https://a.example/openapi.json', "
	for _, ok := range []string{
		spec + "auth: { login: { client_id: i, sign_in: true } }",
		spec + "credentials: person, auth: { login: { client_id: i, sign_in: true, issuer: 'https://l.example' } }",
		"spec: a.yaml, server: 'https://a.example', auth: { login: { client_id: i, client_secret: s, sign_in: true, " +
			"authorization_url: 'https://l.example/a', token_url: 'https://l.example/t', redirect_port: 8123 } }",
	} {
		if err := parse(ok); err != nil {
			t.Errorf("%s: %v, want no error", ok, err)
		}
	}
	const sign = spec + "auth: { login: { client_id: i, sign_in: true"
	for bad, want := range map[string]string{
		spec + "auth: { login: { sign_in: true } }":                                  "needs a client_id",
		spec + "auth: { login: { client_id: i, issuer: 'https://l.example' } }":      "set sign_in: true",
		sign + ", issuer: here } }":                                                  "must be a URL",
		sign + ", password: x } }":                                                   "remove username and password",
		sign + ", scopes: ['a b'] } }":                                               "invalid scope",
		"spec: a.yaml, auth: { login: { client_id: i, sign_in: true } }":             "set server",
		spec + "credentials: person, auth: { login: { client_id: i, scopes: [a] } }": "refers to no secrets",
		sign + " }, b: { client_id: i, sign_in: true } }":                            "with one",
		sign + ", client_secret: '${secret:S}' } }, credentials: person":             "both secrets and sign_in",
	} {
		if err := parse(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", bad, err, want)
		}
	}
	const graph = "graphql: { a: { url: 'https://a.example', auth: { sign_in: true } } }\n"
	if _, err := Parse("/etc/b.yaml", []byte(graph), func(string) (string, bool) { return "", false }, 0); err == nil {
		t.Error("sign_in of a GraphQL endpoint was accepted, want an error")
	}
}
