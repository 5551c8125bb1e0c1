package daemon_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// answer defines a tool that answers each call with the next text, and the last one from then on.
func (p *shifty) answer(name, description string, texts ...string) {
	var n atomic.Int64
	p.mcp.AddTool(&mcp.Tool{Name: name, Description: description, Annotations: reads,
		InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			i := min(int(n.Add(1)), len(texts)) - 1
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: texts[i]}}}, nil
		})
}

// awaitObserved waits until a number of results of a tool was observed, and returns the tool.
func awaitObserved(t *testing.T, d *daemon.Daemon, path string, results int) *api.ToolDetail {
	t.Helper()
	var found *api.ToolDetail
	until(t, func() bool {
		var err error
		found, err = d.Client().Tool(t.Context(), path)
		return err == nil && found.Observed != nil && found.Observed.Results == results
	})
	return found
}

// TestObservedTypes learns the type of results, shows it everywhere, keeps it over a restart, and
// forgets it when the definition changes.
func TestObservedTypes(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), newShifty(t)
	p.answer("list_issues", "Lists issues.", `[{"id":1,"title":"secret text","by":{"ann@example.com":1}}]`,
		`[{"id":2,"title":"b","by":{"bob@example.com":1},"closed":null}]`,
		`[{"id":3,"title":"c","by":{},"closed":true}]`)
	config := "mcpServers: { shop: { url: '" + p.url + "' } }"
	const call = `return await callTool("shop.list_issues", {})`
	d, stop := run(t, dir, config)
	if x := execute(t, d.Client(), call); x.Error != nil {
		t.Fatalf("a call: %v, want no error", x.Error)
	}
	hits, err := d.Client().Search(t.Context(), "list issues", 1)
	if err != nil || !strings.Contains(hits.Text, "Promise<unknown>") {
		t.Errorf("Search after one result: %s (%v), want an unknown type", hits.Text, err)
	}
	for range 2 {
		if x := execute(t, d.Client(), call); x.Error != nil {
			t.Fatalf("a call: %v, want no error", x.Error)
		}
	}
	found := awaitObserved(t, d, "shop.list_issues", 3)
	const want = "Promise<{ by: { [key: string]: number }; closed?: boolean | null; id: number; title: string; }[]>"
	if !strings.Contains(strings.Join(strings.Fields(found.Signature), " "), want) ||
		!strings.HasPrefix(found.ResultNote, "result type observed in 3 results, not declared") {
		t.Errorf("the signature is %s // %s, want %s", found.Signature, found.ResultNote, want)
	}
	hits, err = d.Client().Search(t.Context(), "list issues", 1)
	if err != nil || !strings.Contains(hits.Text, "title: string") ||
		!strings.Contains(hits.Text, "// result type observed in 3 results") {
		t.Errorf("Search: %s (%v), want the observed type", hits.Text, err)
	}
	files, err := d.Client().Types(t.Context())
	if err != nil {
		t.Fatalf("Types: %v", err)
	}
	if f := files["tools/shop/list_issues.ts"]; !strings.Contains(f, "title: string") ||
		!strings.Contains(f, "[key: string]: unknown") || !strings.Contains(f, "observed in 3 results") {
		t.Errorf("the declaration is %s, want the observed type, open for other fields", f)
	}
	if f := files["tools/shop/__init__.pyi"]; !strings.Contains(f, "title: str") ||
		!strings.Contains(f, "observed in 3 results") {
		t.Errorf("the stub is %s, want the observed type", f)
	}
	inside := execute(t, d.Client(), `const fs = await import("node:fs/promises");
		return await fs.readFile("./tools/shop/list_issues.ts", "utf8")`)
	if !strings.Contains(string(inside.Value), "title: string") {
		t.Errorf("a program reads %s (%v), want the observed type", inside.Value, inside.Error)
	}
	all, err := json.Marshal([]any{found, files, hits})
	if err != nil || strings.Contains(string(all), "example.com") || strings.Contains(string(all), "secret") {
		t.Errorf("what is shown has data of the results: %s (%v)", all, err)
	}
	stop()

	d, stop = run(t, dir, config)
	again := awaitObserved(t, d, "shop.list_issues", 3)
	if again.Signature != found.Signature || again.Observed.Version != 1 {
		t.Errorf("after a restart: %s, version %d; want version 1 of %s", again.Signature, again.Observed.Version,
			found.Signature)
	}
	p.answer("list_issues", "Lists other issues.", `{"total":1}`)
	awaitTool(t, d, "list_issues", func(x api.Tool) bool { return x.Description == "Lists other issues." })
	if now, err := d.Client().Tool(t.Context(), "shop.list_issues"); err != nil || now.Observed != nil ||
		strings.Contains(now.Signature, "title") {
		t.Errorf("with another definition: %+v (%v), want nothing observed", now, err)
	}
	for range 2 {
		if x := execute(t, d.Client(), call); x.Error != nil {
			t.Fatalf("a call: %v, want no error", x.Error)
		}
	}
	if now := awaitObserved(t, d, "shop.list_issues", 2); now.Observed.Version != 2 ||
		!strings.Contains(now.Signature, "Promise<{ total: number }>") {
		t.Errorf("%s, version %d; want version 2 with the new results", now.Signature, now.Observed.Version)
	}
	stop()

	d, stop = run(t, dir, "observed_types: false\n"+config)
	for range 3 {
		if x := execute(t, d.Client(), call); x.Error != nil {
			t.Fatalf("a call: %v, want no error", x.Error)
		}
	}
	if now, err := d.Client().Tool(t.Context(), "shop.list_issues"); err != nil || now.Observed != nil ||
		!strings.Contains(now.Signature, "Promise<unknown>") {
		t.Errorf("turned off: %+v (%v), want an unknown type", now, err)
	}
	stop()
}

// TestObservedFields warns about a field that was never observed, and runs the program.
func TestObservedFields(t *testing.T) {
	t.Parallel()
	p := newShifty(t)
	p.answer("get_page", "Gets a page.", `{"items":[{"id":1,"title":"secret text"}],"total":1}`)
	d, stop := run(t, t.TempDir(), "mcpServers: { shop: { url: '"+p.url+"' } }")
	defer stop()
	const code = "const page = await shop.get_page();\nreturn { missing: page.totel === 1, id: page.items[0].id }"
	for range 5 {
		x := execute(t, d.Client(), code)
		if x.Error != nil || strings.Contains(strings.Join(x.Notes, "\n"), "no result of") {
			t.Fatalf("before five results: notes %q, error %v, want neither", x.Notes, x.Error)
		}
	}
	awaitObserved(t, d, "shop.get_page", 5)
	x := execute(t, d.Client(), code)
	if x.Error != nil || string(x.Value) != `{"missing":false,"id":1}` {
		t.Errorf("the program returned %s (%v), want it to run as before", x.Value, x.Error)
	}
	const want = `warning: line 2: no result of shop.get_page had a field "totel" in 5 results; ` +
		`observed there: total, items`
	if len(x.Notes) != 1 || x.Notes[0] != want {
		t.Errorf("the notes are %q, want %s", x.Notes, want)
	}
	x = execute(t, d.Client(), "const page = await shop.get_page();\nreturn page.totel ?? page.items[0].title")
	if x.Error != nil || len(x.Notes) > 0 {
		t.Errorf("with a tested field: notes %q, error %v, want neither", x.Notes, x.Error)
	}
}
