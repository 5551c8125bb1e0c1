package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notRun has the commands of the README that TestReadme doesn't run, each with the reason.
var notRun = map[string]string{
	"git clone https://github.com/biplane-dev/biplane && cd biplane": "it needs the network",
	"make demo":                 "it builds the binary; demo.txtar runs the demo",
	"make check":                "it runs the tests",
	"make test":                 "it runs the tests",
	"biplane approvals approve": "a person has to decide; TestTutorial approves a call",
	"biplane init":              "it reads files of the home folder; see init.txtar",
	"biplane install CLIENT":    "it changes files of the home folder; see install.txtar",
	"biplane serve":             "it runs until it is stopped; see serve.txtar",
}

// inlineCommand matches a command in the text of a document.
var inlineCommand = regexp.MustCompile("`((?:biplane|make) [^`]+)`")

// TestReadme runs the commands of the README, beside a .mcp.json that names a server, and starts
// Biplane as its client configuration says.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	dir := t.TempDir()
	self, err := exec.LookPath("issues")
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	entry := fmt.Sprintf(`{ "mcpServers": { "github": { "command": %q } } }`, self)
	writeFile(t, filepath.Join(dir, ".mcp.json"), entry, 0o600)

	seen, ran, out, entries := map[string]bool{}, map[string]bool{}, strings.Builder{}, 0
	for i, part := range strings.Split(string(raw), "```") {
		if i%2 == 0 {
			for _, m := range inlineCommand.FindAllStringSubmatch(part, -1) {
				seen[m[1]] = true
			}
			continue
		}
		switch head, body, _ := strings.Cut(part, "\n"); head {
		case "sh":
			for line := range strings.Lines(body) {
				command, _, _ := strings.Cut(line, "  #")
				command = strings.TrimSpace(command)
				seen[command] = true
				if notRun[command] == "" {
					ran[command] = true
					printed := runBlock(t, dir, command, 0)
					if strings.TrimSpace(printed) == "" {
						t.Errorf("%s prints nothing", command)
					}
					out.WriteString(printed)
				}
			}
		case "json":
			runEntry(t, dir, body)
			entries++
		}
	}
	for _, want := range []string{"github", "create_issue", "The door is stuck"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the commands don't print %q:\n%s", want, out.String())
		}
	}
	if entries == 0 {
		t.Error("no client configuration found")
	}
	for command := range notRun {
		if !seen[command] {
			t.Errorf("the README no longer has %q: remove it from notRun", command)
		}
	}
	for command := range seen {
		if !ran[command] && notRun[command] == "" {
			t.Errorf("nothing runs %q: show it in a block of commands, or add it to notRun with the reason", command)
		}
	}
}

// runEntry starts Biplane with the command in body, a client's configuration, and runs a program.
func runEntry(t *testing.T, dir, body string) {
	t.Helper()
	var cfg struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(body, "/path/to", dir)), &cfg); err != nil {
		t.Fatalf("the client configuration is not JSON: %v\n%s", err, body)
	}
	entry, ok := cfg.Servers["biplane"]
	if !ok {
		t.Fatalf("the client configuration has no server biplane:\n%s", body)
	}
	c := exec.CommandContext(t.Context(), entry.Command, entry.Args...)
	c.Dir = "/"
	c.Env = documentEnvironment(dir)
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: c}, nil)
	if err != nil {
		t.Fatalf("entry.Command = %s, %s, err = %v, want nil",
			entry.Command, strings.Join(entry.Args, " "), err)
	}
	defer s.Close()
	res, err := s.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "execute", Arguments: map[string]any{"code": "6 * 7"}})
	if err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	if text, ok := res.Content[0].(*mcp.TextContent); !ok || res.IsError || !strings.Contains(text.Text, "42") {
		t.Errorf("execute answers %+v, want 42", res.Content)
	}
}

// issues is an MCP server with the tools that the README's commands use.
func issues() {
	s := mcp.NewServer(&mcp.Implementation{Name: "issues", Version: "1"}, nil)
	type args struct {
		Repo  string `json:"repo"`
		Title string `json:"title,omitempty"`
	}
	answer := func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return nil, []string{"The door is stuck"}, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "list_issues", Description: "List the issues of a repository",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, answer)
	mcp.AddTool(s, &mcp.Tool{Name: "create_issue", Description: "Open an issue in a repository"}, answer)
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
