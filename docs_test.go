package biplane_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// codeMap is the page that names the packages and functions.
const codeMap = "internal/README.md"

func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	more, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	texts := map[string]string{}
	for _, name := range append(append(names, more...), codeMap) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		texts[name] = string(b)
	}
	if len(texts) < 15 {
		t.Fatalf("only %d pages found: this test looks in the wrong place", len(texts))
	}
	return texts
}

var (
	link     = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// slug returns the anchor that a heading has on GitHub.
func slug(heading string) string {
	return strings.ReplaceAll(notASlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// Links of the documents lead to files and headings that exist.
func TestLinks(t *testing.T) {
	texts := pages(t)
	for name, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[0])
				continue
			}
			if m[2] == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(texts[target], -1) {
				found = found || slug(h[1]) == m[2]
			}
			if !found {
				t.Errorf("%s: %s has no heading for the link %s", name, target, m[0])
			}
		}
	}
}

// Markdown wraps at 120 columns, except tables, code and the generated page of commands.
func TestPagesWrap(t *testing.T) {
	for name, text := range pages(t) {
		if filepath.Base(name) == "commands.md" {
			continue
		}
		inCode := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				inCode = !inCode
			}
			if !inCode && !strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > 120 {
				t.Errorf("%s:%d has more than 120 columns: wrap the paragraph", name, i+1)
			}
		}
	}
}

// The index names every page.
func TestIndexOfDocuments(t *testing.T) {
	texts := pages(t)
	for name := range texts {
		base := filepath.Base(name)
		if filepath.Dir(name) == "docs" && base != "README.md" &&
			!strings.Contains(texts["docs/README.md"], "]("+base+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}

// RATIONALE.md names every page about a single package.
func TestIndexOfDesigns(t *testing.T) {
	text := pages(t)["RATIONALE.md"]
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "DESIGN.md" && !strings.Contains(text, "]("+filepath.ToSlash(path)+")") {
			t.Errorf("RATIONALE.md does not name %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
}

const (
	readmeLines       = 120
	architectureLines = 125
	sentenceWords     = 25
)

// A newcomer reads ARCHITECTURE.md to its end.
func TestArchitectureIsOnePage(t *testing.T) {
	if n := strings.Count(pages(t)["ARCHITECTURE.md"], "\n"); n > architectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines, at most %d: move details to %s", n, architectureLines, codeMap)
	}
}

var (
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
	endOfPhrase = regexp.MustCompile(`[.!?:](?:\s|$)|\n\n|\n- |\n#`)
)

// The README can be read in a minute.
func TestReadmeIsShort(t *testing.T) {
	text := pages(t)["README.md"]
	if n := strings.Count(text, "\n"); n > readmeLines {
		t.Errorf("README.md has %d lines, at most %d: move details to docs/", n, readmeLines)
	}
	for _, s := range endOfPhrase.Split(codeBlock.ReplaceAllString(text, "\n\n"), -1) {
		if n := len(strings.Fields(s)); n > sentenceWords {
			t.Errorf("README.md: a sentence of %d words, at most %d: %s", n, sentenceWords,
				strings.Join(strings.Fields(s), " "))
		}
	}
}

var roomRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// The table of packages names every package, and no other.
func TestTableOfRooms(t *testing.T) {
	named := map[string]bool{}
	for _, m := range roomRow.FindAllStringSubmatch(pages(t)[codeMap], -1) {
		if _, err := os.Stat(m[1]); err != nil && !strings.Contains(m[1], " ") && strings.Contains(m[1], "/") {
			t.Errorf("%s names %s, which does not exist", codeMap, m[1])
		}
		named[m[1]] = true
	}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if strings.HasPrefix(dir, "internal/") && !named[dir] && !strings.HasSuffix(dir, "test") {
			t.Errorf("%s has no row for %s", codeMap, dir)
			named[dir] = true
		}
	}
}

// TestPaths checks that the functions exist which the documents name on the paths of calls,
// approvals and suspended programs, and as answers to questions, and the tests that they name.
func TestPaths(t *testing.T) {
	for title, page := range map[string]string{
		"A program's call, function by function":               codeMap,
		"An approval, function by function":                    codeMap,
		"A suspended program or session, function by function": codeMap,
		"Stop and restart, function by function":               codeMap,
		"Which test checks ...?":                               codeMap,
		"Where is ...?":                                        codeMap,
	} {
		t.Run(title, func(t *testing.T) {
			_, part, ok := strings.Cut(pages(t)[page], "\n## "+title+"\n")
			if !ok {
				t.Fatalf("%s has no heading %q", page, title)
			}
			part, _, _ = strings.Cut(part, "\n## ")
			rows := tableRow.FindAllString(part, -1)
			if len(rows) < 10 {
				t.Fatalf("%d rows found, want at least 10", len(rows))
			}
			for _, row := range rows[2:] {
				if m := pathRow.FindStringSubmatch(row); m == nil || !quoted.MatchString(m[2]) {
					t.Errorf("%s: this row doesn't name one file and a function in it: %s", page, row)
				} else {
					checkFunctions(t, page, m[1], m[2])
				}
			}
		})
	}
}

var (
	tableRow = regexp.MustCompile(`(?m)^\|.*\|$`)
	pathRow  = regexp.MustCompile("^\\|[^|]*\\| `([^`]+)` \\| (.*) \\|$")
	quoted   = regexp.MustCompile("`([^`]+)`")
)

var placeOfName = regexp.MustCompile("`(\\w+)` in `([a-z_/]+\\.go)`")

// TestPlacesToAdd checks that the variables and functions exist that are named in the table of what
// to touch.
func TestPlacesToAdd(t *testing.T) {
	_, part, _ := strings.Cut(pages(t)["ARCHITECTURE.md"], "\n## Where things are added\n")
	places := placeOfName.FindAllStringSubmatch(part, -1)
	if len(places) < 8 {
		t.Fatalf("%d places found, want at least 8", len(places))
	}
	files := goFiles(t)
	for _, m := range places {
		declared, want := false, regexp.MustCompile(`^(var |func |func \(.*?\) |type |\t)`+m[1]+`\b`)
		for path, lines := range files {
			if strings.HasSuffix("/"+path, "/"+m[2]) {
				declared = declared || slices.ContainsFunc(lines, want.MatchString)
			}
		}
		if !declared {
			t.Errorf("ARCHITECTURE.md names %s in %s, which doesn't declare it", m[1], m[2])
		}
	}
}

// checkFunctions checks that a file, in Go or JavaScript, has the functions that are named in text.
func checkFunctions(t *testing.T, page, file, text string) {
	t.Helper()
	code, err := os.ReadFile(filepath.Join("internal", file))
	if err != nil {
		t.Errorf("read the file that %s names: %v", page, err)
		return
	}
	for _, name := range quoted.FindAllStringSubmatch(text, -1) {
		typ, method, isMethod := strings.Cut(name[1], ".")
		want := `(?m)^((export )?func(tion)? ` + typ + `\(|export const ` + typ + ` = )`
		if isMethod {
			want = `(?m)^func \((\w+ )?\*?` + typ + `(\[\w+\])?\) ` + method + `\(`
		}
		if !regexp.MustCompile(want).Match(code) {
			t.Errorf("%s names %s in %s, which has no such function", page, name[1], file)
		}
	}
}
