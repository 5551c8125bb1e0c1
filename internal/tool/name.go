package tool

import (
	"strings"
	"unicode"
)

// Snake returns the canonical spelling of a name: create_issue for create-issue, createIssue and
// Create.Issue. It doesn't split words without separators.
func Snake(name string) string { return snake(name, false) }

// SnakePattern is like Snake, for a path or a pattern of paths: it keeps dots and stars.
func SnakePattern(p string) string { return snake(p, true) }

func snake(name string, pattern bool) string {
	var b strings.Builder
	runes := []rune(name)
	last := rune(0)
	put := func(r rune) {
		if r != '_' || last != '_' {
			b.WriteRune(r)
		}
		last = r
	}
	for i, r := range runes {
		switch {
		case pattern && (r == '.' || r == '*'):
			put(r)
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			put('_')
		default:
			if i > 0 && unicode.IsUpper(r) {
				before := runes[i-1]
				ends := i+1 < len(runes) && unicode.IsUpper(before) && unicode.IsLower(runes[i+1]) // HTTPServer
				if unicode.IsLower(before) || unicode.IsDigit(before) || ends {
					put('_')
				}
			}
			put(unicode.ToLower(r))
		}
	}
	return b.String()
}

// IsNamed reports whether a name in a configuration refers to the tool: by its own name, as
// programs write it, in another spelling, or prefixed by its upstream.
func (t *Tool) IsNamed(name string) bool {
	if name == t.Name || name == t.Path() {
		return true
	}
	s, own := Snake(name), Snake(t.Name)
	return s == own || s == own+"_" || s == Snake(t.Upstream)+"_"+own
}

// Spellings returns the tool's path in the forms that patterns may use: exactly, and as
// SnakePattern writes it, with and without dots in the tool's own name.
func (t *Tool) Spellings() []string {
	upstream := Snake(t.Upstream) + "."
	return []string{t.Path(), upstream + Snake(t.Name), upstream + SnakePattern(t.Name)}
}
