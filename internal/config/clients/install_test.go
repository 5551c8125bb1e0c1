package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

var installation = Installation{Command: "/opt/bin/biplane", Args: []string{"mcp", "--config", "/etc/b.yaml"}}

func noVariables(string) (string, bool) { return "", false }

// home returns a machine with an empty home folder.
func home(t testing.TB) Machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	return Machine{OS: "linux", Home: filepath.Join(dir, "home"), Folder: filepath.Join(dir, "project")}
}

func findTarget(t testing.TB, m Machine, id string) Target {
	t.Helper()
	all := ListTargets(m, false)
	i := slices.IndexFunc(all, func(x Target) bool { return x.ID == id })
	if i < 0 {
		t.Fatalf("no client %s among %+v", id, all)
	}
	return all[i]
}

func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return string(text)
}

func install(t testing.TB, target Target, m Machine, in Installation) *Change {
	t.Helper()
	c, err := target.PlanInstall(in, m, noVariables)
	if err != nil {
		t.Fatalf("PlanInstall: %v", err)
	}
	if err := c.WriteFiles(); err != nil {
		t.Fatalf("write: %v", err)
	}
	return c
}

func uninstall(t testing.TB, target Target) *Change {
	t.Helper()
	c, err := target.PlanUninstall()
	if err != nil {
		t.Fatalf("PlanUninstall: %v", err)
	}
	if err := c.WriteFiles(); err != nil {
		t.Fatalf("write: %v", err)
	}
	return c
}

// TestInstallClients checks, for each client, that its servers are replaced by the entry in its
// format, that a second installation changes nothing, and that the file becomes what it was.
func TestInstallClients(t *testing.T) {
	plain := `{"command":"/opt/bin/biplane","args":["mcp","--config","/etc/b.yaml"]}`
	servers := "{\n  // settings\n  \"theme\": \"dark\",\n  \"KEY\": {\n    // one\n    \"a\": {\"command\": " +
		"\"x\"},\n    \"b\": {\"url\": \"https://b\"}, // two\n  },\n}\n"
	for id, test := range map[string]struct{ key, text, entry string }{
		"claude-desktop": {"mcpServers", servers, plain},
		"claude-code":    {"mcpServers", `{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"}},"n":1}`, plain},
		"cursor":         {"mcpServers", servers, plain},
		"vs-code": {"servers", servers,
			`{"type":"stdio","command":"/opt/bin/biplane","args":["mcp","--config","/etc/b.yaml"]}`},
		"windsurf":    {"mcpServers", servers, plain},
		"gemini":      {"mcpServers", servers, plain},
		"zed":         {"context_servers", servers, plain},
		"cline":       {"mcpServers", servers, plain},
		"roo-code":    {"mcpServers", servers, plain},
		"kiro":        {"mcpServers", servers, plain},
		"lm-studio":   {"mcpServers", servers, plain},
		"amazon-q":    {"mcpServers", servers, plain},
		"antigravity": {"mcpServers", servers, plain},
		"anythingllm": {"mcpServers", servers, plain},
		"continue":    {"mcpServers", servers, plain},
		"crush": {"mcp", servers,
			`{"type":"stdio","command":"/opt/bin/biplane","args":["mcp","--config","/etc/b.yaml"]}`},
		"opencode": {"mcp", strings.ReplaceAll(servers, `"x"`, `["x", "{env:A}"]`),
			`{"type":"local","command":["/opt/bin/biplane","mcp","--config","/etc/b.yaml"],"enabled":true}`},
		"copilot-cli": {"mcpServers", servers,
			`{"type":"local","command":"/opt/bin/biplane","args":["mcp","--config","/etc/b.yaml"],"tools":["*"]}`},
	} {
		t.Run(id, func(t *testing.T) {
			m := home(t)
			target := findTarget(t, m, id)
			text := strings.ReplaceAll(test.text, "KEY", test.key)
			writeFile(t, target.File, text, 0o640)
			c := install(t, target, m, installation)
			if !slices.Equal(c.Taken, []string{"a", "b"}) || len(c.Left) != 0 {
				t.Errorf("took %v and left %+v, want a and b, and none", c.Taken, c.Left)
			}
			if info, err := os.Stat(target.File); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v, %v; want 0640", info.Mode(), err)
			}
			after, all, err := target.loadFile()
			if err != nil || len(all) != 1 || !equalJSON(all[tool.Own], json.RawMessage(test.entry)) {
				t.Errorf("the servers are %s, %v; want only %s", all, err, test.entry)
			}
			for _, rest := range []string{"// settings", "// two", `"theme": "dark"`} {
				if strings.Contains(text, rest) && !bytes.Contains(after, []byte(rest)) {
					t.Errorf("%s is gone:\n%s", rest, after)
				}
			}
			if again := install(t, target, m, installation); !again.IsEmpty() {
				t.Errorf("the second time it changes the file:\n%s", again.DiffFile())
			}
			if backup := readFile(t, target.File+".before-biplane"); backup != text {
				t.Errorf("the copy has %s, want %s", backup, text)
			}
			if back := uninstall(t, target); !slices.Equal(back.Back, []string{"a", "b"}) {
				t.Errorf("restored %v, want a and b", back.Back)
			}
			if now := readFile(t, target.File); now != text {
				t.Errorf("after uninstall the file has\n%s\nwant\n%s", now, text)
			}
			checkNames(t, filepath.Dir(target.File), filepath.Base(target.File))
			if again := uninstall(t, target); !again.IsEmpty() {
				t.Errorf("a second uninstall changes the file:\n%s", again.DiffFile())
			}
		})
	}
}

