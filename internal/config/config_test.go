package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

func env(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret", "EMPTY": "", "TRICKY": "a\"\n- b: ${TOKEN}"}[name]
	return v, ok
}

func parseFile(path, text string) (*config.Config, error) {
	return config.Parse(path, []byte(text), env, tool.WASM)
}

const yamlServers = `
mcpServers:
  files: { command: node, args: ["-y", 8080, "${TOKEN}x"], env: { A: "${TOKEN}", PORT: 8080, B: "${NONE:-fall back}" }, cwd: sub }
  linear: # over HTTP
    url: "https://mcp.linear.app/mcp?k=${TOKEN}"
    headers: { Authorization: "Bearer ${TOKEN}" }
    timeout: 90s
  old: { type: sse, url: "http://127.0.0.1:1/sse", disabled: true }
mode: direct
policy: open
start_wait: 2s
sandbox: { tier: wasm, memory: 128MiB, cpu: 1.5s, output_tokens: 100, calls: 10, concurrency: 2 }
`

const jsonServers = `// as an agent's client wrote it
{
  "mcpServers": {
    "files": { "command": "node", "args": ["-y", "8080", "${TOKEN}x"], "env": { "A": "${TOKEN}", "PORT": "8080", "B": "${NONE:-fall back}" }, "cwd": "sub" },
    "linear": { "type": "http", "url": "https://mcp.linear.app/mcp?k=${TOKEN}", "headers": { "Authorization": "Bearer ${TOKEN}" }, "timeout": "90s" },
    "old": { "type": "sse", "url": "http://127.0.0.1:1/sse", "disabled": true, },
  },
  "mode": "direct", "policy": "open", "start_wait": "2s", /* ours */
  "sandbox": { "tier": "wasm", "memory": "128MiB", "cpu": "1.5s", "output_tokens": 100, "calls": 10, "concurrency": 2 },
}
`

