package program

import (
	_ "embed"
	"strings"

	"github.com/biplane-dev/biplane/internal/lazily"
)

// fetchSource gives a program fetch, as the Fetch standard has it (https://fetch.spec.whatwg.org), made of calls that go through the
// door like all others. A redirect is a call of its own, and so decided on anew. It stands before a program that says fetch, and not in the
// engine, so that guests which were saved before go on to fit theirs.
//
//go:embed fetch.js
var fetchSource string

var fetchWord = lazily.Regexp(`\bfetch\b`)

// lead gives what stands before the code of a program, and how many lines it has.
func lead(code string) (text string, lines int) {
	if !strings.Contains(code, "fetch") || !fetchWord().MatchString(code) {
		return "", 0
	}
	return fetchSource, strings.Count(fetchSource, "\n")
}
