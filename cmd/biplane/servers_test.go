package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// A popularServer is one whose calls are compared with and without Biplane.
type popularServer struct {
	name    string
	file    string // in its package
	args    []string
	env     []string // credentials that are enough to start
	omitted map[string]string
}

// popularServers lists the servers. $DIR is a folder of the test. Credentials are not real:
// services refuse them, but servers accept or refuse arguments before that.
var popularServers = []popularServer{
	{name: "everything", file: "@modelcontextprotocol/server-everything/dist/index.js",
		omitted: map[string]string{"trigger-long-running-operation": "it takes as long as its argument says",
			"simulate-research-query": "it takes seconds"}},
	{name: "filesystem", file: "@modelcontextprotocol/server-filesystem/dist/index.js", args: []string{"$DIR"}},
	{name: "memory", file: "@modelcontextprotocol/server-memory/dist/index.js"},
	{name: "sequential-thinking", file: "@modelcontextprotocol/server-sequential-thinking/dist/index.js"},
	{name: "playwright", file: "@playwright/mcp/cli.js", args: []string{"--headless", "--isolated"},
		omitted: map[string]string{"browser_wait_for": "it waits as long as its argument says"}},
	{name: "notion", file: "@notionhq/notion-mcp-server/bin/cli.mjs", env: []string{"NOTION_TOKEN=ntn_test"}},
	{name: "context7", file: "@upstash/context7-mcp/dist/index.js", env: []string{"CONTEXT7_API_KEY=ctx7sk-test"}},
	{name: "firecrawl", file: "firecrawl-mcp/dist/index.js", env: []string{"FIRECRAWL_API_KEY=fc-test"}},
	{name: "sentry", file: "@sentry/mcp-server/dist/index.js", args: []string{"--access-token=sntryu_test"}},
	{name: "exa", file: "exa-mcp-server/dist/stdio.cjs", env: []string{"EXA_API_KEY=test"}},
	{name: "tavily", file: "tavily-mcp/build/index.js", env: []string{"TAVILY_API_KEY=tvly-test"}},
	{name: "desktop-commander", file: "@wonderwhy-er/desktop-commander/dist/index.js",
		omitted: map[string]string{
			"start_process": "it runs its argument", "interact_with_process": "it runs its argument",
			"kill_process": "it kills its argument", "force_terminate": "it kills its argument",
			"set_config_value": "it changes the server", "give_feedback_to_desktop_commander": "it opens a browser",
		}},
	{name: "hubspot", file: "@hubspot/mcp-server/dist/index.js", env: []string{"PRIVATE_APP_ACCESS_TOKEN=pat-test"}},
	{name: "cloudflare", file: "@cloudflare/mcp-server-cloudflare/dist/index.js", args: []string{"run", "0123"},
		env: []string{"CLOUDFLARE_API_TOKEN=test", "CLOUDFLARE_ACCOUNT_ID=0123"}},
}

// TestServers compares calls of popular servers with and without Biplane: what a server accepts
// without Biplane, it accepts through Biplane. The arguments are generated from the schemas, with
// edge values. What services answer is not compared. `make servers` installs all servers and runs
// this test; otherwise the reference servers are compared with fewer calls.
func TestServers(t *testing.T) {
	all := os.Getenv("BIPLANE_SERVERS") != ""
	for _, s := range popularServers {
		file, calls := "", 4
		if all {
			file, calls = peertest.PopularServer(t, s.file), 30
		} else if slices.Contains([]string{"everything", "filesystem", "memory"}, s.name) {
			file = peertest.Module(t, s.file)
		} else {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			compareServer(t, s, file, calls)
		})
	}
}