// checkNames checks that a folder has only a file.
func checkNames(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, e := range entries {
		if e.Name() != want && !e.IsDir() {
			t.Errorf("%s is left over", e.Name())
		}
	}
}

const codexText = `# my settings
model = "m"
notes = """
[mcp_servers.not]
"""
args = [
  "[mcp_servers.neither]",
]

# finds things
[mcp_servers.search] # here
command = "search"

[mcp_servers.search.env]
KEY = "very-secret-key-1"

[profiles.x]
model = "y"

[mcp_servers."with space"]
url = "https://docs"
`

// TestTargetsAtHome checks that the working folder may be the home folder, where the files of
// projects are those of the user.
func TestTargetsAtHome(t *testing.T) {
	m := Machine{OS: "linux", Home: "/home/a", Folder: "/home/a"}
	for _, project := range []bool{false, true} {
		var ids []string
		for _, target := range ListTargets(m, project) {
			ids = append(ids, target.ID)
		}
		for _, id := range []string{"cursor", "codex", "gemini", "grok-build", "continue"} {
			if !slices.Contains(ids, id) {
				t.Errorf("project = %v: %s is not among %q", project, id, ids)
			}
		}
	}
}

// TestInstallCodex checks the same for TOML, with later changes.
func TestInstallCodex(t *testing.T) {
	for _, id := range []string{"codex", "grok-build"} {
		t.Run(id, func(t *testing.T) { testInstallTOML(t, id) })
	}
}

func testInstallTOML(t *testing.T, id string) {
	m := home(t)
	target := findTarget(t, m, id)
	writeFile(t, target.File, codexText, 0o600)
	c := install(t, target, m, installation)
	want := "# my settings\nmodel = \"m\"\nnotes = \"\"\"\n[mcp_servers.not]\n\"\"\"\nargs = [\n  " +
		"\"[mcp_servers.neither]\",\n]\n\n[profiles.x]\nmodel = \"y\"\n\n[mcp_servers.biplane]\ncommand = " +
		"'/opt/bin/biplane'\nargs = ['mcp', '--config', '/etc/b.yaml']\n"
	if got := readFile(t, target.File); got != want {
		t.Errorf("the file has\n%s\nwant\n%s", got, want)
	}
	if d := c.DiffFile(); strings.Contains(d, "very-secret") || !strings.Contains(d, "-command = \"search\"") {
		t.Errorf("the diff is\n%s\nwant it without the secret", d)
	}
	if again := install(t, target, m, installation); !again.IsEmpty() {
		t.Errorf("the second time it changes the file:\n%s", again.DiffFile())
	}
	changed := strings.Replace(want, `model = "m"`, `model = "other" # changed`, 1)
	writeFile(t, target.File, changed, 0o600)
	uninstall(t, target)
	got := readFile(t, target.File)
	for _, part := range []string{`model = "other" # changed`, "# finds things\n[mcp_servers.search] # here",
		"[mcp_servers.search.env]\nKEY = ", `[mcp_servers."with space"]`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is missing:\n%s", part, got)
		}
	}
	if strings.Contains(got, tool.Own) {
		t.Errorf("Biplane is still there:\n%s", got)
	}
}

