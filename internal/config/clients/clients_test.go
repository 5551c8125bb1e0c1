package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
)

func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		m    Machine
		want []string
	}{
		{Machine{OS: "darwin", Home: "/Users/a", Folder: "/p"}, []string{
			"/Users/a/Library/Application Support/Claude/claude_desktop_config.json",
			"/Users/a/Library/Application Support/Code/User/mcp.json", "/Users/a/.claude.json",
			"/Users/a/.codeium/windsurf/mcp_config.json", "/Users/a/.codex/config.toml", "/Users/a/.gemini/settings.json",
			"/p/.mcp.json", "/p/.cursor/mcp.json", "/p/.vscode/mcp.json"}},
		{Machine{OS: "linux", Home: "/home/a", Folder: "/p"}, []string{
			"/home/a/.config/Claude/claude_desktop_config.json", "/home/a/.config/Code/User/mcp.json",
			"/home/a/.config/Code - Insiders/User/mcp.json", "/home/a/.cursor/mcp.json", "/home/a/.grok/config.toml",
			"/p/.grok/config.toml", "/home/a/.config/crush/crush.json", "/p/crush.json",
			"/home/a/.gemini/config/mcp_config.json", "/home/a/.gemini/antigravity/mcp_config.json",
			"/home/a/.config/anythingllm-desktop/storage/plugins/anythingllm_mcp_servers.json",
			"/home/a/.continue/mcpServers/mcp.json", "/home/a/.config/goose/config.yaml"}},
		{Machine{OS: "linux", Home: "/home/a", Folder: "/p", Env: map[string]string{"XDG_CONFIG_HOME": "/x",
			"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/o"}},
			[]string{"/x/Code/User/mcp.json", "/c/.claude.json", "/o/config.toml"}},
		{Machine{OS: "windows", Home: "/u/a", Folder: "/p", Env: map[string]string{"APPDATA": "/u/a/AppData/Roaming"}},
			[]string{"/u/a/AppData/Roaming/Claude/claude_desktop_config.json",
				"/u/a/AppData/Roaming/Block/goose/config/config.yaml", "/u/a/AppData/Roaming/Code/User/mcp.json",
				"/u/a/.codeium/windsurf/mcp_config.json"}},
	} {
		var got []string
		for _, p := range ListPlaces(test.m) {
			got = append(got, filepath.ToSlash(p.File))
		}
		for _, want := range test.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not among %q", test.m.OS, want, got)
			}
		}
	}
}

// TestImportVariables checks the forms of variables of some clients, and what can't be converted.
func TestImportVariables(t *testing.T) {
	x := importFiles(t, map[string]string{
		"home/.config/crush/crush.json": `{"mcp": {"a": {"type": "stdio", "command": "x", "env": {"K": "$SET"}},
			"b": {"type": "http", "url": "https://b", "headers": {"X": "$(cat /etc/passwd)"}}}}`,
		"home/.grok/config.toml": "[mcp_servers.c]\ncommand = \"y\"\nenv = { K = \"${SET:-none}\" }\n",
	})
	got := map[string]string{}
	for _, s := range x.Servers {
		got[s.Name] = s.definition.Env["K"]
	}
	if len(got) != 2 || got["a"] != "${SET}" || got["c"] != "${SET:-none}" {
		t.Errorf("the variables are %q, want ${SET} and ${SET:-none}", got)
	}
	if len(x.Skipped) != 1 || x.Skipped[0].Name != "b" || !strings.Contains(x.Skipped[0].Reason, "runs commands") {
		t.Errorf("skipped %+v, want b", x.Skipped)
	}
}

// importFiles imports files of a home folder and a project, by path in both.
func importFiles(t *testing.T, files map[string]string) *Import {
	t.Helper()
	dir := t.TempDir()
	m := Machine{OS: "linux", Home: filepath.Join(dir, "home"), Folder: filepath.Join(dir, "project")}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "PROJECT", m.Folder)), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	return ReadPlaces(ListPlaces(m), m, func(name string) (string, bool) { return "v", name == "SET" })
}