func compareServer(t *testing.T, s popularServer, file string, most int) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	args := []string{file}
	for _, a := range s.args {
		args = append(args, strings.ReplaceAll(a, "$DIR", filepath.Join(dir, "files")))
	}
	env := map[string]string{"HOME": filepath.Join(dir, "files"), "NO_COLOR": "1",
		"MEMORY_FILE_PATH": filepath.Join(dir, "files", "memory.json")}
	for _, e := range s.env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	node := peertest.Node(t)
	plain := exec.Command(node, args...)
	plain.Dir, plain.Env = filepath.Join(dir, "files"), []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		plain.Env = append(plain.Env, k+"="+v)
	}
	entry, err := json.Marshal(map[string]any{"start_wait": "5m", "policy": "open", "mcpServers": map[string]any{
		s.name: map[string]any{"command": node, "args": args, "env": env, "cwd": plain.Dir}}})
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	writeFile(t, filepath.Join(dir, "config.json"), string(entry), 0o600)
	behind := exec.Command("biplane", "mcp", "--config", filepath.Join(dir, "config.json"), "--data-dir",
		filepath.Join(dir, "data"), "--log-level", "error", "--mode", "direct", "--unprefixed")
	behind.Env = append(os.Environ(), "HOME="+dir)
	direct, failed := connectServer(t, plain)
	if failed != nil {
		t.Skipf("%s does not start here: %v", s.name, failed)
	}
	through, failed := connectServer(t, behind)
	if failed != nil {
		t.Fatalf("connect through biplane: %v", failed)
	}
	tools, others := listTools(t, direct), listTools(t, through)
	if len(tools) == 0 {
		t.Fatalf("%s lists no tools", s.name)
	}
	checkRefusal(t, s.name, tools, direct, through)
	made, refused, unsure := 0, 0, 0
	for _, tool := range tools {
		if !slices.ContainsFunc(others, func(o *mcp.Tool) bool { return o.Name == tool.Name }) {
			t.Errorf("the tool %s is not listed through biplane", tool.Name)
			continue
		}
		if why := s.omitted[tool.Name]; why != "" {
			t.Logf("%s is not called: %s", tool.Name, why)
			continue
		}
		for _, a := range generateArguments(t, tool, most) {
			made++
			wanted, got := make(chan callOutcome, 1), make(chan callOutcome, 1)
			go func() { wanted <- callTool(t, direct, tool.Name, a) }()
			go func() { got <- callTool(t, through, tool.Name, a) }()
			w, g := <-wanted, <-got
			switch {
			case w.refused:
				refused++
			case g.refused:
				t.Errorf("%s(%.400s) is accepted without biplane (%.200s), and refused with it: %.600s", tool.Name, a,
					w.text, g.text)
			case g.own:
				unsure++
			}
		}
	}
	t.Logf("%s: %d tools, %d calls; the server itself refused the arguments of %d; %d did not reach it through biplane",
		s.name, len(tools), made, refused, unsure)
	if made == 0 || unsure > made/2 {
		t.Errorf("%d of %d calls reached %s through biplane, want most", made-unsure, made, s.name)
	}
}

// checkRefusal checks that a call without required arguments is recognized as refused, by the
// server itself and through Biplane. Otherwise the comparison would find nothing.
func checkRefusal(t *testing.T, name string, tools []*mcp.Tool, direct, through *mcp.ClientSession) {
	t.Helper()
	for _, tool := range tools {
		schema, _ := tool.InputSchema.(map[string]any)
		if required, _ := schema["required"].([]any); len(required) == 0 {
			continue
		}
		if got := callTool(t, through, tool.Name, json.RawMessage(`{}`)); !got.refused {
			t.Errorf("%s({}) is not refused through biplane: %.300s", tool.Name, got.text)
		}
		got := callTool(t, direct, tool.Name, json.RawMessage(`{}`))
		if t.Logf("%s({}) without biplane: refused: %t: %.200q", tool.Name, got.refused, got.text); !got.refused &&
			slices.Contains([]string{"everything", "filesystem", "memory"}, name) {
			t.Errorf("%s({}) is not refused by the server", tool.Name)
		}
		return
	}
}

// connectServer connects to a server over stdio, or returns why it didn't start.
func connectServer(t *testing.T, c *exec.Cmd) (*mcp.ClientSession, error) {
	t.Helper()
	var stderr strings.Builder
	c.Stderr = &stderr
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Without roots, as Biplane over stdio: some servers offer tools only to clients with them.
	client := mcp.NewClient(&mcp.Implementation{Name: "compare", Version: "1"},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: c, TerminateDuration: 5 * time.Second}, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %.600s", err, stderr.String())
	}
	t.Cleanup(func() { s.Close() })
	return s, nil
}

func listTools(t *testing.T, s *mcp.ClientSession) (out []*mcp.Tool) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatalf("list tools: %v", err)
		}
		out = append(out, tool)
	}
	return out
}

// A callOutcome says how a call ended.
type callOutcome struct {
	refused bool // the arguments were
	own     bool // the answer is an error of Biplane: the call did not reach the server
	text    string
}

