package typegen

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/biplane-dev/biplane/internal/lazily"
)

// pyKeywords can't be names in Python (3.13, section 2.3.1).
var pyKeywords = lazily.Words(`False None True __debug__ and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// pyTypes are the names that stubs use for types, so nothing else may hide them.
var pyTypes = lazily.Words(`str int float bool list dict Any Literal Never NotRequired TypeAlias TypedDict`)

// isPyName says whether s is a name in Python that Python reads as it is written (it composes names by NFKC).
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
	return s != "" && !pyKeywords()[s] && norm.NFKC.IsNormalString(s)
}

// pyName gives the name of a member of a namespace in Python, "" where Python has none for it.
func pyName(member string) string {
	if !isPyName(member) || member == "_builtins" || member == "_typing" {
		return ""
	}
	return member
}

// pyParameter gives the keyword of an argument, which is its name, with "_" behind it where that is a word of the
// language; "" where Python has none for it.
func pyParameter(name string) string {
	switch base, under := strings.CutSuffix(name, "_"); {
	case pyKeywords()[name]:
		return name + "_"
	case under && pyKeywords()[base], !isPyName(name), name == "_extra":
		return ""
	}
	return name
}

// pyQuote writes a string literal of one line. Whatever could end it, reorder it or hide in it is escaped.
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

// plain makes text safe to stand in a comment or a docstring: newlines stay, every other control character goes, and
// those that reorder a line.
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

// pyDoc writes a docstring, indented.
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

// pyComment writes a comment of one line, which says nothing to type checkers.
func pyComment(text string) string {
	text = strings.Join(strings.Fields(plain(text)), " ")
	head, _, _ := strings.Cut(strings.ToLower(text), " ")
	if strings.Contains(head, ":") || head == "noqa" {
		text = "- " + text
	}
	return "# " + text
}

// pyString gives the text of a string literal of ours (quote).
func pyString(literal string) string {
	var s string
	if json.Unmarshal([]byte(literal), &s) != nil {
		return literal
	}
	return s
}

// pyValue writes a value as Python does.
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
