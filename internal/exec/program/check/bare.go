package check

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// scriptNames are the words and functions that can precede a parenthesis in JavaScript and
// TypeScript without being declared.
var scriptNames = lazily.Words(
	`if for while switch catch function return await typeof void delete new super this in of throw yield
	do else case import require AbortController Array ArrayBuffer BigInt Blob Boolean DataView Date Error Event EventTarget Function
	Map Number Object Promise Proxy RangeError RegExp Set String Symbol SyntaxError TextDecoder TextEncoder TypeError URL
	URLSearchParams WeakMap WeakSet parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent encodeURI decodeURI
	setTimeout clearTimeout setInterval clearInterval setImmediate queueMicrotask structuredClone atob btoa fetch`)

var called = lazily.Regexp(`(?:^|[^\w$.])([A-Za-z_$][\w$]*)[ \t]*\(`)

// mostCalled is the maximum number of names that CallsUndeclared looks for, each in the whole text.
const mostCalled = 200

// CallsUndeclared reports whether a program may call a function that neither it nor its language
// declares: a tool without its upstream. It only scans the text, and may return true by mistake.
func CallsUndeclared(source string) bool {
	seen := map[string]bool{}
	for _, m := range called.Get().FindAllStringSubmatch(source, -1) {
		name := m[1]
		if seen[name] || pythonNames.Has(name) || scriptNames.Has(name) {
			continue
		}
		seen[name] = true
		if len(seen) > mostCalled || !occursOutsideCalls(source, name) {
			return true
		}
	}
	return false
}

// occursOutsideCalls reports whether a name occurs in a program other than in calls, for example in
// a declaration: function f(, def f(, f = ..., { f }.
func occursOutsideCalls(source, name string) bool {
	for at := 0; ; {
		i := strings.Index(source[at:], name)
		if i < 0 {
			return false
		}
		i += at
		at = i + len(name)
		if i > 0 && isNamePart(source[i-1]) || at < len(source) && isNamePart(source[at]) {
			continue
		}
		before, after := strings.TrimRight(source[:i], " \t*"), strings.TrimLeft(source[at:], " \t")
		for _, word := range []string{"function", "def", "class"} {
			if strings.HasSuffix(before, word) {
				return true
			}
		}
		if !strings.HasPrefix(after, "(") {
			return true
		}
	}
}

func isNamePart(c byte) bool {
	return c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
