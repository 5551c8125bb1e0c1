package config_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestToolRules(t *testing.T) {
	s, err := parseFile("/x/b.yaml", "policy: ./mine\ntools:\n  \"shop.*\": {tags: [money], read_only: false}\n  "+
		"shop.get: {read_only: true, destructive: false, idempotent: true, open_world: false}\n")
	if err != nil || s.Policy != "./mine" || s.PolicyDir != filepath.FromSlash("/x/mine") || len(s.Tools) != 2 ||
		s.Tools[0].Tags[0] != "money" || *s.Tools[0].ReadOnly || !*s.Tools[1].ReadOnly {
		t.Errorf("s = %+v, err = %v", s, err)
	}
	for text, says := range map[string]string{
		"tools: {\"shop.*\": {readonly: true}}": `b.yaml:1:20: tools.shop.* has no key "readonly": did you mean ` +
			`"read_only"?`,
		"tools: {\"shop.*\": {labels: [pi]}}": `tools.shop.*.labels: unknown label "pi": labels are ` +
			`confidential, pii, untrusted, public, external: did you mean "pii"?`,
		"tools: {\"shop *\": {tags: [a]}}":          "write the path of a tool",
		"policy: ask-for-write":                     `did you mean "ask-for-writes"?`,
		"tools: {\"shop.*\": {read_only: perhaps}}": "must be true or false",
	} {
		if _, err := parseFile("b.yaml", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
