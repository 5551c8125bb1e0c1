package program

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/lazily"
)

// lowered are the features that the engines don't have and the compiler writes in terms of others.
var lowered = map[string]bool{"decorators": false, "using": false}

// silent are the compiler's warnings: they cost time and nobody reads them.
var silent = map[string]api.LogLevel{
	"assert-to-with": api.LogLevelSilent, "assert-type-json": api.LogLevelSilent, "assign-to-constant": api.LogLevelSilent,
	"assign-to-define": api.LogLevelSilent, "bigint": api.LogLevelSilent, "call-import-namespace": api.LogLevelSilent,
	"class-name-will-throw": api.LogLevelSilent, "commonjs-variable-in-esm": api.LogLevelSilent,
	"confusing-typescript-cast": api.LogLevelSilent, "delete-super-property": api.LogLevelSilent,
	"direct-eval": api.LogLevelSilent, "duplicate-case": api.LogLevelSilent, "duplicate-class-member": api.LogLevelSilent,
	"duplicate-object-key": api.LogLevelSilent, "empty-import-meta": api.LogLevelSilent, "equals-nan": api.LogLevelSilent,
	"equals-negative-zero": api.LogLevelSilent, "equals-new-object": api.LogLevelSilent,
	"html-comment-in-js": api.LogLevelSilent, "impossible-typeof": api.LogLevelSilent, "indirect-require": api.LogLevelSilent,
	"private-name-will-throw": api.LogLevelSilent, "semicolon-after-return": api.LogLevelSilent,
	"suspicious-boolean-not": api.LogLevelSilent, "suspicious-logical-operator": api.LogLevelSilent,
	"suspicious-nullish-coalescing": api.LogLevelSilent, "this-is-undefined-in-esm": api.LogLevelSilent,
	"unsupported-dynamic-import": api.LogLevelSilent, "unsupported-regexp": api.LogLevelSilent,
	"unsupported-require-call": api.LogLevelSilent,
}

// compile takes the types out of code. What comes back has one form for many: every statement ends in a semicolon or
// a brace, on lines of its own, without comments between statements.
//
// In a session an import that nothing uses stays: it may be for a later program.
func compile(code string, how mode) api.TransformResult {
	config := ""
	if how.session {
		config = `{"compilerOptions":{"verbatimModuleSyntax":true}}`
	}
	return api.Transform(code, api.TransformOptions{
		Loader:         how.loader,
		TsconfigRaw:    config,
		Target:         api.ESNext,
		Supported:      lowered,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LegalComments:  api.LegalCommentsNone,
		LogLevel:       api.LogLevelSilent,
		LogOverride:    silent,
	})
}

// A problem is something wrong at a place of the code; at is -1 for the code as a whole. An empty kind is "syntax".
type problem struct {
	at      int
	message string
	kind    string
	also    int // another place of the code that has to do with it, for example the first of two declarations; 0 for none
}

// syntaxProblem turns the compiler's first message into a problem of the code that in was made from. Where brackets
// don't pair, the compiler sees it late, often only at the end: then the bracket itself is the better place.
func syntaxProblem(messages []api.Message, in *text, code *tokens) problem {
	p := problem{at: -1, message: "not a program"}
	m := messages[0]
	p.message = strings.TrimSuffix(lowerFirst(m.Text), ":")
	if len(m.Notes) > 0 && m.Notes[0].Location != nil && strings.Contains(m.Text, "already been declared") {
		off := newLineTable(in.s, scriptLines).atByte(m.Notes[0].Location.Line-1, m.Notes[0].Location.Column)
		p.also, _ = in.origin(off)
	}
	if strings.Contains(m.Text, `inside an "async" function`) {
		p.message += ": write async before this function, and await what it gives (for a list: await Promise.all(list.map(async (x) => ...)))"
	}
	if m.Location != nil {
		off := newLineTable(in.s, scriptLines).atByte(m.Location.Line-1, m.Location.Column)
		at, ok := in.origin(off)
		if p.at = at; !ok {
			p.at = len(code.s)
			if !strings.HasPrefix(p.message, "unterminated") {
				p.message = "unexpected end of the program"
			}
		}
	}
	if hint := dialect(code); hint != "" {
		p.message += ": " + hint
		return p
	}
	end := strings.TrimSpace(code.s[max(0, min(p.at, len(code.s))):]) == ""
	switch {
	case code.stray >= 0 && (code.stray <= p.at || end):
		return problem{at: code.stray, message: "unexpected \"" + code.s[code.stray:code.stray+1] + "\": nothing is open here that it could close"}
	case code.comment >= 0 && end:
		return problem{at: code.comment, message: "the comment that starts here does not end: \"*/\" is missing"}
	case code.unshut >= 0 && end:
		what := code.s[code.unshut : code.unshut+1]
		return problem{at: code.unshut, message: "unexpected end of the program: the \"" + what + "\" that opens here is not closed"}
	}
	return p
}

var (
	jsxTag   = lazily.Regexp(`</[A-Za-z][\w.]*>|</>|<[A-Za-z][^<>]*/>`)
	pythonic = lazily.Regexp(`(?m)^(def \w+\(.*\).*:|from [\w.]+ import |import \w+( as \w+)?$|if __name__ ==|print\()`)
)

// dialect says what a program that doesn't parse seems to be written in, if that is none of ours.
func dialect(t *tokens) string {
	head := t.s[:min(len(t.s), 16<<10)]
	switch {
	case jsxTag().MatchString(head):
		return "JSX is not available here; build strings or objects instead"
	case pythonic().MatchString(head):
		return "this looks like Python: give execute language \"python\", or write the program in TypeScript"
	}
	return ""
}

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}
