package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestArgumentsAreVisible checks that arguments to approve can neither control the terminal nor
// hide anything.
func TestArgumentsAreVisible(t *testing.T) {
	for _, s := range []string{"plain, ünï, 日本", "turned \u202e around", "no\u200bwidth", "bell \a and \x1b[2J",
		"\u0085\u2028\u061c", "tag \U000e0041", "\ufeff", "filler \u3164 and \ufe0f and \u2800"} {
		raw, err := json.Marshal(map[string]string{"s": s})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		out := tool.Visible(raw)
		var back map[string]string
		if err := json.Unmarshal([]byte(out), &back); err != nil || back["s"] != s {
			t.Errorf("%q shows as %s, which means %q (%v)", s, out, back["s"], err)
		}
		if cleanLine(out) != out || strings.ContainsAny(out, "\u200b\u061c\U000e0041\ufeff\u2028") {
			t.Errorf("%q shows as %q", s, out)
		}
	}
}