func TestConfig(t *testing.T) {
	fromYAML, err := parseFile("/etc/b/biplane.yaml", yamlServers)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	fromJSON, err := parseFile("/etc/b/.mcp.json", jsonServers)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	for _, s := range []*config.Config{fromYAML, fromJSON} {
		if len(s.Servers) != 3 {
			t.Fatalf("s.File = %s, s.Servers = %+v, want len(s.Servers) == 3", s.File, s.Servers)
		}
		files, linear, old := s.Servers[0], s.Servers[1], s.Servers[2]
		if files.Name != "files" || files.Type != "stdio" || files.Command != "node" ||
			strings.Join(files.Args, " ") != "-y 8080 s3cretx" || files.Dir != "/etc/b/sub" ||
			!reflect.DeepEqual(files.Env, map[string]string{"A": "s3cret", "PORT": "8080", "B": "fall back"}) {
			t.Errorf("s.File = %s, files = %+v", s.File, files)
		}
		if linear.Type != "http" || linear.URL != "https://mcp.linear.app/mcp?k=s3cret" ||
			linear.Headers["Authorization"] != "Bearer s3cret" || linear.Timeout != 90*time.Second {
			t.Errorf("s.File = %s, linear = %+v", s.File, linear)
		}
		if old.Type != "sse" || !old.Disabled {
			t.Errorf(`s.File = %s, old = %+v, want old.Type == "sse" && old.Disabled`, s.File, old)
		}
		want := config.Sandbox{Tier: tool.WASM, Memory: 128 << 20, CPU: 1500 * time.Millisecond, OutputTokens: 100,
			Calls: 10, Concurrency: 2}
		if s.Mode != "direct" || s.Policy != "open" || s.StartWait != 2*time.Second ||
			!reflect.DeepEqual(s.Sandbox, want) || s.Listen != "127.0.0.1:8420" {
			t.Errorf("s.File = %s, s = %+v", s.File, s)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		want             []string // each problem, in order
	}{
		{"unknown key", "b.yaml", "mode: code\nmcpServer: {}\n",
			[]string{`b.yaml:2:1: the configuration has no key "mcpServer": did you mean "mcpServers"?`}},
		{"a key of other clients", "b.json", `{"servers": {"a": {"command": "x"}}}`,
			[]string{`b.json:1:2: the configuration has no key "servers": did you mean "mcpServers"?`}},
		{"far from any", "b.yaml", "mode: fast\n",
			[]string{`b.yaml:1:7: mode is one of code, direct, auto, not "fast"`}},
		{"no port", "b.yaml", "listen: 127.0.0.1:99999\n",
			[]string{`b.yaml:1:9: invalid listen address "127.0.0.1:99999": the port must be from 0`}},
		{"open to all", "b.yaml", "listen: 0.0.0.0:80\n",
			[]string{`b.yaml:1:9: will not listen on 0.0.0.0:80 without sign-in`}},
		{"no address", "b.yaml", "listen: 8420x\n", []string{`b.yaml:1:9: invalid listen address "8420x"`}},
		{"unknown key in JSON", "b.json", "{\n  \"mcpServers\": {\n    \"a\": {\"comand\": \"x\"}\n  }\n}", []string{
			`b.json:3:5: mcpServers.a needs a command`,
			`b.json:3:11: mcpServers.a has no key "comand": did you mean "command"?`}},
		{"several at once", "b.yaml",
			"mode: cod\nsandbox:\n  memory: 256\n  cpu: 10\n  calls: -1\n  tier: gvisor\npolicy: read-onyl\n", []string{
				`b.yaml:1:7: mode is one of code, direct, auto, not "cod": did you mean "code"?`,
				`b.yaml:3:11: sandbox.memory must be a size with a unit`,
				`b.yaml:4:8: sandbox.cpu must be a time with a unit`,
				`b.yaml:5:10: sandbox.calls must be from 1 to 1000000`,
				`b.yaml:6:9: sandbox.tier gvisor is not available yet`,
				`b.yaml:7:9: policy "read-onyl" is neither a folder nor one of read-only, ask-for-writes, open: did ` +
					`you mean "read-only"?`}},
		{"unset variables", "b.yaml",
			"mcpServers:\n  a: { command: x, args: [\"${NOPE}\"], env: { K: \"${ALSO_NOT}\" } }\n", []string{
				`b.yaml:2:27: environment variable NOPE is not set: set it, or write ${NOPE:-default}`,
				`b.yaml:2:49: environment variable ALSO_NOT is not set`}},
		{"no variable", "b.yaml", "mcpServers:\n  a: { command: \"${input:x}\" }\n  b: { command: \"${X\" }\n",
			[]string{`b.yaml:2:17: ${input:x} can't be expanded`, `b.yaml:3:17: "${X" begins a variable`}},
		{"other sources", "b.yaml", "openapi:\n  pets: { spek: ./p.yaml }\nfolders:\n  l: { pat: . }\n" +
			"  pets: { path: ., network: [\"https://x/\"], files: [a/b, c/b], tier: strong, " +
			"env: [NO_SUCH] }\n  m: {}\n",
			[]string{`b.yaml:1:1: folders.pets: openapi has an upstream of this name, too: rename one of them`,
				`b.yaml:2:11: openapi.pets has no key "spek": did you mean "spec"?`,
				`b.yaml:4:8: folders.l has no key "pat": did you mean "path"?`,
				`b.yaml:5:29: folders.pets.network: invalid host "https://x/"`,
				`b.yaml:5:52: folders.pets.files: two entries have the name "b"`,
				`b.yaml:5:70: folders.pets.tier: unknown tier "strong"`,
				`b.yaml:5:83: folders.pets.env: environment variable NO_SUCH is not set`,
				`b.yaml:6:3: folders.m needs a path`}},
		{"empty", "b.yaml", "openapi: {}\nfolders:\n", nil},
		{"neither command nor url", "b.yaml", "mcpServers:\n  a: {}\n",
			[]string{"b.yaml:2:3: mcpServers.a needs a command"}},
		{"both", "b.yaml", "mcpServers:\n  a: { command: x, url: 'http://x/' }\n",
			[]string{"b.yaml:2:25: mcpServers.a has both"}},
		{"bad address", "b.yaml", "mcpServers:\n  a: { url: 'ftp://x/' }\n",
			[]string{"b.yaml:2:13: mcpServers.a.url must be like https://host/mcp"}},
		{"bad type", "b.yaml",
			"mcpServers:\n  a: { url: 'http://x/', type: websocket }\n  b: {command: x, type: sse}\n",
			[]string{"b.yaml:2:32: mcpServers.a.type is one of stdio, http, sse",
				"b.yaml:3:25: mcpServers.b has a command"}},
		{"reserved name", "b.yaml", "mcpServers:\n  biplane: { command: x }\n",
			[]string{"b.yaml:2:3: mcpServers: the name biplane is reserved"}},
		{"not a map", "b.yaml", "mcpServers: [a]\n", []string{"b.yaml:1:13: mcpServers must be a map, not a list"}},
		{"twice in JSON", "b.json", `{"mode": "code", "mode": "auto"}`,
			[]string{`b.json:1:18: the configuration has the key "mode" twice`}},
		{"broken YAML", "b.yaml", "mode: code\n  bad: [\n", []string{"b.yaml:"}},
		{"broken JSON", "b.json", "{\n \"mode\" \"code\"}", []string{"b.json:2:"}},
		{"not text", "b.yaml", "mode: \xff", []string{"b.yaml: the file is not UTF-8 text"}},
		{"too large", "b.yaml", strings.Repeat("# comment\n", 200_000), []string{"b.yaml: the file has 2000000 bytes"}},
		{"deep JSON", "b.json", strings.Repeat("[", 1<<19), []string{"b.json:1:321: nested too deeply"}},
		{"deep flow", "b.yaml", "a: " + strings.Repeat("[", 1<<17), []string{"b.yaml:1:104: nested too deeply"}},
		{"deep block", "b.yaml", strings.Repeat("- ", 1<<17), []string{"b.yaml:1:201: nested too deeply"}},
		{"many values", "b.yaml", "mcpServers:\n" + strings.Repeat("  s: {command: x}\n", 40_000),
			[]string{"too many values"}},
		{"alias bomb", "b.yaml", bomb(), []string{"too many values"}},
		{"unknown alias", "b.yaml", "mode: *x\n", []string{`b.yaml:1:7: unknown anchor "x": define it above`}},
		{"tag", "b.yaml", "mode: !!python/object code\n", []string{"b.yaml:1:7: tags are not supported"}},
		{"two documents", "b.yaml", "mode: code\n---\nmode: auto\n", []string{"b.yaml:3:"}},
		{"oauth", "b.yaml", "mcpServers:\n  a: { url: 'http://x/', oauth: { client_id: i, client_secret: '${TOKEN}', " +
			"issuer: 'https://as.example', scopes: [a, 'b:c'], redirect_port: 8421 } }\n", nil},
		{"oauth, wrong", "b.yaml", "mcpServers:\n  a: { url: 'http://x/', oauth: { client: i } }\n  b: { url: " +
			"'http://x/', oauth: { client_secret: i, scopes: ['a b'], redirect_port: 0 } }\n  c: { command: x, " +
			"oauth: {} }\n  d: { url: 'http://x/', headers: { authorization: x }, oauth: {} }\n  e: { url: " +
			"'http://x/', oauth: { issuer: as.example } }\n", []string{
			"b.yaml:2:35: mcpServers.a.oauth has no key \"client\"",
			"b.yaml:3:50: mcpServers.b.oauth.client_secret needs the client_id",
			"b.yaml:3:62: mcpServers.b.oauth.scopes: invalid scope \"a b\"",
			"b.yaml:3:85: mcpServers.b.oauth.redirect_port must be from 1 to 65535",
			"b.yaml:4:27: mcpServers.c.oauth requires a server with a url",
			"b.yaml:5:64: mcpServers.d.oauth requires a server with a url and without an Authorization header",
			"b.yaml:6:43: mcpServers.e.oauth.issuer must be the address",
		}},
		{"header with a line break", "b.yaml", "mcpServers:\n  a: { url: 'http://x/', headers: { X: \"a\\r\\nb\" } }\n",
			[]string{"b.yaml:2:37: mcpServers.a.headers"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.Getwd()
			if err != nil {
				t.Fatalf("os.Getwd: %v", err)
			}
			_, err = parseFile(filepath.Join(dir, tt.file), tt.text)
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("err = %v, want nil", err)
				}
				return
			}
			var te *tool.Error
			var ce *config.Error
			if !errors.As(err, &te) || te.Kind != tool.Invalid || !errors.As(err, &ce) {
				t.Fatalf("got %v", err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("got\n%v\nwant %d problems", err, len(tt.want))
			}
			for i, l := range lines {
				if !strings.Contains(l, tt.want[i]) {
					t.Errorf("got  %s\nwant %s", l, tt.want[i])
				}
			}
		})
	}
}

