package console

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A span is a part of a line of a program, with the class of its colour.
type span struct{ Class, Text string }

// A codeLine is a line of a program, with the calls that it may have made.
type codeLine struct {
	N      int
	Spans  []span
	Calls  []*callRow
	Failed bool // the program's error is at this line
	Now    bool // the step that is shown is at this line
}

// Limits of what a page shows of a program.
const (
	maxLines    = 5000
	maxColoured = 256 << 10 // bytes
)

var keywords = map[string]string{
	"typescript": " as async await break case catch class const continue default delete do else export extends false " +
		"finally for from function if import in instanceof interface let new null of return static super switch this " +
		"throw true try type typeof undefined var void while yield ",
	"python": " and as assert async await break class continue def del elif else except False finally for from " +
		"global if import in is lambda None nonlocal not or pass raise return True try while with yield ",
	"bash": " case do done elif else esac exit export fi for function if in local return set then until while ",
}

// colourProgram splits a program into lines, and its lines into spans. It reports whether lines
// were left out. It knows comments, strings, numbers and keywords: enough to read by, and never
// wrong about the text itself.
func colourProgram(program, language string) (lines []*codeLine, cut bool) {
	if keywords[language] == "" {
		language = "typescript"
	}
	state := "" // the delimiter of a string or comment that continues on the next line
	if cut = len(program) > maxColoured; cut {
		program = strings.ToValidUTF8(program[:maxColoured], "")
	}
	program = strings.TrimSuffix(strings.ReplaceAll(program, "\r\n", "\n"), "\n")
	for n, text := range strings.Split(program, "\n") {
		if n == maxLines {
			return lines, true
		}
		l := &codeLine{N: n + 1}
		state = l.addSpans(tool.Visible([]byte(text)), language, state)
		lines = append(lines, l)
	}
	return lines, cut
}

// addSpans adds the spans of a line, and returns the delimiter of a string or comment that is open
// at its end.
func (l *codeLine) addSpans(text, language, open string) string {
	begun := 0 // start of the last span
	for at := 0; at < len(text); {
		var class, part string
		switch {
		case open != "":
			part, open = takeUntil(text[at:], open)
			if class = "s"; open == "*/" || strings.HasSuffix(part, "*/") {
				class = "c"
			}
		default:
			class, part, open = nextSpan(text[at:], language)
		}
		end := at + len(part)
		if k := len(l.Spans) - 1; k >= 0 && l.Spans[k].Class == class {
			l.Spans[k].Text = text[begun:end]
		} else {
			begun = at
			l.Spans = append(l.Spans, span{class, part})
		}
		at = end
	}
	return open
}

// nextSpan returns the span that text begins with, and the delimiter that it waits for, if any. The
// span is not empty.
func nextSpan(text, language string) (class, part, open string) {
	comment := "//"
	if language != "typescript" {
		comment = "#"
	}
	for _, quotes := range []string{`"""`, `'''`} {
		if language == "python" && strings.HasPrefix(text, quotes) {
			part, open = takeUntil(text[3:], quotes)
			return "s", quotes + part, open
		}
	}
	switch c, size := utf8.DecodeRuneInString(text); {
	case strings.HasPrefix(text, comment):
		return "c", text, ""
	case language == "typescript" && strings.HasPrefix(text, "/*"):
		part, open = takeUntil(text[2:], "*/")
		return "c", "/*" + part, open
	case c == '"' || c == '\'' || c == '`' && language == "typescript":
		part, open = takeUntil(text[1:], string(c))
		if c != '`' { // only templates go on in the next line
			open = ""
		}
		return "s", string(c) + part, open
	case isWordRune(c):
		end := strings.IndexFunc(text, func(r rune) bool { return !isWordRune(r) })
		if end < 0 {
			end = len(text)
		}
		part = text[:end]
		switch {
		case unicode.IsDigit(c):
			return "n", part, ""
		case strings.Contains(keywords[language], " "+part+" "):
			return "k", part, ""
		}
		return "", part, ""
	default:
		end := strings.IndexFunc(text[size:], func(r rune) bool {
			return isWordRune(r) || strings.ContainsRune("\"'`/#", r)
		})
		if end < 0 {
			return "", text, ""
		}
		return "", text[:size+end], ""
	}
}

func isWordRune(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// takeUntil returns text up to and including the next delimiter that no backslash escapes. If there
// is none, it returns all of the text and the delimiter.
func takeUntil(text, delimiter string) (part, open string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && delimiter != "*/" {
			i++
			continue
		}
		if strings.HasPrefix(text[i:], delimiter) {
			return text[:i+len(delimiter)], ""
		}
	}
	return text, delimiter
}

// placeCalls puts each call beside its line, if a replay has found it, or the first line that names
// its tool. The journal doesn't have the lines of calls, so that line is a guess if further lines
// name the tool, or none its full path. It returns the calls whose tool no line names.
func placeCalls(lines []*codeLine, calls []*callRow) (elsewhere []*callRow) {
	type naming struct {
		lines []*codeLine
		guess bool
	}
	at := map[string]naming{} // by tool
	codes := codeOf(lines)
	for _, c := range calls {
		if n := c.ExecutionCall.Line; n > 0 && n <= len(lines) {
			c.Line = n
			lines[n-1].Calls = append(lines[n-1].Calls, c)
			continue
		}
		found, known := at[c.Tool]
		for _, name := range toolNames(c.Tool) {
			if known || len(found.lines) > 0 {
				break
			}
			found.lines = linesOf(lines, codes, name)
			found.guess = len(found.lines) > 1 || name != c.Tool
		}
		if at[c.Tool] = found; len(found.lines) == 0 {
			elsewhere = append(elsewhere, c)
			continue
		}
		first := found.lines[0]
		c.Line, c.Guess = first.N, found.guess
		for _, l := range found.lines[1:] {
			c.Others = append(c.Others, l.N)
		}
		first.Calls = append(first.Calls, c)
	}
	return elsewhere
}

// toolNames returns the names by which a program may have called a tool, most likely first.
func toolNames(path string) []string {
	last := path[strings.LastIndexByte(path, '.')+1:]
	return []string{path, strings.ReplaceAll(path, "_", "."), "." + last,
		"." + last[strings.LastIndexByte(last, '_')+1:]}
}

// maxNamed is how many lines that name a tool are found.
const maxNamed = 10

// codeOf returns the texts of lines outside comments.
func codeOf(lines []*codeLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		var b strings.Builder
		for _, s := range l.Spans {
			if s.Class != "c" {
				b.WriteString(s.Text)
			}
		}
		out[i] = b.String()
	}
	return out
}

// linesOf returns the lines that name a tool in their code.
func linesOf(lines []*codeLine, codes []string, path string) (found []*codeLine) {
	path = tool.VisibleLine(path)
	for i, code := range codes {
		if namesTool(code, path) {
			if found = append(found, lines[i]); len(found) == maxNamed {
				break
			}
		}
	}
	return found
}

// namesTool reports whether text contains path as a whole name.
func namesTool(text, path string) bool {
	if path == "" {
		return false
	}
	for {
		i := strings.Index(text, path)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		begins := i == 0 || path[0] == '.' || !isWordRune(before)
		text = text[i+len(path):]
		if after, _ := utf8.DecodeRuneInString(text); begins && (text == "" || !isWordRune(after)) {
			return true
		}
	}
}

// markError marks the line of the program's error.
func markError(lines []*codeLine, e *api.ProgramError) {
	if e != nil && e.Line > 0 && e.Line <= len(lines) {
		lines[e.Line-1].Failed = true
	}
}
