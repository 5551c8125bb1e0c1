package catalog

import (
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// splitWords returns the words of a name or text in lower case. It splits at characters other than
// letters and digits, and inside camelCase and HTTPServer.
func splitWords(s string) []string {
	var out []string
	start := -1
	var prev rune
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(s[start:end]))
		}
		start = -1
	}
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && !unicode.IsUpper(prev):
			flush(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(prev) && i-1 > start && prev < 0x80:
			flush(i - 1) // HTTPServer: http, server
			start = i - 1
		}
		prev = r
	}
	flush(len(s))
	return out
}

// stem removes the ending of an English word; other words are unchanged.
func stem(w string) string {
	if len(w) < 3 || len(w) > 40 {
		return w
	}
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	env := snowballstem.NewEnv(w)
	english.Stem(env)
	return env.Current()
}

// stopWords say nothing about the function of a tool.
var stopWords = lazily.Words(`a an the this that these those there here and or but nor so if then than as at by for from in into of off
	on onto out over to under up upon with within without about above after again against all also am any are aren be
	because been before being below between both can cannot could couldn did didn do does doesn doing don down during each
	few further had hadn has hasn have haven having he her hers him his i it its itself just ll m ma me more most
	much must my myself no not now once only other our ours own please re s same shall she should shouldn some such t
	their theirs them themselves they through too ve very was wasn we were weren which while who whom whose will
	won would wouldn you your yours yourself ever every everything everybody everyone anybody anyone anything somebody someone something
	thing things stuff like etc e g eg ie via using use used uses given optional required default specific specified whether want
	wants need needs let lets us got gonna wanna many still yet already ago`)
