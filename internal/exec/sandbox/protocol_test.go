package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestGuestLists checks that the lists of a guest's message are bounded: a program can write such
// messages, and an element needs far more memory than its bytes.
func TestGuestLists(t *testing.T) {
	for before, list := range map[string]struct {
		element string
		most    int
	}{`{"call":{"flags":[`: {"{}", 1 << 16}, `{"done":{"unawaited":[`: {"1", 1 << 20}} {
		for n, ok := range map[int]bool{1: true, list.most: true, list.most + 1: false} {
			text := before + strings.Repeat(list.element+",", n-1) + list.element + "]}}"
			var m sandbox.GuestMessage
			err := json.Unmarshal([]byte(text), &m)
			if (err == nil) != ok {
				t.Errorf("%s with %d elements: %v", before, n, err)
			}
			if ok && (m.Call == nil || len(m.Call.Flags) != n) && (m.Done == nil || len(m.Done.Unawaited) != n) {
				t.Errorf("%s with %d elements is %.100v", before, n, m)
			}
		}
	}
}
