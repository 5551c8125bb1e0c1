package typegen

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// pyKeywords can't be names in Python (3.13, section 2.3.1).
var pyKeywords = lazily.Words(
	`False None True __debug__ and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// pyTypes are the names of types in stubs. No other name may shadow them.
var pyTypes = lazily.Words(`str int float bool list dict Any Literal Never NotRequired TypeAlias TypedDict`)

// isPyName reports whether s is a Python name that Python doesn't change (it normalizes names by
// NFKC).
func isPyName(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && '0' <= r && r <= '9':
		case r >= utf8.RuneSelf && unicode.IsLetter(r) && unicode.IsPrint(r) && r <= 0xFFFF:
		default:
			return false
		}
	}
	return s != "" && !pyKeywords.Has(s) && norm.NFKC.IsNormalString(s)
}

// pyName returns the Python name of a member of a namespace, or "" if it can't have one.
func pyName(member string) string {
	if !isPyName(member) || member == "_builtins" || member == "_typing" {
		return ""
	}
	return member
}

// pyParameter returns the keyword of an argument: its name, with "_" appended if it is a Python
// keyword. It returns "" if the name can't be a Python name.
func pyParameter(name string) string {
	switch base, under := strings.CutSuffix(name, "_"); {
	case pyKeywords.Has(name):
		return name + "_"
	case under && pyKeywords.Has(base), !isPyName(name), name == "_extra":
		return ""
	}
	return name
}

// pyQuote returns a string literal on one line. Characters that could end it, reorder it or be
// invisible are escaped.
func pyQuote(s string) string {
	return literal(s, func(r rune) string {
		switch {
		case r > 0xFFFF:
			return fmt.Sprintf(`\U%08x`, r)
		case r > 0x7f:
			return fmt.Sprintf(`\u%04x`, r)
		}
		return fmt.Sprintf(`\x%02x`, r)
	})
}

// plain makes text safe in a comment or a docstring. Newlines stay; all other control characters
// are removed, including the ones that reorder a line.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', r == 0x2028, r == 0x2029, r == 0x85:
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
}

// pyDoc returns an indented docstring.
func pyDoc(lines []string, indent string) string {
	text := strings.TrimSpace(plain(strings.Join(lines, "\n")))
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"""`, `\"\"\"`)
	if strings.HasSuffix(text, `"`) {
		text = text[:len(text)-1] + `\"`
	}
	rows := strings.Split(text, "\n")
	for i, r := range rows {
		if r = strings.TrimRight(r, " "); i > 0 && r != "" {
			r = indent + r
		}
		rows[i] = r
	}
	if len(rows) > 1 {
		rows = append(rows, indent)
	}
	return indent + `"""` + strings.Join(rows, "\n") + "\"\"\"\n"
}

// pyComment returns a one-line comment that type checkers don't interpret.
func pyComment(text string) string {
	text = strings.Join(strings.Fields(plain(text)), " ")
	head, _, _ := strings.Cut(strings.ToLower(text), " ")
	if strings.Contains(head, ":") || head == "noqa" {
		text = "- " + text
	}
	return "# " + text
}

// pyString returns the text of a string literal made by quote.
func pyString(literal string) string {
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil {
		return literal
	}
	return s
}

// pyValue returns a value as a Python literal.
func pyValue(n *node) string {
	switch n.kind {
	case jNull:
		return "None"
	case jBool:
		if n.b {
			return "True"
		}
		return "False"
	case jNumber:
		return n.s
	case jString:
		return pyQuote(n.s)
	case jArray:
		parts := make([]string, len(n.vals))
		for i, v := range n.vals {
			parts[i] = pyValue(v)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	parts := make([]string, len(n.vals))
	for i, v := range n.vals {
		parts[i] = pyQuote(n.keys[i]) + ": " + pyValue(v)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
