package typegen

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// reservedWords can't be names of bindings in a module (ECMA-262, 12.7.2, strict mode).
var reservedWords = lazily.Words(
	`arguments await break case catch class const continue debugger default delete do else enum eval
	export extends false finally for function if implements import in instanceof interface let new null package private
	protected public return static super switch this throw true try typeof var void while with yield undefined NaN Infinity`)

// takenNames are names that generated files use. No other declaration may have one of them.
var takenNames = lazily.Words(
	`callTool search emit readResult tools globalThis Promise Array Record ToolError any unknown never string number
	boolean bigint object symbol void null undefined Symbol Object Function String Number Boolean BigInt Error require
	exports module async of get set type as from`)

// isIdentifier reports whether s can be a property name without quotes.
func isIdentifier(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', r == '$', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && '0' <= r && r <= '9':
		case r >= utf8.RuneSelf && unicode.IsLetter(r) && unicode.IsPrint(r) && r <= 0xFFFF:
		default:
			return false
		}
	}
	return s != ""
}

// isBinding reports whether s can name a function in a generated module.
func isBinding(s string) bool { return isIdentifier(s) && !reservedWords.Has(s) && !takenNames.Has(s) }

// pascal converts text to a type name: "list-issues" becomes "ListIssues". It returns "" if nothing
// is left.
func pascal(s string) string {
	var b strings.Builder
	up := true
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' && b.Len() > 0:
			if up && 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			b.WriteRune(r)
			up = false
		default:
			up = true
		}
		if b.Len() >= 60 {
			break
		}
	}
	return b.String()
}

// propertyName returns s as a property name in a type or an object literal.
func propertyName(s string) string {
	if isIdentifier(s) {
		return s
	}
	return quote(s)
}

// quote returns a string literal. Characters that could end it, reorder it or be invisible are
// escaped.
func quote(s string) string {
	return literal(s, func(r rune) string {
		if r > 0xFFFF {
			r -= 0x10000
			return fmt.Sprintf(`\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// literal returns a string literal on one line; escape encodes non-printable characters.
func literal(s string, escape func(rune) string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r > 0x7f && !unicode.IsPrint(r):
			b.WriteString(escape(r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// numberLiteral returns a JSON number as a literal type; ok is false if a JavaScript number can't
// hold it.
func numberLiteral(s string) (text string, ok bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return "", false
	}
	if f == 0 {
		return "0", true
	}
	if f == math.Trunc(f) {
		if math.Abs(f) > 1<<53 {
			return "", false
		}
		return strconv.FormatFloat(f, 'f', -1, 64), true
	}
	return strconv.FormatFloat(f, 'g', -1, 64), true
}

// comment makes text safe inside /* */. The text can't end the comment, reorder the line (Unicode's
// bidirectional controls) or contain compiler directives. Newlines stay, and all other control
// characters are removed.
func comment(s string) string {
	if !strings.ContainsFunc(s, needsCare) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case r == '\r':
		case r == '\t', r == 0x2028, r == 0x2029, r == 0x85:
			b.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
		default:
			b.WriteRune(r)
		}
	}
	t := b.String()
	t = strings.ReplaceAll(t, "*/", "*\\/")
	for _, p := range []string{"@ts-", "@jsx", "@amd-"} {
		t = replaceFold(t, p, "@ "+p[1:])
	}
	return t
}

// needsCare reports whether comment may have to change a text with r.
func needsCare(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f || r == '*' || r == '@' }

// replaceFold is strings.ReplaceAll for an ASCII old, ignoring case.
func replaceFold(s, old, new string) string {
	if !strings.Contains(s, old[:1]) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if len(s)-i >= len(old) && strings.EqualFold(s[i:i+len(old)], old) {
			b.WriteString(new)
			i += len(old)
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// oneLine returns s as a single line of at most limit runes (0: no limit) that is safe in a
// comment.
func oneLine(s string, limit int) string {
	if len(s) > 16*1024 {
		s = s[:16*1024]
	}
	var b strings.Builder
	runes := 0
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		word = comment(word)
		b.WriteString(word)
		if runes += utf8.RuneCountInString(word) + 1; limit > 0 && runes > limit+1 {
			break // cut needs no more
		}
	}
	return cut(b.String(), limit)
}

// cut shortens s to at most limit runes, preferably at the end of a sentence or word, and marks the
// cut.
func cut(s string, limit int) string {
	if limit <= 0 || utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)[:limit-1]
	t := string(r)
	if i := strings.LastIndex(t, ". "); i > len(t)/2 {
		return t[:i+1]
	}
	if i := strings.LastIndexByte(t, ' '); i > len(t)*2/3 {
		t = t[:i]
	}
	return strings.TrimRight(t, " ,;:*\\") + "…"
}
