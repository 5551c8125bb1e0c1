package program

import (
	_ "embed"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// fetchSource implements fetch (https://fetch.spec.whatwg.org) by calls that policy decides on like
// any others. A redirect is a separate call, and is decided on again. The source is prepended to
// programs that use fetch. It is not part of the engine, so that snapshots of guests remain valid.
//
//go:embed fetch.js
var fetchSource string

var fetchWord = lazily.Regexp(`\bfetch\b`)

// leadCode returns the code to prepend to a program, and its number of lines.
func leadCode(code string) (text string, lines int) {
	if !strings.Contains(code, "fetch") || !fetchWord.Get().MatchString(code) {
		return "", 0
	}
	return fetchSource, strings.Count(fetchSource, "\n")
}
