package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDocumentedPolicies checks that the policies in the documents load.
func TestDocumentedPolicies(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	block := regexp.MustCompile("(?ms)^ *```cedar[^\n]*\n(.*?)^ *```")
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			n++
			if _, err := New(Config{Files: []File{{Name: filepath.Base(page), Text: m[1]}}}); err != nil {
				t.Errorf("%s: %v, in:\n%s", filepath.Base(page), err, m[1])
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d policies found: this test looks in the wrong place", n)
	}
}