func TestReadNames(t *testing.T) {
	x := importFiles(t, map[string]string{
		"home/.cursor/mcp.json": `{"mcpServers":{"a":{"command":"one"},"biplane":{"command":"tools"}}}`,
		"home/.codeium/windsurf/mcp_config.json": `{"mcpServers":{"a":{"command":"two"},` +
			`"a-codex":{"command":"three"}}}`,
		"home/.codex/config.toml":    "[mcp_servers.a]\ncommand = \"four\"\n",
		"home/.gemini/settings.json": `{"mcpServers":{"a":{"command":"one"},"":{"command":"five"}}}`,
		"project/.cursor/mcp.json":   `{"mcpServers":{"a":{"command":"one"}}}`,
	})
	var names []string
	for _, s := range x.Servers {
		names = append(names, s.Name+"="+s.definition.Command)
	}
	want := []string{"a=one", "biplane_server=tools", "a-windsurf=two", "a-codex=three", "a-codex-2=four"}
	if !slices.Equal(names, want) || len(x.Servers[0].Sources) != 3 {
		t.Errorf("got %v, the first from %+v; want %v, the first from three files", names, x.Servers[0].Sources, want)
	}
	if len(x.Skipped) != 1 || !strings.Contains(x.Skipped[0].Reason, "invalid upstream name") {
		t.Errorf("skipped %+v, want the one without a name", x.Skipped)
	}
}

func TestReadVariables(t *testing.T) {
	x := importFiles(t, map[string]string{
		"project/.vscode/mcp.json": `{"servers":{"a":{"command":"${workspaceFolder}/x","args":["${input:my-key}"],` +
			`"env":{"A":"${env:SET}","B":"${env:UNSET}","C":"${userHome}"}}}}`,
		"home/.gemini/settings.json": `{"mcpServers":{"b":{"httpUrl":"https://h/$SET/${UNSET}","trust":true}}}`,
		"home/.claude.json": `{"mcpServers":{"c":{"command":"c","args":["${UNSET:-d}"]}},` +
			`"projects":{"PROJECT":{"mcpServers":{"d":{"command":"d"}}},"/else":{"mcpServers":{"e":{"command":"e"}}}}}`,
		"home/.codex/config.toml": "[mcp_servers.f]\nurl = \"https://f\"\nenabled = false\n" +
			"http_headers = { K = \"${x}\" }\nenv_http_headers = { T = \"SET\" }\n",
	})
	got := map[string]*Server{}
	for _, s := range x.Servers {
		got[s.Name] = s
	}
	if len(got) != 5 || len(x.Skipped) != 0 {
		t.Fatalf("got %v, skipped %+v", got, x.Skipped)
	}
	a, b, f := got["a"], got["b"], got["f"]
	folder := a.definition.Dir
	if filepath.Base(folder) != "project" || a.definition.Command != folder+"/x" || a.definition.Args[0] != "${MY_KEY}" ||
		a.definition.Env["A"] != "${env:SET}" || a.definition.Env["C"] != filepath.Join(filepath.Dir(folder), "home") ||
		!slices.Equal(slices.Sorted(slices.Values(a.Unset)), []string{"MY_KEY", "UNSET"}) {
		t.Errorf("VS Code: got %+v, unset %v", a.definition, a.Unset)
	}
	if b.definition.URL != "https://h/${SET}/${UNSET}" || b.definition.Type != "" {
		t.Errorf("Gemini: got %+v", b.definition)
	}
	if c := got["c"]; c.definition.Args[0] != "${UNSET:-d}" || c.Unset != nil {
		t.Errorf("Claude Code: got %+v, unset %v", c.definition, c.Unset)
	}
	if !f.definition.Disabled || f.definition.Headers["K"] != "$${x}" || f.definition.Headers["T"] != "${SET}" {
		t.Errorf("Codex: got %+v", f.definition)
	}
}

