package program_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// githubClient writes a client of one upstream.
type githubClient struct{}

func (githubClient) WriteClient(_ tool.Principal, name string, uses func(string) bool) (string, []string) {
	if name != "github" {
		return "", []string{"github"}
	}
	text := "package github\n"
	for _, f := range []string{"ListIssues", "GetMe"} {
		if uses(f) {
			text += "func " + f + "() {}\n"
		}
	}
	return text, nil
}

// TestCompiledPrograms checks how programs in compiled languages are prepared.
func TestCompiledPrograms(t *testing.T) {
	p := program.New(program.Config{Clients: githubClient{}})
	for _, c := range []struct{ language, source, name, code, client string }{
		{"go", "package main\n\nimport \"tools/github\"\n\nfunc main() { github.GetMe() }", "program.go", "",
			"package github\nfunc GetMe() {}\n"},
		{"golang", "import gh \"tools/github\"\nfunc main() { var _ gh.ListIssuesArgs }", "program.go",
			"package main; import gh \"tools/github\"\nfunc main() { var _ gh.ListIssuesArgs }",
			"package github\nfunc ListIssues() {}\n"},
		{"go", "```go\npackage main\nfunc main() {}\n```\n", "program.go", "\npackage main\nfunc main() {}\n", ""},
		{"", "```go\npackage main\nfunc main() {}\n```", "program.go", "\npackage main\nfunc main() {}\n", ""},
		{"go", "package main\nfunc main() {", "program.go", "", ""},
		{"rust", "fn main() {}", "program.rs", "", ""},
		{"java", "class A {}\n// public class X\npublic final class B { public static void main(String[] a) {} }",
			"B.java", "", ""},
		{"java", "package a.b;\nclass A { class C {} static String s = \"class D {\"; }\n" +
			"class B { public static void main(String[] a) {} }\nclass E {}", "a/b/B.java", "", ""},
		{"java", "record R(int a) {}", "R.java", "", ""},
		{"java", "int x;", "Program.java", "", ""},
	} {
		prog, err := p.Prepare(program.Request{Source: c.source, Language: c.language})
		if c.code == "" {
			c.code = c.source
		}
		if err != nil || prog.Name != c.name || prog.Code != c.code || prog.Files["github/github.go"] != c.client {
			t.Errorf("%s\nprepared as %+v, %v, want name %s, client %q, code\n%s", c.source, prog, err, c.name,
				c.client, c.code)
		}
	}
	_, err := p.Prepare(program.Request{Language: "go", Source: "package main\n\nimport \"tools/gitlab\"\n"})
	if err == nil || !strings.Contains(err.Error(), "there are tools/github (line 3, column 8)") {
		t.Errorf("an unknown upstream: %v, want an error that names the others", err)
	}
}

// TestCompiledPosition checks that positions in a compiler's messages are found in the text.
func TestCompiledPosition(t *testing.T) {
	for language, message := range map[string]string{"go": "x\nprogram.go:2:5: undefined: y",
		"rust": "error[E0425]\n --> program.rs:2:5", "java": "Main.java:2: error: cannot find symbol"} {
		prog, err := program.New(program.Config{}).Prepare(program.Request{Language: language, Source: "a\nbcdefgh\n"})
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		if line, _, ok := prog.Locate(message); !ok || line != 2 {
			t.Errorf("%s: Locate(%q) = %d, %t, want line 2", language, message, line, ok)
		}
	}
}
