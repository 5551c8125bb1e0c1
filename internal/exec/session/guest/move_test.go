package guest

import (
	"strings"
	"testing"
)

// TestDescribeMove checks that the names of a guest's variables don't make the description long.
func TestDescribeMove(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	m := Moved{Kept: []string{"a", long}, Left: map[string]string{long: long}}
	got := m.DescribeMove()
	if len(got) > 1000 || !strings.HasPrefix(got, "its files and the variables a, xxx") {
		t.Errorf("DescribeMove returned %d bytes, want at most 1000, with the names: %.200s", len(got), got)
	}
}
