package console

import (
	"fmt"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A hiddenCharacter is a character of a text in a form that a reader can't see. The form has it
// unchanged, since the text may depend on it.
type hiddenCharacter struct {
	Line, Column int
	Code, Name   string // as in "U+202E", and its name if it is well known
}

// listedHidden is how many hidden characters of a text are listed.
const listedHidden = 20

var hiddenNames = lazily.Value[map[rune]string]{Make: func() map[rune]string {
	return map[rune]string{
		'\r': "carriage return", '\u00a0': "no-break space", '\u00ad': "soft hyphen", '\u200b': "zero-width space",
		'\u200c': "zero-width non-joiner", '\u200d': "zero-width joiner", '\u200e': "left-to-right mark",
		'\u200f': "right-to-left mark", '\u2028': "line separator", '\u2029': "paragraph separator",
		'\u202a': "left-to-right embedding", '\u202b': "right-to-left embedding",
		'\u202c': "pop directional formatting",
		'\u202d': "left-to-right override", '\u202e': "right-to-left override", '\u2060': "word joiner",
		'\u2066': "left-to-right isolate", '\u2067': "right-to-left isolate", '\u2068': "first strong isolate",
		'\u2069': "pop directional isolate", '\ufeff': "byte order mark",
	}
}}

// findHidden returns the first hidden characters of a text.
func findHidden(text string) (out []hiddenCharacter) {
	line, column := 1, 0
	for _, r := range text {
		if column++; r == '\n' {
			line, column = line+1, 0
			continue
		}
		if tool.IsVisible(r) {
			continue
		}
		out = append(out, hiddenCharacter{line, column, fmt.Sprintf("U+%04X", r), hiddenNames.Get()[r]})
		if len(out) == listedHidden {
			break
		}
	}
	return out
}
