package daemon_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestFiles sends files to programs and sessions, as an agent's client does.
func TestFiles(t *testing.T) {
	t.Parallel()
	d, _ := run(t, t.TempDir(), "mode: code")
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer s.Close()
	execute := func(args map[string]any) (string, bool) {
		t.Helper()
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute", Arguments: args})
		if err != nil {
			return err.Error(), true
		}
		text, ok := res.Content[0].(*mcp.TextContent)
		if !ok {
			t.Fatalf("res = %+v, want ok", res)
		}
		return text.Text, res.IsError
	}
	type file = map[string]any
	const list = `import { readdir, readFile } from "node:fs/promises"; (await readdir("workspace", { recursive: ` +
		`true })).sort().join()`
	read := func(name string) string {
		return `import { readFile } from "node:fs/promises"; [...await readFile("` + name + `")]`
	}
	for _, c := range []struct {
		name  string
		files any
		code  string
		extra map[string]any
		want  string
		fails bool
	}{
		{"a text", []file{{"path": "data.csv", "text": "é\n"}}, read("data.csv"), nil, "[195,169,10]", false},
		{"bytes, in folders", []file{{"path": "workspace/a/b/c.bin", "blob": "AP8="}}, read("workspace/a/b/c.bin"), nil,
			"[0,255]", false},
		{"a resource as MCP embeds it",
			[]file{{"type": "resource", "resource": file{"uri": "file:///home/me/in%20put.txt",
				"mimeType": "text/plain", "text": "x"}}}, read("in put.txt"), nil, "[120]", false},
		{"in Python", []file{{"path": "./data.csv", "text": "1,2"}}, `open("data.csv").read()`,
			file{"language": "python"}, `"1,2"`, false},
		{"a session that fails", []file{{"path": "gone.txt", "text": "x"}}, `throw new Error("no")`,
			file{"session": "s"}, "Error: no", true},
		{"a session", []file{{"path": "kept.txt", "text": "x"}}, "1", file{"session": "s"}, "1", false},
		{"what it kept", nil, list, file{"session": "s"}, `"kept.txt"`, false},
		{"one that was sent again", []file{{"path": "kept.txt", "text": "yz"}}, read("kept.txt"), file{"session": "s"},
			"[121,122]", false},
		{"a program alone kept nothing", []file{}, list, nil, `""`, false},
		{"out of the workspace", []file{{"path": "../skills/x.ts", "text": "x"}}, "1", nil,
			"can't be a file below ./workspace", true},
		{"an absolute path", []file{{"path": "/etc/passwd", "text": "x"}}, "1", nil,
			"can't be a file below ./workspace", true},
		{"as programs may write it", []file{{"path": "/workspace/a/in.txt", "text": "x"},
			{"path": "./workspace/tools/y", "text": "y"}}, list, nil, `"a,a/in.txt,tools,tools/y"`, false},
		{"another folder", []file{{"path": "./skills/x.ts", "text": "x"}}, "1", nil, "not below ./workspace", true},
		{"a control character", []file{{"path": "a\nb", "text": "x"}}, "1", nil, "control characters", true},
		{"no name", []file{{"text": "x"}}, "1", nil, "files[0] has no name", true},
		{"nothing in it", []file{{"path": "a"}}, "1", nil, "one of text and blob", true},
		{"bad base64", []file{{"path": "a", "blob": "!"}}, "1", nil, "not valid base64", true},
		{"twice", []file{{"path": "a", "text": ""}, {"path": "./a", "text": ""}}, "1", nil,
			"two files are called", true},
		{"a file under a file", []file{{"path": "a", "text": ""}, {"path": "a/b", "text": ""}}, "1", nil,
			"did not run", true},
		{"too much", []file{{"path": "a", "text": strings.Repeat("x", 1<<20)},
			{"path": "b", "text": strings.Repeat("x", 1<<20+1)}}, "1", nil, "may have 2", true},
		{"no list", "data", "1", nil, "files", true},
	} {
		args := map[string]any{"code": c.code}
		for k, v := range c.extra {
			args[k] = v
		}
		if c.files != nil {
			args["files"] = c.files
		}
		if got, failed := execute(args); !strings.Contains(got, c.want) || failed != c.fails {
			t.Errorf("%s, got = %.300s, want strings.Contains(got, c.want) && failed == c.fails", c.name, got)
		}
	}
}