// TestUninstallKeepsChanges checks that later changes stay, and that a server which can't be
// restored is reported.
func TestUninstallKeepsChanges(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	writeFile(t, target.File, `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "n": 1}`, 0o600)
	install(t, target, m, installation)
	text := readFile(t, target.File)
	text = strings.Replace(text, `"n": 1`, `"n": 2`, 1)
	text = strings.Replace(text, `"mcpServers": {`, `"mcpServers": {"new": {"command": "z"}, `+
		`"b": {"command": "other"},`, 1)
	writeFile(t, target.File, text, 0o600)
	c := uninstall(t, target)
	if !slices.Equal(c.Back, []string{"a"}) || len(c.Left) != 1 || c.Left[0].Name != "b" ||
		!strings.Contains(c.Left[0].Reason, "mcp.json.before-biplane") {
		t.Errorf("restored %v and left %+v, want a, and b with the name of the copy", c.Back, c.Left)
	}
	now, servers, err := target.loadFile()
	if err != nil || len(servers) != 3 || !equalJSON(servers["b"], json.RawMessage(`{"command":"other"}`)) ||
		!bytes.Contains(now, []byte(`"n": 2`)) {
		t.Errorf("the file has %s, %v; want a, the other b, new and the other n", now, err)
	}
	if backup := readFile(t, target.File+".before-biplane"); !strings.Contains(backup, `"y"`) {
		t.Errorf("the copy has %s, want the old b", backup)
	}
}

// TestInstallAgain checks that servers which a client got after the installation are taken out,
// too, and restored.
func TestInstallAgain(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "windsurf")
	install(t, target, m, installation) // creates the file
	text := strings.Replace(readFile(t, target.File), `"mcpServers": {`, `"mcpServers": {"a": {"command": "x"},`, 1)
	writeFile(t, target.File, text, 0o600)
	if c := install(t, target, m, installation); !slices.Equal(c.Taken, []string{"a"}) {
		t.Errorf("took %v, want a", c.Taken)
	}
	uninstall(t, target)
	_, servers, err := target.loadFile()
	if err != nil || len(servers) != 1 || servers["a"] == nil {
		t.Errorf("the servers are %s, %v; want a", servers, err)
	}
	if err := os.Remove(target.File); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	install(t, target, m, installation)
	uninstall(t, target)
	if _, err := os.Stat(target.File); !os.IsNotExist(err) {
		t.Errorf("the created file is still there: %v", err)
	}
}

// TestInstallLeaves checks what stays in the file.
func TestInstallLeaves(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	text := `{"mcpServers": {"a": {"command": "x"}, "bad": {"command": "${workspaceFolder}/x"}}}`
	writeFile(t, target.File, text, 0o600)
	c := install(t, target, m, installation)
	if !slices.Equal(c.Taken, []string{"a"}) || len(c.Left) != 1 || c.Left[0].Name != "bad" {
		t.Errorf("took %v and left %+v, want a and bad", c.Taken, c.Left)
	}
	uninstall(t, target)
	keep := installation
	keep.Keep = true
	if c := install(t, target, m, keep); len(c.Taken) != 0 || len(c.Import.Servers) != 0 {
		t.Errorf("--keep took %v, and imports %d servers; want none", c.Taken, len(c.Import.Servers))
	}
	if _, servers, err := target.loadFile(); err != nil || len(servers) != 3 {
		t.Errorf("the servers are %s, %v; want three", servers, err)
	}
	uninstall(t, target)
	if now := readFile(t, target.File); now != text {
		t.Errorf("after uninstall the file has %s, want %s", now, text)
	}
}