// TestCarryOver checks that each setting of a client is carried over or reported.
func TestCarryOver(t *testing.T) {
	x := importFiles(t, map[string]string{
		"home/.gemini/settings.json": `{"mcp":{"excluded":["off"]},"mcpServers":{
			"g":{"httpUrl":"https://g","includeTools":["a","b"],"excludeTools":["b"],"timeout":30000,"trust":true,
				"oauth":{"enabled":true,"clientId":"id-1","clientSecret":"$SET","scopes":["r"],"tokenUrl":"https://t"}},
			"off":{"command":"x"}}}`,
		"home/.claude.json": `{"mcpServers":{"c":{"type":"http","url":"https://c","headersHelper":"helper.sh",
			"oauth":{"clientId":"id-2","callbackPort":8123,"authServerMetadataUrl":"https://m"}}}}`,
		"home/.cursor/mcp.json": `{"mcpServers":{
			"u":{"url":"https://u","auth":{"CLIENT_ID":"id-3","CLIENT_SECRET":"very-secret-3"}},
			"e":{"command":"e","envFile":".env","autoApprove":["x"],"future":1},
			"both":{"url":"https://both","headers":{"authorization":"Bearer x"},"oauth":{"clientId":"id"}},
			"plain":{"url":"https://plain","oauth":{"enabled":true}}}}`,
		"project/.vscode/mcp.json": `{"servers":{"v":{"command":"v","envFile":"${workspaceFolder}/.env",` +
			`"sandboxEnabled":true}}}`,
		"home/.codex/config.toml": "[mcp_servers.t]\ncommand = \"t\"\nenv_vars = [\"A\"]\ntool_timeout_sec = 5\n",
	})
	if len(x.Skipped) != 0 {
		t.Fatalf("skipped %+v, want none", x.Skipped)
	}
	got := map[string]*Server{}
	for _, s := range x.Servers {
		got[s.Name] = s
	}
	for name, want := range map[string][]string{
		"g": {"timeout", "oauth.tokenUrl"}, "c": {"headersHelper", "oauth.authServerMetadataUrl"}, "u": nil,
		"e": {"envFile", "future"}, "both": {"oauth"}, "plain": nil, "v": {"envFile", "sandboxEnabled"},
		"t": {"env_vars", "tool_timeout_sec"}, "off": nil,
	} {
		if got[name] == nil || !slices.Equal(got[name].Lost, want) {
			t.Errorf("%s: not carried over: %+v, want %v", name, got[name], want)
		}
	}
	g := got["g"].definition
	oauth := &config.OAuthEntry{ClientID: "id-1", ClientSecret: "${SET}", Scopes: []string{"r"}}
	if !slices.Equal(g.Only, []string{"a", "b"}) || !slices.Equal(g.Not, []string{"b"}) ||
		!reflect.DeepEqual(g.OAuth, oauth) {
		t.Errorf("Gemini: got %+v with %+v", g, g.OAuth)
	}
	if o := got["c"].definition.OAuth; !reflect.DeepEqual(o, &config.OAuthEntry{ClientID: "id-2", RedirectPort: 8123}) {
		t.Errorf("Claude Code: got %+v", o)
	}
	u := got["u"]
	if u.definition.OAuth == nil || u.definition.OAuth.ClientSecret != "very-secret-3" ||
		!slices.Equal(u.Secrets, []string{"oauth client_secret"}) || u.Shown.OAuth.ClientSecret != "<redacted>" {
		t.Errorf("Cursor: got %+v, secrets %v, shown %+v", u.definition.OAuth, u.Secrets, u.Shown.OAuth)
	}
	if got["both"].definition.OAuth != nil || got["plain"].definition.OAuth != nil || !got["off"].definition.Disabled {
		t.Error("both and plain have a sign-in, or off is not disabled")
	}
	raw, err := x.WriteYAML()
	if err != nil || !strings.Contains(string(raw), "redirect_port: 8123") ||
		!strings.Contains(string(raw), "excludeTools:") {
		t.Errorf("wrote %s, %v", raw, err)
	}
}

// TestReadHostile checks that a file that can't be read doesn't affect the others.
func TestReadHostile(t *testing.T) {
	many := make([]string, maxServers+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"s%d":{"command":"x"}`, i)
	}
	for name, test := range map[string]struct{ file, text, want string }{
		"deep JSON":   {"home/.cursor/mcp.json", strings.Repeat("[", 1e6), "nested too deeply"},
		"deep TOML":   {"home/.codex/config.toml", "a = " + strings.Repeat("[", 1e5), "nested too deeply"},
		"large":       {"home/.codex/config.toml", "#" + strings.Repeat("x", maxTOML), "more than 1 MiB"},
		"many":        {"home/.cursor/mcp.json", `{"mcpServers":{` + strings.Join(many, ",") + `}}`, "more than 1000"},
		"not JSON":    {"home/.cursor/mcp.json", `{"mcpServers"`, "unexpected EOF"},
		"other shape": {"home/.cursor/mcp.json", `[1]`, "cannot unmarshal"},
	} {
		x := importFiles(t, map[string]string{test.file: test.text,
			"home/.gemini/settings.json": `{"mcpServers":{"a":{"command":"one"}}}`})
		if len(x.Servers) != 1 || len(x.Files) != 2 || !strings.Contains(x.Files[0].Error, test.want) {
			t.Errorf("%s: got %+v with %d servers, want an error about %q and one server", name, x.Files,
				len(x.Servers), test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"mcpServers":{"a":{"command":"x","args":["${A}"],"env":{"K":1}}}}`, false)
	f.Add("[mcp_servers.a]\nurl = \"https://x/${y}\"\n", true)
	f.Fuzz(func(t *testing.T, text string, isTOML bool) {
		name := "home/.cursor/mcp.json"
		if isTOML {
			name = "home/.codex/config.toml"
		}
		x := importFiles(t, map[string]string{name: text})
		if _, err := x.WriteYAML(); err != nil {
			t.Errorf("WriteYAML: %v", err)
		}
	})
}
