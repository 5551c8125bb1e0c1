package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocumentedCommands checks that the command line has every command and every flag that the
// documents show.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	var n int
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			if strings.HasPrefix(line, "biplane  ") { // a row of a table
				continue
			}
			if args := shellWords(line); len(args) > 1 && (args[0] == "biplane" || args[0] == "./biplane") {
				n++
				if _, err := parseCommand(args[1:]); err != nil {
					t.Errorf("page = %s, i+1 = %d, line = %s, err = %v, want nil", page, i+1, line, err)
				}
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d commands found: this test looks in the wrong place", n)
	}
}

// notRun has documented flags that no story uses, each with the reason.
var notRun = map[string]string{
	"biplane registry search --from": "it needs the network; package control/registry has a registry on loopback",
	"biplane registry show --from":   "the same",
	"biplane registry add --from":    "the same",
	"biplane serve --direct":         "the port is in the page; the story tool-server has biplane mcp --direct",
}

// TestDocumentedCommandsRun checks that the stories of the command line, or the test of the
// tutorial, run every command that the documents show, with each of its flags.
func TestDocumentedCommandsRun(t *testing.T) {
	stories, err := filepath.Glob("../../cmd/biplane/testdata/script/*.txtar")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	ran := map[string]bool{}
	for _, name := range append(stories, "../../docs/tutorial.md") {
		eachCommand(t, name, func(_ int, used []string) {
			for _, u := range used {
				ran[u] = true
			}
		})
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	n := 0
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md") {
		if filepath.Base(page) == "commands.md" {
			continue // generated from the help
		}
		eachCommand(t, page, func(line int, used []string) {
			n++
			for _, u := range used {
				if !ran[u] && notRun[u] == "" {
					t.Errorf("%s:%d: no story runs %s", page, line, u)
				}
			}
		})
	}
	if n < 70 {
		t.Errorf("only %d commands found, want at least 70: this test looks in the wrong place", n)
	}
}

// inLine matches the beginning of a command in a line of a story or a page.
var inLine = regexp.MustCompile(`(?:^|[ |(])biplane [a-z]`)

// eachCommand calls f with each command in the blocks of a page, or in a story, as its path and its
// flags: "biplane run", "biplane run --plan".
func eachCommand(t *testing.T, name string, f func(line int, used []string)) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	page, inBlock := filepath.Ext(name) == ".md", false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		}
		at := inLine.FindStringIndex(line)
		if at == nil || page && !inBlock {
			continue
		}
		args := shellWords(line[strings.Index(line, "biplane "):])
		if len(args) < 2 {
			continue
		}
		c, err := parseCommand(args[1:])
		if err != nil || c == nil || !c.HasParent() {
			continue // prose, or a command that must fail
		}
		used := []string{c.CommandPath()}
		c.Flags().Visit(func(p *pflag.Flag) { used = append(used, c.CommandPath()+" --"+p.Name) })
		f(i+1, used)
	}
}

// TestDocumentedExitCodes checks that the page about errors lists every kind with its exit code.
func TestDocumentedExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for kind, code := range exitCodes {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\| `+"`%s`"+` \|.*\| %d \|$`, kind, code)).Match(page) {
			t.Errorf("docs/errors.md has no row for kind %s with exit code %d", kind, code)
		}
	}
}

// TestExitMeanings checks that the table of exit codes has each code once, and that no error has
// another one.
func TestExitMeanings(t *testing.T) {
	known := map[int]bool{}
	for i, e := range exitMeanings {
		if e.code != i || e.meaning == "" {
			t.Errorf("row %d has code %d and meaning %q; want code %[1]d and a meaning", i, e.code, e.meaning)
		}
		known[e.code] = true
	}
	for kind, code := range exitCodes {
		if !known[code] || code == exitDone {
			t.Errorf("errors of kind %s have exit code %d, which is not in the table", kind, code)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	literal := regexp.MustCompile(`failSilently\([0-9]|code: [0-9]|os\.Exit\(`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if at := literal.Find(text); at != nil && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s has an exit code that is not in the table: %s", name, at)
		}
	}
}

// parseCommand checks that args begin with an existing command, and that it has their flags.
func parseCommand(args []string) (*cobra.Command, error) {
	a := &app{Process: Process{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Version: "dev"}}
	c, rest, err := a.newRoot().Find(args)
	if err != nil {
		return nil, err
	}
	c.InitDefaultHelpFlag()
	return c, c.ParseFlags(rest)
}

// optional matches what a document marks as optional or repeated: [--flag VALUE]...
var optional = regexp.MustCompile(`\]\.\.\.|[\[\]]`)

// shellWords splits the first command of a line of a shell into words. It returns nil if the line
// isn't complete, as with a quoted text of several lines.
func shellWords(line string) (words []string) {
	if !strings.ContainsAny(line, `'"`) {
		line = optional.ReplaceAllString(line, " ")
	}
	var word strings.Builder
	var quote rune
	in := false
	for i, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case strings.ContainsRune(" |;&><#", c):
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
			comment := c == '#' && (i == 0 || line[i-1] == ' ')
			if comment || strings.ContainsRune("|;&><", c) {
				return words
			}
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		return nil
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