// TestInstallLink checks that a symbolic link stays one.
func TestInstallLink(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	real := filepath.Join(m.Home, "dotfiles", "mcp.json")
	writeFile(t, real, `{"mcpServers": {}}`, 0o644)
	if err := os.MkdirAll(filepath.Dir(target.File), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.Symlink(real, target.File); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	install(t, target, m, installation)
	if to, err := os.Readlink(target.File); err != nil || to != real {
		t.Errorf("the link leads to %s, %v; want %s", to, err, real)
	}
	if !strings.Contains(readFile(t, real), "/opt/bin/biplane") {
		t.Error("the file that the link leads to was not changed")
	}
}

// TestInstallRefuses checks that a file which can't be changed safely is not touched.
func TestInstallRefuses(t *testing.T) {
	for name, test := range map[string]struct{ id, text, want string }{
		"not JSON":       {"cursor", `{"mcpServers": {`, "can't be read"},
		"a list":         {"cursor", `[]`, "can't be read"},
		"deep":           {"cursor", strings.Repeat("[", 5000), "nested too deeply"},
		"twice":          {"cursor", `{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}`, "twice"},
		"two tables":     {"cursor", `{"mcpServers": {}, "mcpServers": {"a": {"command": "y"}}}`, "twice"},
		"no object":      {"cursor", `{"mcpServers": 5}`, "can't be read"},
		"other case":     {"cursor", `{"MCPServers": {"a": {"command": "x"}}}`, `where "mcpServers" is expected`},
		"TOML's case":    {"codex", "[MCP_servers.a]\ncommand = \"x\"\n", `where "mcp_servers" is expected`},
		"not TOML":       {"codex", "[mcp_servers.a\n", "can't be read"},
		"inline table":   {"codex", "mcp_servers = { a = { command = \"x\" } }\n", "a form that can't be edited"},
		"dotted keys":    {"codex", "mcp_servers.a.command = \"x\"\n", "a form that can't be edited"},
		"Gemini's list":  {"gemini", `{"mcp": {"allowed": ["a"]}, "mcpServers": {}}`, "mcp.allowed"},
		"another server": {"zed", `{"context_servers": {"biplane": {"settings": {}}}}`, "rename it first"},
	} {
		t.Run(name, func(t *testing.T) {
			m := home(t)
			target := findTarget(t, m, test.id)
			writeFile(t, target.File, test.text, 0o600)
			_, err := target.PlanInstall(installation, m, noVariables)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if now := readFile(t, target.File); now != test.text {
				t.Errorf("the file was changed: %s", now)
			}
			checkNames(t, filepath.Dir(target.File), filepath.Base(target.File))
		})
	}
}

// TestInstallConflict checks that a file which another program changes meanwhile is not replaced.
func TestInstallConflict(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	writeFile(t, target.File, `{}`, 0o600)
	c, err := target.PlanInstall(installation, m, noVariables)
	if err != nil {
		t.Fatalf("PlanInstall: %v", err)
	}
	writeFile(t, target.File, `{"n": 1}`, 0o600)
	if err := c.WriteFiles(); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("WriteFiles returned %v, want a conflict", err)
	}
	if now := readFile(t, target.File); now != `{"n": 1}` {
		t.Errorf("the file was replaced: %s", now)
	}
}

