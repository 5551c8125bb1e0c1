package httpapi

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

// TestDocumentedStatuses checks that the page about errors lists every kind with its status code.
func TestDocumentedStatuses(t *testing.T) {
	page, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for kind, status := range statusOf {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\| `+"`%s`"+` \|.*\| %d \| \d \|$`, kind, status)).Match(page) {
			t.Errorf("docs/errors.md has no row for kind %s with status %d", kind, status)
		}
	}
}
