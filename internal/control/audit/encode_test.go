package audit_test

import (
	"testing"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

func FuzzEncode(f *testing.F) {
	f.Add("crm.update", int64(7))
	f.Add("", int64(0))
	f.Add("\"\\<>\u2028é\x7f\n", int64(-1)<<53)
	f.Add("x", int64(1)<<60)
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if !utf8.ValidString(text) {
			t.Skip("no text of a leaf")
		}
		if ours, want := audit.Encodings(text, n); string(ours) != string(want) {
			t.Errorf("encoded as\n%s, want\n%s", ours, want)
		}
	})
}

// TestEncodingOfEachCharacter puts each ASCII character at each position of a text, because several
// are checked at once.
func TestEncodingOfEachCharacter(t *testing.T) {
	for c := range byte(utf8.RuneSelf) {
		for at := range 18 {
			text := []byte("an ordinary text ~")
			text[at] = c
			if ours, want := audit.Encodings(string(text), 7); string(ours) != string(want) {
				t.Errorf("%q is encoded as\n%s, want\n%s", text, ours, want)
			}
		}
	}
}