// TestPlanImport checks that servers are added once.
func TestPlanImport(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	writeFile(t, target.File, `{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {}, "disabled": true}, `+
		`"b": {"url": "https://b", "headers": {"K": "v"}}, "c": {"command": "c"}}}`, 0o600)
	c, err := target.PlanInstall(installation, m, noVariables)
	if err != nil {
		t.Fatalf("PlanInstall: %v", err)
	}
	path := filepath.Join(m.Home, "biplane.yaml")
	writeFile(t, path, "# mine\nmcpServers:\n  other: {command: x, args: ['1']} # as a\n  c: {command: d}\n", 0o600)
	for i, want := range []string{"[b c-cursor] [other]", "[] [other b c-cursor]"} {
		edit, added, found, err := PlanImport(path, c.Import, noVariables, tool.WASM)
		if err != nil {
			t.Fatalf("PlanImport: %v", err)
		}
		if got := fmt.Sprint(added, found); got != want {
			t.Errorf("%d: added and found %s, want %s", i, got, want)
		}
		if err := edit.WriteFile(); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	want := "# mine\nmcpServers:\n  other: {command: x, args: ['1']} # as a\n"
	if got := readFile(t, path); !strings.HasPrefix(got, want) {
		t.Errorf("the configuration has\n%s", got)
	}
}

// TestInstallProperty checks with files of many forms that an installation and its undoing are
// inverse, also after a change of another setting.
func TestInstallProperty(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	rapid.Check(t, func(r *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\n  ", "\n\t", " /* c */ ", "\n // d\n  "})
		var b strings.Builder
		b.WriteString("{" + space.Draw(r, "s") + `"v": 1,` + space.Draw(r, "s") + `"mcpServers":` +
			space.Draw(r, "s") + "{")
		n := rapid.IntRange(0, 3).Draw(r, "n")
		for i := range n {
			b.WriteString(space.Draw(r, "s") + fmt.Sprintf("%q", fmt.Sprint("s", i)) + ":" + space.Draw(r, "s") +
				fmt.Sprintf(`{"command":"c%d"}`, i) + space.Draw(r, "s"))
			if i < n-1 || rapid.Bool().Draw(r, "comma") {
				b.WriteString(",")
			}
		}
		b.WriteString(space.Draw(r, "s") + "}" + space.Draw(r, "s") + "}")
		text := b.String()
		if err := os.RemoveAll(filepath.Dir(target.File)); err != nil {
			t.Fatalf("os.RemoveAll: %v", err)
		}
		writeFile(t, target.File, text, 0o600)
		install(t, target, m, installation)
		_, servers, err := target.loadFile()
		if err != nil || len(servers) != 1 {
			r.Fatalf("after install of %q: %s, %v", text, servers, err)
		}
		if rapid.Bool().Draw(r, "change") {
			writeFile(t, target.File, strings.Replace(readFile(t, target.File), `"v": 1`, `"v": 2`, 1), 0o600)
			uninstall(t, target)
			now, servers, err := target.loadFile()
			if err != nil || len(servers) != n || !strings.Contains(string(now), `"v": 2`) {
				r.Fatalf("%q became %q with %s, %v", text, now, servers, err)
			}
			return
		}
		uninstall(t, target)
		if now := readFile(t, target.File); now != text {
			r.Fatalf("%q became %q", text, now)
		}
	})
}

// TestInstallInterrupted checks that an installation which ended before it changed the file leaves
// nothing that a later one trips over.
func TestInstallInterrupted(t *testing.T) {
	m := home(t)
	target := findTarget(t, m, "cursor")
	text := `{"mcpServers": {"a": {"command": "x"}}}`
	for _, again := range []bool{true, false} {
		writeFile(t, target.File, text, 0o600)
		install(t, target, m, installation)
		writeFile(t, target.File, text, 0o600) // as if it had not been replaced
		if again {
			if c := install(t, target, m, installation); !slices.Equal(c.Taken, []string{"a"}) {
				t.Errorf("the second installation took %v, want a", c.Taken)
			}
		}
		if c := uninstall(t, target); len(c.Left) != 0 {
			t.Errorf("uninstall left %+v, want none", c.Left)
		}
		if now := readFile(t, target.File); now != text {
			t.Errorf("the file has %s, want %s", now, text)
		}
	}
}

// FuzzInstall checks that an installation is refused, or can be undone.
func FuzzInstall(f *testing.F) {
	f.Add(`{"mcpServers":{"a":{"command":"x"}, /* c */ "b":{"url":"https://b"},}, "x":[1,{}]}`, false)
	f.Add(`{"mcpServers":null}`, false)
	f.Add("\ufeff// c\n{\"mcpServers\": {\"biplane\": {\"command\": \"biplane\"}}}", false)
	f.Add(codexText, true)
	f.Add("[mcp_servers.\"\"]", true)
	f.Add("[mcp_servers.a]\ncommand = \"x\"\n[mCp_servers.b]\ncommand = \"y\"\n", true)
	f.Add(`{"mcpServers":{"":{"command":"x"}}}`, false)
	f.Add("x = 1\r\n[mcp_servers.a]\r\ncommand = 'x'\r\n", true)
	f.Add("[mcp_servers]\n[mcp_servers.a]\ncommand = \"x\"\n# end", true)
	f.Add("[[a]]\nb = '''\n[mcp_servers.a]\n'''\n[mcp_servers.'a.b']\ncommand = \"x\"", true)
	f.Fuzz(func(t *testing.T, text string, isTOML bool) {
		m := home(t)
		id := "cursor"
		if isTOML {
			id = "codex"
		}
		target := findTarget(t, m, id)
		writeFile(t, target.File, text, 0o600)
		c, err := target.PlanInstall(installation, m, noVariables)
		if err != nil {
			return
		}
		if err := c.WriteFiles(); err != nil {
			t.Fatalf("write: %v", err)
		}
		_, servers, err := target.loadFile()
		if err != nil || len(servers) != 1+len(c.Left) || !target.isBiplane(servers[tool.Own]) {
			t.Errorf("%q became %q with %s, %v; want Biplane and %d others", text, readFile(t, target.File), servers,
				err, len(c.Left))
		}
		again, err := target.PlanInstall(installation, m, noVariables)
		if err != nil || !again.IsEmpty() {
			t.Errorf("%q became %q: the second time: %v", text, readFile(t, target.File), err)
		}
		uninstall(t, target)
		if now := readFile(t, target.File); now != text {
			t.Errorf("%q became %q", text, now)
		}
	})
}
