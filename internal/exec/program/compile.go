package program

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// silent disables the compiler's warnings: they cost time and are not used.
var silent = lazily.Value[map[string]api.LogLevel]{Make: func() map[string]api.LogLevel {
	const warnings = "assert-to-with assert-type-json assign-to-constant assign-to-define bigint " +
		"call-import-namespace class-name-will-throw commonjs-variable-in-esm " +
		"confusing-typescript-cast delete-super-property direct-eval duplicate-case " +
		"duplicate-class-member duplicate-object-key empty-import-meta equals-nan " +
		"equals-negative-zero equals-new-object html-comment-in-js impossible-typeof " +
		"indirect-require private-name-will-throw semicolon-after-return " +
		"suspicious-boolean-not suspicious-logical-operator suspicious-nullish-coalescing " +
		"this-is-undefined-in-esm unsupported-dynamic-import unsupported-regexp " +
		"unsupported-require-call"
	levels := map[string]api.LogLevel{}
	for name := range strings.FieldsSeq(warnings) {
		levels[name] = api.LogLevelSilent
	}
	return levels
}}

// compile removes the types from code. The result is in a normal form: every statement ends in a
// semicolon or a brace, on separate lines, without comments between statements.
//
// In a session unused imports are kept, because later programs may use them.
func compile(code string, how mode) api.TransformResult {
	config := ""
	if how.session {
		config = `{"compilerOptions":{"verbatimModuleSyntax":true}}`
	}
	return api.Transform(code, api.TransformOptions{
		Loader:         how.loader,
		TsconfigRaw:    config,
		Target:         api.ESNext,
		Supported:      map[string]bool{"decorators": false, "using": false}, // what engines lack
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		LegalComments:  api.LegalCommentsNone,
		LogLevel:       api.LogLevelSilent,
		LogOverride:    silent.Get(),
	})
}

// A problem is an error at an offset of the code; at is -1 for the code as a whole. An empty kind
// means "syntax".
type problem struct {
	at      int
	message string
	kind    string
	also    int // offset of a related place, for example the first of two declarations; 0: none
}

// syntaxProblem converts the compiler's first message to a problem in the code that in was made
// from. If brackets don't match, the compiler notices late, often only at the end. In that case the
// bracket itself is reported.
func syntaxProblem(messages []api.Message, in *text, code *tokens) problem {
	p := problem{at: -1, message: "not a program"}
	m := messages[0]
	p.message = strings.TrimSuffix(lowerFirst(m.Text), ":")
	if len(m.Notes) > 0 && m.Notes[0].Location != nil && strings.Contains(m.Text, "already been declared") {
		off := newLineTable(in.s, scriptLines).atByte(m.Notes[0].Location.Line-1, m.Notes[0].Location.Column)
		p.also, _ = in.origin(off)
	}
	if strings.Contains(m.Text, `inside an "async" function`) {
		p.message += ": write async before this function, and await its result (for a list: await " +
			"Promise.all(list.map(async (x) => ...)))"
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
		return problem{at: code.stray, message: "unexpected \"" + code.s[code.stray:code.stray+1] +
			"\": there is no open bracket to close"}
	case code.comment >= 0 && end:
		return problem{at: code.comment, message: "the comment that starts here does not end: \"*/\" is missing"}
	case code.unshut >= 0 && end:
		what := code.s[code.unshut : code.unshut+1]
		return problem{at: code.unshut, message: "unexpected end of the program: the \"" + what +
			"\" that opens here is not closed"}
	}
	return p
}

var (
	jsxTag   = lazily.Regexp(`</[A-Za-z][\w.]*>|</>|<[A-Za-z][^<>]*/>`)
	pythonic = lazily.Regexp(`(?m)^(def \w+\(.*\).*:|from [\w.]+ import |import \w+( as \w+)?$|if __name__ ==|print\()`)
)

// dialect returns a hint if a program that doesn't parse seems to be in an unsupported language, or
// "".
func dialect(t *tokens) string {
	head := t.s[:min(len(t.s), 16<<10)]
	switch {
	case jsxTag.Get().MatchString(head):
		return "JSX is not available here; build strings or objects instead"
	case pythonic.Get().MatchString(head):
		return "this looks like Python: set language to \"python\", or write the program in TypeScript"
	}
	return ""
}

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}
