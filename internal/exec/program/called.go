package program

import (
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// The engine reports the failure of a call at the last name that it evaluated: often in the call's
// arguments, and not at the name of the function.

const (
	maxCalls     = 3  // named in a message
	maxCallLines = 50 // searched before the position
)

var (
	callee = lazily.Regexp(`(?:[\p{L}_$][\p{L}\p{N}_$]*\??\.)*[\p{L}_$][\p{L}\p{N}_$]*$`)
	// notCallees are keywords before a parenthesis that doesn't begin a call's arguments.
	notCallees = lazily.Words("await catch for function if in new of return switch throw typeof void while yield")
	// builtinRoots are globals whose functions exist.
	builtinRoots = lazily.Words("Array BigInt Boolean Date Error Intl JSON Map Math Number Object Promise Reflect " +
		"RegExp Set String Symbol console parseFloat parseInt structuredClone")
)

// CalledAt returns the names of the functions that may have been called when the engine reports a
// position of the agent's text: the name there, and those of the calls around it, from the inside
// out. It returns none if one of them has no name, and leaves out builtins if others remain.
func (p *Program) CalledAt(line, col int) []string {
	before, after, ok := p.textAround(line, col)
	if !ok {
		return nil
	}
	var names []string
	rest := strings.TrimPrefix(nameAfter.Get().ReplaceAllString(after, ""), "?.")
	if strings.HasPrefix(rest, "(") {
		name := p.NameAt(line, col)
		if name == "" {
			return nil
		}
		names = append(names, name)
	}
	around, ok := callsAround(before)
	if !ok {
		return nil
	}
	names = append(names, around...)
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		root, _, _ := strings.Cut(name, ".")
		return builtinRoots.Has(root)
	})
	if len(others) == 0 && len(names) > 0 {
		return names[:1]
	}
	return others[:min(len(others), maxCalls)]
}

// textAround returns the agent's text before a position, from some lines above, and the rest of its
// line.
func (p *Program) textAround(line, col int) (before, after string, ok bool) {
	if p.steps == nil {
		return "", "", false
	}
	p.steps.load()
	if line < 1 || line > len(p.steps.sourceAt.starts) {
		return "", "", false
	}
	text := []rune(p.steps.sourceAt.text(line - 1))
	if col < 1 || col > len(text) {
		return "", "", false
	}
	var b strings.Builder
	for i := max(0, line-1-maxCallLines); i < line-1; i++ {
		above, _, _ := strings.Cut(p.steps.sourceAt.text(i), " //") // without a comment
		b.WriteString(strings.TrimSuffix(above, "\n") + "\n")
	}
	b.WriteString(string(text[:col-1]))
	return b.String(), string(text[col-1:]), true
}

// callsAround returns the names of the calls that enclose the end of the text, from the inside out,
// up to the enclosing function. It reports false if one of them has no name.
func callsAround(text string) (names []string, ok bool) {
	depth := 0
	for i := len(text) - 1; i >= 0; i-- {
		switch c := text[i]; c {
		case '"', '\'', '`':
			if i = strings.LastIndexByte(text[:i], c); i < 0 {
				return names, true
			}
		case ')', ']', '}':
			depth++
		case '(', '[', '{':
			if depth > 0 {
				depth--
				continue
			}
			if c == '{' { // of a function, or a block
				return names, true
			}
			if c == '[' {
				continue
			}
			name, isCall := calleeBefore(text[:i])
			if isCall && name == "" {
				return nil, false
			}
			if isCall {
				names = append(names, name)
			}
		case ';':
			if depth == 0 {
				return names, true
			}
		case '>':
			if depth == 0 && i > 0 && text[i-1] == '=' { // an arrow function
				return names, true
			}
		}
	}
	return names, true
}

// calleeBefore reports whether a parenthesis after the text begins a call's arguments. It returns
// the name of the function, or "" if that has no name.
func calleeBefore(text string) (name string, isCall bool) {
	text = strings.TrimSuffix(text, "?.")
	if name = callee.Get().FindString(text); name != "" {
		rest := strings.TrimSuffix(text, name)
		if strings.HasSuffix(rest, ".") || len(name) > maxName {
			return "", true
		}
		return name, !notCallees.Has(name)
	}
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	return "", strings.HasSuffix(text, ")") || strings.HasSuffix(text, "]")
}