func bomb() string {
	var b strings.Builder
	b.WriteString("x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n")
	for i := 1; i < 10; i++ {
		p := "*x" + string(rune('0'+i-1))
		b.WriteString("x" + string(rune('0'+i)) + ": &x" + string(rune('0'+i)) + " [" + strings.Repeat(p+", ", 9) + p +
			"]\n")
	}
	return b.String()
}

func TestAliases(t *testing.T) {
	s, err := parseFile("/b.yaml",
		"mcpServers:\n  a: &a { command: x, args: [one] }\n  b: { <<: *a, args: [two] }\n  c: *a\n")
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	if s.Servers[1].Command != "x" || s.Servers[1].Args[0] != "two" || s.Servers[2].Args[0] != "one" {
		t.Errorf("s.Servers = %+v, want s.Servers[1].Command == \"x\" && s.Servers[1].Args[0] == "+
			"\"two\" && s.Servers[2].Args[0] == \"one\"", s.Servers)
	}
}

func TestForeignKeys(t *testing.T) {
	s, err := parseFile("/b.json", `{"$schema": "x", "mcpServers": {"a": {"command": "x", "autoApprove": ["y"], `+
		`"alwaysAllow": [], "timeout": 60000}}}`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	if len(s.Warnings) != 3 || s.Servers[0].Timeout != 0 {
		t.Errorf("s = %+v, want len(s.Warnings) == 3 && s.Servers[0].Timeout == 0", s)
	}
}

func TestUpstreamsSpelledAlike(t *testing.T) {
	s, err := parseFile("/b.json",
		`{"mcpServers": {"my-files": {"command": "x"}, "my_files": {"command": "y"}, "other": {"command": "z"}}}`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	if len(s.Warnings) != 1 ||
		!strings.Contains(s.Warnings[0].Message, "mcpServers.my-files: programs spell it my_files_") ||
		!strings.Contains(s.Warnings[0].Message, "(my_files)") {
		t.Errorf("want one warning about my-files, got %+v", s.Warnings)
	}
}

func TestNarrowing(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                           "abc",
		`{"disabledTools": ["b"]}`:     "ac",
		`{"enabledTools": ["a", "b"]}`: "ab",
		`{"tools": ["*"], "excludeTools": ["c"]}`:         "ab",
		`{"includeTools": []}`:                            "",
		`{"allowedTools": ["a"], "disabledTools": ["a"]}`: "",
		`{"excludeTools": ["*"]}`:                         "",
	} {
		s, err := parseFile("/b.json", `{"mcpServers": {"x": {"command": "x", `+strings.TrimPrefix(in, "{")+`}}`)
		if in == `{}` {
			s, err = parseFile("/b.json", `{"mcpServers": {"x": {"command": "x"}}}`)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		got := ""
		for _, x := range s.Servers[0].Narrow.Keep([]*tool.Tool{{Name: "a"}, {Name: "b"}, {Name: "c"}}) {
			got += x.Name
		}
		if got != want {
			t.Errorf("%s: tools %q, want %q", in, got, want)
		}
	}
}

func TestTimeoutsOfSingleTools(t *testing.T) {
	s, err := parseFile("/b.yaml", "mcpServers:\n  a: { command: x, timeout: 90s, timeouts: { slow-report: 10m } }\n")
	if err != nil || s.Servers[0].Timeouts["slow-report"] != 10*time.Minute || s.Servers[0].Timeout != 90*time.Second {
		t.Errorf("err = %v, s = %+v, want err == nil && s.Servers[0].Timeouts[\"slow-report\"] == "+
			"10*time.Minute && s.Servers[0].Timeout == 90*time.Second", err, s)
	}
	if _, err := parseFile("/b.yaml",
		"mcpServers:\n  a: { command: x, timeouts: { slow-report: soon } }\n"); err == nil {
		t.Error("a time that is none is accepted")
	}
}

func TestRevision(t *testing.T) {
	c, err := parseFile("/etc/b/biplane.yaml",
		"mcpServers: { old: { command: x, revision: 2025-11-25 }, new: { command: y } }")
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	for _, s := range c.Servers {
		want := map[string]string{"old": "2025-11-25", "new": ""}[s.Name]
		if s.Revision != want {
			t.Errorf("%s: s.Revision = %q, want %q", s.Name, s.Revision, want)
		}
	}
	_, err = parseFile("/etc/b/biplane.yaml", "mcpServers: { old: { command: x, revision: 2024-11-05 } }")
	const want = "mcpServers.old.revision is one of 2026-07-28, 2025-11-25"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("err = %v, want %q", err, want)
	}
}

func TestExpand(t *testing.T) {
	for in, want := range map[string]string{
		"${TOKEN}": "s3cret", "a${TOKEN}b${EMPTY}": "as3cretb", "${EMPTY:-d}": "d", "${NONE:-}": "",
		"${env:TOKEN}": "s3cret", "$${TOKEN}": "${TOKEN}",
		"$TOKEN": "$TOKEN", "${TRICKY}": "a\"\n- b: ${TOKEN}", "${NONE:-a:-b}": "a:-b", "é${TOKEN}é": "és3creté",
	} {
		s, err := parseFile("/b.yaml", "mcpServers:\n  a: { command: '"+in+"' }\n")
		if in == "${NONE:-}" {
			if err == nil {
				t.Error("an empty command is accepted")
			}
			continue
		}
		if err != nil || s.Servers[0].Command != want {
			t.Errorf("%s: %v %+v, want %q", in, err, s, want)
		}
	}
}

func TestShownHidesSecrets(t *testing.T) {
	s, err := parseFile("/b.yaml", `
mcpServers:
  a:
    command: x
    args: ["--api-key", "s3cret", "--token=s3cret", "plain", "https://u:s3cret@h/p?k=s3cret&l=${TOKEN}", "--header", "Authorization: s3cret", "-H", "Authorization: Bearer s3cret", "x-api-key:s3cret"]
    env: { A: s3cret, B: "${TOKEN}", C: "${NONE:-s3cret}", D: "x${TOKEN}", E: "${TOKEN:-s3cret}", F: "s3cret:-}", G: "${TOKEN}s3cret}", H: "${NONE:-}" }
  b: { url: "https://s3cret@h/mcp?s3cret", headers: { Authorization: "Bearer ${TOKEN}", X-Key: s3cret, Y: "Bearer s3cret" } }
  d: { url: "https://h/s/s3cretZ1x9Q7/mcp#s3cret" }
  e: { url: "https://h/v1/key/s3cret/sse" }
  f: { url: "https://h/${TOKEN}/mcp?plain=${TOKEN}" }
  c: { url: "https://h/mcp", oauth: { client_id: me, client_secret: s3cret } }
`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	var b strings.Builder
	for _, server := range s.Servers {
		sh := server.Shown()
		b.WriteString(strings.Join(sh.Args, " ") + " " + sh.URL)
		for k, v := range sh.Env {
			b.WriteString(" " + k + "=" + v)
		}
		for k, v := range sh.Headers {
			b.WriteString(" " + k + ": " + v)
		}
		if sh.OAuth != nil {
			b.WriteString(" " + sh.OAuth.ClientID + ": " + sh.OAuth.ClientSecret)
		}
	}
	got := b.String()
	if strings.Contains(got, "s3cret") {
		t.Errorf("shows a secret: %s", got)
	}
	for _, keep := range []string{"plain", "B=${TOKEN}", "Bearer ${TOKEN}", "E=${TOKEN:-<redacted>}", "H=${NONE:-}",
		"me: <redacted>", "https://h/s/<redacted>/mcp#<redacted>", "https://h/v1/key/<redacted>/sse",
		"https://h/${TOKEN}/mcp?plain=${TOKEN}"} {
		if !strings.Contains(got, keep) {
			t.Errorf("hides %s: %s", keep, got)
		}
	}
}

func TestFindConfig(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("BIPLANE_CONFIG", "")
	want := func(path string) {
		t.Helper()
		got, err := config.Find("")
		if err != nil || got != path {
			t.Errorf("found %q %v, want %q", got, err, path)
		}
	}
	write := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte("mode: code\n"), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		return path
	}
	want("")
	if s, err := config.Load("", tool.WASM); err != nil || s.File != "" || s.Mode != "code" {
		t.Errorf(`s = %+v, err = %v, want err == nil && s.File == "" && s.Mode == "code"`, s, err)
	}
	want2 := write(filepath.Join(home, "biplane", "biplane.yaml"))
	want(want2)
	want2 = write(filepath.Join(dir, ".mcp.json"))
	want(want2)
	want2 = write(filepath.Join(dir, "biplane.yaml"))
	want(want2)
	t.Setenv("BIPLANE_CONFIG", "other.yaml")
	want(filepath.Join(dir, "other.yaml"))
	if _, err := config.Load("", tool.WASM); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "does not exist")`, err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("b.yaml", yamlServers)
	f.Add("b.json", jsonServers)
	f.Add("b.yaml", bomb())
	f.Add("b.yaml", "a: &a\n  <<: *a\n? x\n: y\n!!t z: |\n  lit\n")
	f.Add("b.yaml", "mcpServers: {a: {command: \"${A:-${B}}\"}}")
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(text) > 4096 {
			return
		}
		s, err := parseFile("/x/"+filepath.Base(name), text)
		if (s == nil) == (err == nil) {
			t.Fatalf("s = %v, err = %v, want (s == nil) != (err == nil)", s, err)
		}
		if err != nil {
			var ce *config.Error
			if !errors.As(err, &ce) || len(ce.Problems) == 0 {
				t.Fatalf("not an Error: %v", err)
			}
			return
		}
		for _, server := range s.Servers {
			if server.Name == "" || server.Name == "biplane" || (server.Command == "") == (server.URL == "") {
				t.Fatalf("accepted %+v", server)
			}
		}
	})
}

func TestPrices(t *testing.T) {
	s, err := parseFile("/etc/b/biplane.yaml", "prices: { clients: { 'claude*': { output: 20 }, 'cursor/*': {} }, "+
		"currency: EUR, output: 15, input: 0.25 }\nusage: { keep: 90d, hours: 36h }")
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	if got := fmt.Sprint(*s.Prices); got != "{EUR {0.25 15} [{claude* {0.25 20}} {cursor/* {0.25 15}}]}" {
		t.Errorf(`got = %v, want "{EUR {0.25 15} [{claude* {0.25 20}} {cursor/* {0.25 15}}]}"`, got)
	}
	if s.Usage.Keep != 90*24*time.Hour || s.Usage.Hours != 36*time.Hour {
		t.Errorf("s.Usage = %+v, want s.Usage.Keep == 90*24*time.Hour && s.Usage.Hours == 36*time.Hour", s.Usage)
	}
	for text, want := range map[string]string{
		"prices: { input: -1 }":                      "prices.input must be the price of a million tokens",
		"prices: { input: NaN }":                     "prices.input must be the price of a million tokens",
		"prices: { clients: { '[': { input: 1 } } }": "is not a valid pattern of agents and clients",
		"prices: { currency: '=1+1' }":               "prices.currency must be the code of a currency",
		"prices: { model: 1 }":                       "prices has no key",
		"usage: { keep: 1s }":                        "usage.keep",
	} {
		if _, err := parseFile("/etc/b/biplane.yaml", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("text = %s, err = %v, want err != nil && strings.Contains(err.Error(), want)", text, err)
		}
	}
}

// TestNamesInOtherSpellings checks that tool names match in every spelling that Biplane shows. A
// name that matches several tools excludes all of them.
func TestNamesInOtherSpellings(t *testing.T) {
	tools := []*tool.Tool{{Upstream: "x", Name: "create-issue"}, {Upstream: "x", Name: "get-a"},
		{Upstream: "x", Name: "get_a"}, {Upstream: "x", Name: "listAll"}}
	for in, want := range map[string]string{
		`"disabledTools": ["create_issue"]`:              "get-a get_a listAll",
		`"disabledTools": ["createIssue", "x.list_all"]`: "get-a get_a",
		`"disabledTools": ["get_a"]`:                     "create-issue listAll",
		`"disabledTools": ["create_isue"]`:               "create-issue get-a get_a listAll",
		`"enabledTools": ["create_issue", "list_all"]`:   "create-issue listAll",
		`"enabledTools": ["get_a"]`:                      "get_a",
		`"enabledTools": ["getA"]`:                       "",
		`"enabledTools": ["get_a", "x_create_issue"]`:    "create-issue get_a",
	} {
		s, err := parseFile("/b.json", `{"mcpServers": {"x": {"command": "x", `+in+`}}}`)
		if err != nil {
			t.Fatalf("parseFile: %v", err)
		}
		var got []string
		for _, x := range s.Servers[0].Narrow.Keep(tools) {
			got = append(got, x.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", in, got, want)
		}
	}
}

func TestUnmatchedNames(t *testing.T) {
	s, err := parseFile("/b.yaml", `
mcpServers:
  x: { command: x, disabledTools: [create_isue, createIssue], enabledTools: [getA, "*"], timeouts: { create_issue: 3s, slow: 1s } }
  y: { command: y, disabledTools: [later], enabledTools: [getB] }
  down: { command: z, disabledTools: [unknown] }
  off: { command: z, disabledTools: [unknown], disabled: true }
tools:
  "x.create_issue": { tags: [a] }
  "x.create_isue": { tags: [a] }
  "down.a": { tags: [a] }
  "nowhere.*": { tags: [a] }
  "*.nothing": { tags: [a] }
limits:
  - { what: calls, max: 1, window: 1m, tools: "x.getA" }
  - { what: calls, max: 1, window: 1m, tools: "x.nothing" }
`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	listed := map[string][]*tool.Tool{
		"x": {{Upstream: "x", Name: "create-issue"}, {Upstream: "x", Name: "get-a"}},
		"y": {{Upstream: "y", Name: "get-b"}, {Upstream: "y", Name: "get_b"}},
	}
	want := []string{
		`limits[1] has the pattern "x.nothing", which matches no tool`,
		`mcpServers.x names the unknown tool "create_isue": did you mean "create-issue"?`,
		`mcpServers.x names the unknown tool "slow"`,
		`mcpServers.y allows the tool "getB", which may be get-b or get_b: none is allowed; write the exact name`,
		`mcpServers.y names the unknown tool "later"`,
		`tools has the pattern "nowhere.*", which matches no tool`,
		`tools has the pattern "x.create_isue", which matches no tool: did you mean "x.create-issue"?`,
	}
	if got := s.UnmatchedNames(listed); !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	listed["down"] = nil // it has no tools
	if got := s.UnmatchedNames(listed); !slices.Contains(got,
		`tools has the pattern "*.nothing", which matches no tool`) {
		t.Errorf("%s, want slices.Contains(got, `tools has the pattern \"*.nothing\", which matches no "+
			"tool`)", strings.Join(got, "\n"))
	}
}

