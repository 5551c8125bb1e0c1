package program

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Error explains why a program can't be run, so that the agent can correct it.
type Error struct {
	// Kind is "syntax", "check" (doesn't match the catalog), "limit" (too large, too deep),
	// "language" or "empty".
	Kind    string
	Message string   // the problem and how to fix it
	Line    int      // in the agent's text, from 1; 0 if the error is about the whole text
	Column  int      // in characters, from 1
	Frame   string   // the surrounding lines, with a caret; "" if Line is 0
	More    []*Error // further errors, in the order of the text
	// Attempts are paths of tools that a rejected program calls but its principal can't see.
	Attempts []string
}

// Error returns the full text for the agent: message, position and frame of this error and of More.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range append([]*Error{e}, e.More...) {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p.Message)
		if p.Line > 0 {
			fmt.Fprintf(&b, " (line %d, column %d)", p.Line, p.Column)
		}
		if p.Frame != "" {
			b.WriteString("\n" + p.Frame)
		}
	}
	return b.String()
}

const (
	frameAround = 2   // lines shown before and after
	frameWidth  = 120 // characters of a line shown
)

// frame returns the lines around a position (from 1), with a caret. Long lines are cut to the part
// near the caret.
func frame(lines *lineTable, line, col int) string {
	if line < 1 || line > len(lines.starts) {
		return ""
	}
	col = min(col, utf8.RuneCountInString(lines.text(line-1))+1)
	first, last := max(1, line-frameAround), min(len(lines.starts), line+frameAround)
	for last > line && strings.TrimSpace(lines.text(last-1)) == "" {
		last--
	}
	for first < line && strings.TrimSpace(lines.text(first-1)) == "" {
		first++
	}
	from := 0 // first character shown
	if col > frameWidth*3/4 {
		from = col - frameWidth/2
	}
	width := len(fmt.Sprint(last))
	var b strings.Builder
	for n := first; n <= last; n++ {
		mark := " "
		if n == line {
			mark = ">"
		}
		shown := window(lines.text(n-1), from)
		fmt.Fprintf(&b, "%s %*d | %s\n", mark, width, n, shown)
		if n == line {
			fmt.Fprintf(&b, "  %*s | %s^\n", width, "", indent(lines.text(n-1), from, col))
		}
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), " \n", "\n")
}

// window returns the part of s that is shown if the first from characters are cut.
func window(s string, from int) string {
	head := ""
	if from > 0 {
		s, head = dropRunes(s, from), "…"
	}
	if n := runeOffset(s, frameWidth); n < len(s) {
		s = s[:n] + "…"
	}
	if s == "" {
		return ""
	}
	return head + s
}

// indent returns the white space before a caret below a column of a line cut by window. Tabs stay
// tabs.
func indent(s string, from, col int) string {
	var b strings.Builder
	if from > 0 {
		s = dropRunes(s, from)
		b.WriteByte(' ')
	}
	n := 0
	for _, r := range s {
		if n++; n >= col-from {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func dropRunes(s string, n int) string { return s[runeOffset(s, n):] }

// runeOffset returns the offset of the n-th character of s, or len(s).
func runeOffset(s string, n int) int {
	off := 0
	for ; n > 0 && off < len(s); n-- {
		_, w := utf8.DecodeRuneInString(s[off:])
		off += w
	}
	return off
}
