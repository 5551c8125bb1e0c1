package clients

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

const gooseText = `# my settings
GOOSE_MODEL: m # chosen
extensions:
  developer: # Goose's own
    type: builtin
    enabled: true
    name: developer

  # finds things
  search:
    type: stdio
    name: Search
    enabled: true
    cmd: npx
    args: [-y, "@x/search"]
    envs:
      KEY: very-secret-key-1
    description: |
      Finds.
        web:
    timeout: 300
  "web": {type: streamable_http, uri: "https://web", enabled: false}
  kept:
    type: stdio
    cmd: y
    env_keys: [TOKEN]
# the end
GOOSE_MODE: auto
`

// TestInstallGoose checks that Biplane replaces the servers among Goose's own extensions, and
// that later changes stay.
func TestInstallGoose(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "goose")
	writeFile(t, target.File, gooseText, 0o600)
	c := install(t, target, m, installation)
	if !slices.Equal(c.Taken, []string{"search", "web"}) || len(c.Left) != 1 || c.Left[0].Name != "kept" {
		t.Errorf("took %v and left %+v, want search and web, and kept", c.Taken, c.Left)
	}
	const entry = "  biplane:\n    type: stdio\n    name: biplane\n    enabled: true\n    cmd: /opt/bin/biplane\n" +
		"    args:\n    - mcp\n    - --config\n    - /etc/b.yaml\n    timeout: 300\n"
	want := "# my settings\nGOOSE_MODEL: m # chosen\nextensions:\n  developer: # Goose's own\n    type: builtin\n" +
		"    enabled: true\n    name: developer\n\n  kept:\n    type: stdio\n    cmd: y\n    env_keys: [TOKEN]\n" +
		entry + "# the end\nGOOSE_MODE: auto\n"
	if got := readFile(t, target.File); got != want {
		t.Errorf("the file has\n%s\nwant\n%s", got, want)
	}
	if d := c.DiffFile(); strings.Contains(d, "very-secret") || !strings.Contains(d, "-    cmd: npx") {
		t.Errorf("the diff is\n%s\nwant it without the secret", d)
	}
	if again := install(t, target, m, installation); !again.IsEmpty() {
		t.Errorf("the second time it changes the file:\n%s", again.DiffFile())
	}
	changed := strings.Replace(want, "GOOSE_MODE: auto", "GOOSE_MODE: chat # changed", 1)
	writeFile(t, target.File, changed, 0o600)
	uninstall(t, target)
	got := readFile(t, target.File)
	for _, part := range []string{"GOOSE_MODE: chat # changed", "  # finds things\n  search:\n",
		"      Finds.\n        web:\n", `  "web": {type: streamable_http`, "developer: # Goose's own", "  kept:\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("after uninstall %q is missing:\n%s", part, got)
		}
	}
	if strings.Contains(got, "biplane") {
		t.Errorf("after uninstall Biplane is left:\n%s", got)
	}
	checkWhole(t, gooseText)
}

// checkWhole checks that a file becomes what it was, byte for byte.
func checkWhole(t *testing.T, text string) {
	t.Helper()
	m := home(t)
	target := findTarget(t, m, "goose")
	writeFile(t, target.File, text, 0o600)
	install(t, target, m, installation)
	uninstall(t, target)
	if now := readFile(t, target.File); now != text {
		t.Errorf("after uninstall the file has\n%s\nwant\n%s", now, text)
	}
}

// TestGooseForms checks files of other forms: each gets Biplane, or stays with the reason.
func TestGooseForms(t *testing.T) {
	for text, problem := range map[string]string{
		"": "", "a: 1": "", "extensions:\n": "", "extensions: {}\nb: 2": "", "extensions: # none\na: 1\n": "",
		"extensions:\n    a:\n        type: stdio\n        cmd: x":                 "",
		"extensions: {a: {type: stdio, cmd: x}}\n":                                 "form that can't be edited",
		"\"extensions\":\n  a: {type: stdio, cmd: x}\n":                            "form that can't be edited",
		"a: &x [1, 2]\nb: *x\nextensions:\n  a: {type: stdio, cmd: x}\n":           "aliases",
		"a: 1\n---\nextensions: {}\n":                                              "second document",
		"extensions:\n  a: {type: stdio, cmd: x}\nextensions:\n  b: {type: sse}\n": "already defined",
		"extensions:\n  biplane: {type: stdio, cmd: other}\n":                      "",
		"- a\n": "can't be read", "a: [": "can't be read",
		strings.Repeat("a: [", 2000): "nested too deeply",
	} {
		m := home(t)
		target := findTarget(t, m, "goose")
		writeFile(t, target.File, text, 0o600)
		c, err := target.PlanInstall(installation, m, func(string) (string, bool) { return "", false })
		if problem != "" {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%q: %v, want %s", text, err, problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		tables, err := parseYAML(string(c.After))
		if err != nil {
			t.Errorf("%q becomes %q: %v", text, c.After, err)
			continue
		}
		servers, err := decodeSection(tables)
		if err != nil || len(servers) != 1 || !json.Valid(servers[tool.Own]) {
			t.Errorf("%q becomes %q: %s, %v; want only Biplane", text, c.After, servers, err)
		}
	}
}

// FuzzYAML checks that a change of any file adds or removes one server and nothing else.
func FuzzYAML(f *testing.F) {
	f.Add(gooseText)
	f.Add("extensions: {}")
	f.Add("extensions:\n- a\n")
	f.Add("a: |\n  extensions:\n    x: 1\nextensions:\n  x: 1")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := openYAML([]byte(text))
		if err != nil {
			return
		}
		before := len(file.cloneServers())
		entry, err := goose.writeEntry("x", []string{"y"})
		if err != nil {
			t.Fatalf("writeEntry: %v", err)
		}
		if _, ok := file.cloneServers()[tool.Own]; ok || file.addServer(tool.Own, entry) != nil {
			return
		}
		again, err := openYAML([]byte(file.text))
		if err != nil || len(again.cloneServers()) != before+1 {
			t.Fatalf("%q becomes %q: %v", text, file.text, err)
		}
		if _, err := again.removeServer(tool.Own); err == nil && len(again.cloneServers()) != before {
			t.Errorf("%q becomes %q", file.text, again.text)
		}
	})
}
