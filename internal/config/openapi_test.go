package config

import (
	"encoding/json"
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