func TestProfiles(t *testing.T) {
	parse := func(text string) (*config.Config, error) {
		return config.Parse("biplane.yaml", []byte(text), func(string) (string, bool) { return "", false }, tool.WASM)
	}
	c, err := parse("mode: auto\nprofiles:\n  a: {tools: [crm, \"mail.send_*\"]}\n  b: {tools: [x.y], mode: direct}")
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	shown := c.Shown("").Profiles
	if got := shown["a"]; got.Mode != "auto" || !slices.Equal(got.Tools, []string{"crm.*", "mail.send_*"}) {
		t.Errorf("profile a: %+v", got)
	}
	if shown["b"].Mode != "direct" || !c.HasProfile("b") || c.HasProfile("c") {
		t.Errorf("profiles: %+v", shown)
	}
	for text, want := range map[string]string{
		"profiles: {stdio: {tools: [a.b]}}":              "/mcp/stdio is in use",
		"profiles: {A/b: {tools: [a.b]}}":                `invalid name "A/b"`,
		"profiles: {a: {}}":                              "profiles.a needs tools",
		"profiles: {a: }":                                "profiles.a needs tools",
		"profiles: {a: {tools: []}}":                     "profiles.a needs tools",
		"profiles: {a: {tools: [\"a b\"]}}":              `invalid pattern "a b"`,
		"profiles: {a: {tools: [\"\"]}}":                 `invalid pattern ""`,
		"profiles: {a: {tools: [a], mode: some}}":        "profiles.a.mode is one of",
		"profiles: {a: {tools: [a], policy: some}}":      `has no key "policy"`,
		"profiles: [a]":                                  "profiles must be a map",
		"profiles: {a: {tools: [a], instructions: [1]}}": "profiles.a.instructions must be text",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
