package typegen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// goTools stands for the package that generated packages import.
const goTools = `package tools

type Value []byte

func CallInto(path string, args, result any) error { return nil }
`

// buildGo writes a module tools with packages and builds it. It returns the compiler's messages.
func buildGo(t *testing.T, files map[string]string) string {
	t.Helper()
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go here")
	}
	dir := t.TempDir()
	files["go.mod"], files["tools.go"] = "module tools\n\ngo 1.24\n", goTools
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	cmd := exec.CommandContext(t.Context(), compiler, "build", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("go build: %v", err)
	}
	return string(out)
}

// TestGoPackages builds the packages of the golden tools, and of tools with generated schemas and
// hostile names and descriptions.
func TestGoPackages(t *testing.T) {
	spaces := map[string][]typegen.Item{}
	for _, it := range pythonItems(t) {
		name := typegen.GoPackageName(it.Names.Namespace)
		spaces[name] = append(spaces[name], it)
	}
	files := map[string]string{}
	for name, items := range spaces {
		text := typegen.GoPackage(items, func(string) bool { return true })
		files[name+"/"+name+".go"] = text
		if n := strings.Count(text, "\nfunc "); n != len(items) {
			t.Errorf("package %s has %d functions, want %d", name, n, len(items))
		}
	}
	if out := buildGo(t, files); out != "" {
		t.Errorf("go build: %s", cutLines(out, 20))
	}
}

// TestGoPackage checks the package of one tool, and a program with mistakes.
func TestGoPackage(t *testing.T) {
	items := []typegen.Item{{Names: typegen.Names{Namespace: "github", Member: "list_issues"}, Tool: &tool.Tool{
		InputSchema: []byte(`{"type":"object","required":["repo"],"properties":{"repo":{"type":"string"},
			"limit":{"type":"integer"},"labels":{"type":"array","items":{"type":"string"}},
			"state":{"enum":["open","closed"]}}}`),
		OutputSchema: []byte(`{"type":"object","required":["items"],"properties":{"items":{"type":"array",
			"items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},
			"milestone":{"anyOf":[{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}},
			{"type":"null"}]},"extra":{}}}}}}`)}},
		{Names: typegen.Names{Namespace: "github", Member: "get_me"}, Tool: &tool.Tool{InputSchema: []byte(
			`{"type":"object","additionalProperties":false}`)}}}
	const want = `package github

import "tools"

var _ tools.Value

// GetMe calls the tool "github.get_me".
func GetMe() (result tools.Value, err error) {
	err = tools.CallInto("github.get_me", nil, &result)
	return result, err
}

// ListIssues calls the tool "github.list_issues".
func ListIssues(args ListIssuesArgs) (result ListIssuesResult, err error) {
	err = tools.CallInto("github.list_issues", args, &result)
	return result, err
}

type ListIssuesArgs struct {
	Repo string ` + "`json:\"repo\"`" + `
	Limit *int64 ` + "`json:\"limit,omitzero\"`" + `
	Labels []string ` + "`json:\"labels,omitzero\"`" + `
	State *string ` + "`json:\"state,omitzero\"`" + `
}

type ListIssuesResult struct {
	Items []ListIssuesResultItemsItem ` + "`json:\"items\"`" + `
}

type ListIssuesResultItemsItem struct {
	Id int64 ` + "`json:\"id\"`" + `
	Milestone *ListIssuesResultItemsItemMilestone ` + "`json:\"milestone,omitzero\"`" + `
	Extra tools.Value ` + "`json:\"extra,omitzero\"`" + `
}

type ListIssuesResultItemsItemMilestone struct {
	Name string ` + "`json:\"name\"`" + `
}
`
	all := typegen.GoPackage(items, func(string) bool { return true })
	if all != want {
		t.Errorf("GoPackage:\n%s\nwant\n%s", all, want)
	}
	one := typegen.GoPackage(items, func(name string) bool { return name == "GetMe" })
	if strings.Contains(one, "Issues") {
		t.Errorf("GoPackage with one function:\n%s", one)
	}
	out := buildGo(t, map[string]string{"github/github.go": all, "program/program.go": `package main

import "tools/github"

func main() {
	r, err := github.ListIssues(github.ListIssuesArgs{Repo: 1, Limit: 2})
	var name string = r.Items[0].Milestone
	_, _ = name, err
}
`})
	for _, line := range []string{"program.go:6:58", "program.go:6:68", "program.go:7:20"} {
		if !strings.Contains(out, line) {
			t.Errorf("go build: %s\nwant a mistake at %s", out, line)
		}
	}
}
