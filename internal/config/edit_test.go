package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestAddServer checks that a server is added, and that all other text stays as it is.
func TestAddServer(t *testing.T) {
	e := ServerEntry{Command: "npx", Args: []string{"-y", "p@1.0.0", "- x: #y", "true", "12"},
		Env: map[string]string{"A": "$${x}", "B": "${secret:B}"}}
	for _, c := range []struct{ name, file, before, want string }{
		{"no file", "a.yaml", "", "mcpServers:\n  new:\n    command: npx\n"},
		{"no servers", "a.yaml", "# top\nmode: direct", "# top\nmode: direct\n\nmcpServers:\n  new:\n"},
		{"comments", "a.yaml",
			"mcpServers:\n    # one\n    a: {command: x} # two\n    # three\n\n# four\nmode: direct\n",
			"    a: {command: x} # two\n    # three\n    new:\n      command: npx\n"},
		{"at the end", "a.yaml", "mode: code\nmcpServers:\n  a:\n    command: x\n    env:\n      K: |\n        v\n",
			"        v\n  new:\n    command: npx\n"},
		{"empty", "a.yaml", "mcpServers: {} # none yet\nmode: code\n", "mcpServers:  # none yet\n  new:\n"},
		{"nothing", "a.yaml", "mcpServers:\nmode: code\n", "mcpServers:\n  new:\n    command: npx\n"},
		{"JSON", ".mcp.json",
			"{\n  // the servers\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // one\n  }\n}\n",
			"// one\n"},
		{"JSON without servers", "a.json", "{\"mode\": \"direct\"}", "\"mode\": \"direct\""},
		{"JSON with a comma", "a.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"},},}",
			"\"a\": {\"command\": \"x\"},"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if c.before != "" {
			if err := os.WriteFile(path, []byte(c.before), 0o640); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
		}
		if err := AddServer(path, "new", e, tool.WASM); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		after, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(after), c.want) {
			t.Errorf("%s: got %s, %v, want it to contain %s", c.name, after, err, c.want)
		}
		for line := range strings.Lines(c.before) {
			if strings.HasSuffix(c.file, ".json") && !strings.HasPrefix(c.file, ".") {
				continue // its last line gets a comma
			}
			if words := strings.Fields(line); len(words) > 0 && !strings.Contains(string(after), words[len(words)-1]) &&
				!strings.Contains(line, "{}") {
				t.Errorf("%s: the line %q is gone:\n%s", c.name, line, after)
			}
		}
		got, err := Load(path, tool.WASM)
		if err != nil {
			t.Errorf("%s: Load: %v", c.name, err)
			continue
		}
		added := got.Servers[len(got.Servers)-1]
		if added.Name != "new" || !slices.Equal(added.Args, e.Args) || added.Env["A"] != "${x}" ||
			!slices.Equal(added.Secrets, []string{"B"}) {
			t.Errorf("%s: read again it is %+v", c.name, added)
		}
		if info, err := os.Stat(path); err != nil || c.before != "" && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: the permissions are %v, %v", c.name, info.Mode(), err)
		}
	}
}

// TestAddServerProblems checks that a file which can't be edited stays as it is.
func TestAddServerProblems(t *testing.T) {
	for _, c := range []struct{ file, before, want string }{
		{"a.yaml", "mcpServers:\n  new: {command: x}\n", "has a server new already"},
		{"a.yaml", "mcpServers: {a: {command: x}}\n", "has a form that can't be edited"},
		{"a.yaml", "x: &s\n  a: {command: x}\nmcpServers: *s\n", "has a form that can't be edited"},
		{"a.yaml", "mode: other\n", "mode is one of"},
		{"a.yaml", "mode: [\n", "a.yaml:1"},
		{"a.json", "{\"mcpServers\": []}", "has a form that can't be edited"},
		{"a.json", "[]", "not a JSON object"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		err := AddServer(path, "new", ServerEntry{Command: "npx"}, tool.WASM)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.before, err, c.want)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != c.before {
			t.Errorf("%q became %q, %v", c.before, after, err)
		}
	}
}

// TestRegistryProblems checks that a list without a signature needs the user's word.
func TestRegistryProblems(t *testing.T) {
	const key = "ed25519:SNdzUg0E6aIhQQPtDQJL3VpqD2MMjmmQHD3TSu5qkw0="
	for text, want := range map[string]string{
		"{source: a.json}":                                     "needs registry.key",
		"{only: true}":                                         "needs registry.source",
		"{key: " + key + "}":                                   "need registry.source",
		"{source: a.json, key: abc}":                           "a public key is ed25519:",
		"{source: 'https://h/l.json', unsigned: true}":         "only a list in a file can be unsigned",
		"{source: a.json, unsigned: true, key: '" + key + "'}": "no meaning with registry.key",
		"{source: 'http://h/l.json', key: '" + key + "'}":      "begins with https",
		"{public: 'http://h'}":                                 "begins with https",
		"{source: a.json, key: ['" + key + "', x]}":            "a public key is ed25519:",
		"{source: a.json, key: ['" + key + "'], only: true}":   "",
		"{source: 'https://h/l.json', key: '" + key + "'}":     "",
		"{source: a.json, unsigned: true}":                     "",
	} {
		_, err := Parse("/x/biplane.yaml", []byte("registry: "+text), func(string) (string, bool) { return "", false },
			tool.WASM)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