var (
	refusals = regexp.MustCompile(`(?i)wrong arguments for|invalid arguments|input validation error|invalid params|` +
		`"code": ?"(invalid|too_|unrecognized)`)
	ownErrors = regexp.MustCompile(`(?i)was not sent|upstream \S+ (is|failed)|exceeds the limit`)
)

// callTool makes a call. One that takes long was accepted.
func callTool(t *testing.T, s *mcp.ClientSession, name string, args json.RawMessage) callOutcome {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		var wire *jsonrpc.Error
		return callOutcome{refused: errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams ||
			refusals.MatchString(err.Error()), own: ownErrors.MatchString(err.Error()), text: err.Error()}
	}
	text := ""
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	return callOutcome{refused: res.IsError && refusals.MatchString(text),
		own: res.IsError && ownErrors.MatchString(text), text: text}
}

// generateArguments returns arguments that are valid by the schema of a tool: few, all, and edge
// values of each one.
func generateArguments(t *testing.T, tool *mcp.Tool, most int) (out []json.RawMessage) {
	t.Helper()
	raw, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", root); err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Logf("%s is not called: its schema is invalid: %v", tool.Name, err)
		return nil
	}
	g := &generator{root: root}
	seen := map[string]bool{}
	for _, v := range g.listValues(root, 0) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		plain, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if _, ok := v.(map[string]any); ok && err == nil && schema.Validate(plain) == nil && !seen[string(text)] {
			seen[string(text)] = true
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		t.Logf("%s is not called: no valid arguments were found", tool.Name)
	}
	for len(out) > most { // evenly
		at := len(out) / 2
		out = slices.Delete(out, at, at+1)
	}
	return out
}

// A generator makes values for schemas.
type generator struct{ root any }

// listValues returns candidates for a schema, the plainest first. Some may be invalid.
func (g *generator) listValues(schema any, depth int) []any {
	s, ok := schema.(map[string]any)
	if !ok || depth > 6 {
		return []any{"text"}
	}
	if ref, ok := s["$ref"].(string); ok {
		at := g.root
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			m, _ := at.(map[string]any)
			at = m[part]
		}
		return g.listValues(at, depth+1)
	}
	if v, ok := s["const"]; ok {
		return []any{v}
	}
	if all, ok := s["enum"].([]any); ok {
		return all
	}
	var out []any
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		branches, _ := s[key].([]any)
		for _, b := range branches {
			out = append(out, g.listValues(b, depth+1)...)
		}
	}
	kinds, _ := s["type"].([]any)
	if k, ok := s["type"].(string); ok {
		kinds = []any{k}
	}
	if len(kinds) == 0 && s["properties"] != nil {
		kinds = []any{"object"}
	}
	for _, k := range kinds {
		switch k {
		case "object":
			out = append(out, g.listObjects(s, depth)...)
		case "array":
			items := g.listValues(s["items"], depth+1)
			if s["items"] == nil {
				items = []any{"a", 1}
			}
			out = append(out, items[:1], []any{}, items[:min(2, len(items))])
		case "string":
			out = append(out, "text", "2024-05-01", "https://example.invalid/a?b=c#d",
				"01234567-89ab-4def-8123-456789abcdef", "", "ünïcödé 😀 \"quoted\"\n", "2024-05-01T10:00:00Z",
				"a@example.invalid", "12",
				strings.Repeat("x", 300))
		case "integer", "number":
			for _, bound := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
				if n, ok := s[bound].(json.Number); ok {
					f, _ := n.Float64()
					out = append(out, f, f+1, f-1)
				}
			}
			out = append(out, 1, 0, -1, 2147483647, 0.5)
		case "boolean":
			out = append(out, true, false)
		case "null":
			out = append(out, nil)
		}
	}
	if len(out) == 0 {
		out = []any{"text", 1, true, map[string]any{}}
	}
	return out
}

func (g *generator) listObjects(s map[string]any, depth int) []any {
	properties, _ := s["properties"].(map[string]any)
	required := map[string]bool{}
	names, _ := s["required"].([]any)
	for _, n := range names {
		required[fmt.Sprint(n)] = true
	}
	few, full := map[string]any{}, map[string]any{}
	values := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		values[name] = g.listValues(properties[name], depth+1)
		full[name] = values[name][0]
		if required[name] {
			few[name] = values[name][0]
		}
	}
	out := []any{few, full}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		for _, v := range values[name] {
			one := maps.Clone(few)
			one[name] = v
			out = append(out, one)
		}
	}
	if depth > 0 {
		out = out[:min(len(out), 4)]
	}
	return out
}
