package mcpserver_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
)

// codeMode runs a Biplane in mode Code without upstreams, and returns the URL for agents.
func codeMode(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := settings.Default()
	c.Policy = "open"
	d, err := daemon.New(t.Context(), daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	runDaemon(t, d)
	return "http://" + d.Addr() + "/mcp"
}

// TestSkillsConformance runs the conformance suite's scenarios for servers with skills.
func TestSkillsConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Node.js")
	}
	url := codeMode(t)
	for _, scenario := range []string{"enumeration", "directory", "manifest"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			passesScenario(t, url, "sep-2640-skills-"+scenario)
		})
	}
}

// TestSkillFiles checks what clients of both eras and of each mode see of skills.
func TestSkillFiles(t *testing.T) {
	files := fstest.MapFS{
		"how/SKILL.md":  {Data: []byte("---\nname: how\ndescription: It is: done.\n---\n# How\n")},
		"how/sub/a.md":  {Data: []byte("A")},
		"how/sub/b.txt": {Data: []byte("B")},
	}
	for _, c := range []struct{ mode, method, params, want string }{
		{"code", "skills/list", `{}`, `"skills":[{"uri":"skill://how/SKILL.md","frontmatter":{"description":"It is: ` +
			`done.","name":"how"},"resources":[{"uri":"skill://how/SKILL.md","digest":"sha256:`},
		{"code", "skills/list", `{"cursor":"x"}`, `-32602`},
		{"code", "skills/get", `{"uri":"skill://how/SKILL.md"}`, `"skill":{"uri":"skill://how/SKILL.md"`},
		{"code", "skills/get", `{"uri":"skill://how/sub/a.md"}`, `-32602`},
		{"code", "skills/get", `{"uri":"file:///etc/passwd"}`, `-32602`},
		{"code", "resources/read", `{"uri":"skill://how/sub/a.md"}`, `"text":"A"`},
		{"code", "resources/read", `{"uri":"skill://how/sub"}`, `"code":-32602`},
		{"code", "resources/read", `{"uri":"skill://how/../how/SKILL.md"}`, `"code":-32602`},
		{"code", "resources/directory/read", `{"uri":"skill://how"}`, `"uri":"skill://how/sub","name":"sub",` +
			`"mimeType":"inode/directory"`},
		{"code", "resources/directory/read", `{"uri":"skill://"}`, `-32602`},
		{"code", "resources/list", `{}`, `"resources":[{"uri":"skill://how/SKILL.md","name":"how","description":`},
		{"code", "prompts/list", `{}`, `-32601`},
		{"direct", "skills/list", `{}`, `-32601`},
		{"direct", "resources/list", `{}`, `"resources":[]`},
	} {
		t.Run(c.mode+" "+c.method+" "+c.params, func(t *testing.T) {
			cfg := config(newDoor(), mcpserver.Mode(c.mode))
			cfg.Skills = files
			peers(t, cfg, func(t *testing.T, p peer, version string) {
				want := c.want
				if c.method == "resources/read" && version < "2026-07-28" {
					want = strings.Replace(want, "-32602", "-32002", 1)
				}
				if got, _ := p.call(t, c.method, c.params); !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}
