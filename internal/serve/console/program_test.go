package console

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestColouredProgramIsWhole checks that colours leave nothing out, whatever the text is.
func TestColouredProgramIsWhole(t *testing.T) {
	check := func(t rapid.TB, program, language string) {
		t.Helper()
		lines, _ := colourProgram(program, language)
		for i, want := range strings.Split(strings.TrimSuffix(program, "\n"), "\n") {
			got := ""
			for _, s := range lines[i].Spans {
				got += s.Text
			}
			if want = tool.Visible([]byte(want)); got != want {
				t.Fatalf("%s line %q is shown as %q", language, want, got)
			}
		}
	}
	check(t, "echo 5€", "bash")
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringMatching(`([a€אé 1"'/*#.\\\n]|\$\{){0,30}`).Draw(t, "program"),
			rapid.SampledFrom([]string{"typescript", "python", "bash"}).Draw(t, "language"))
	})
}

// TestLongProgram checks that a long program is cut. If the time for colouring grew with the square
// of its length, this would take hours.
func TestLongProgram(t *testing.T) {
	for name, text := range map[string]string{"escapes": "\x01", "words": "ab ", "names": "ab.cd", "numbers": "1 a "} {
		lines, cut := colourProgram(strings.Repeat(text, 1<<20), "typescript")
		placeCalls(lines, []*callRow{{}, {}})
		namesTool(strings.Repeat("xab.cd", 1<<17), "ab.cd")
		if !cut {
			t.Errorf("%s: the program is not cut", name)
		}
	}
}
