package program

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// languages maps the names of languages, after a Markdown fence or in execute's argument, to the
// language that runs; "" means none.
var languages = lazily.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"ts": "typescript", "typescript": "typescript", "tsx": "typescript", "mts": "typescript", "cts": "typescript",
		"deno": "typescript",
		"js":   "javascript", "javascript": "javascript", "jsx": "javascript", "mjs": "javascript", "cjs": "javascript",
		"node": "javascript", "nodejs": "javascript", "ecmascript": "javascript",
		"py": "python", "python": "python", "python3": "python", "py3": "python", "ipython": "python",
		"pycon": "python",
		"bash":  "bash", "sh": "bash", "shell": "bash",
		"go": "go", "golang": "go", "rust": "rust", "rs": "rust", "java": "java",
	}
}}

// isScript reports whether a language is TypeScript or JavaScript.
func isScript(language string) bool { return language == "typescript" || language == "javascript" }

// A block is the code of one Markdown fence: source[from:to].
type block struct {
	from, to int
	info     string // first word after the fence, in lower case
	at       int    // offset of the fence
}

// unwrap extracts the program from the Markdown around it. A text without fences outside strings
// and comments is returned unchanged. If naive is set, every line that looks like a fence is one,
// even if the text doesn't scan as code.
func unwrap(source string, naive bool) (*text, *Error) {
	b := &textBuilder{parent: source}
	from := 0
	if strings.HasPrefix(source, byteOrderMark) {
		from = len(byteOrderMark)
	}
	var blocks []block
	if strings.Contains(source, "```") || strings.Contains(source, "~~~") {
		how := inScript
		if naive {
			how = inProse
		}
		blocks = findBlocks(source, how)
	}
	if len(blocks) == 0 {
		b.keep(from+leadingLanguage(source[from:]), len(source))
		return b.text(), nil
	}
	picked := pickBlocks(blocks, "")
	if len(picked) == 0 {
		line, col := newLineTable(source, plainLines).position(blocks[0].at)
		return nil, &Error{Kind: "language", Line: line, Column: col,
			Message: "the text contains a block of " + blocks[0].info +
				", but not TypeScript or JavaScript: write the program in one of these"}
	}
	for _, k := range picked {
		b.keep(k.from, k.to)
		b.add("\n", k.to)
	}
	return b.text(), nil
}

// leadingLanguage returns the length of a first line that consists only of the name of a language,
// which remains if a fence got lost.
func leadingLanguage(s string) int {
	line, _, found := strings.Cut(s, "\n")
	if l := languages.Get()[strings.TrimSpace(line)]; found && isScript(l) {
		return len(line)
	}
	return 0
}

// pickBlocks returns the blocks that form the program: all that are marked with the language
// (Python or bash, or else TypeScript or JavaScript). If there are none, it returns all unmarked
// blocks.
func pickBlocks(blocks []block, language string) []block {
	var named, bare []block
	for _, k := range blocks {
		if l := languages.Get()[k.info]; l != "" && (l == language || language == "" && isScript(l)) {
			named = append(named, k)
		} else if k.info == "" {
			bare = append(bare, k)
		}
	}
	if len(named) > 0 {
		return named
	}
	return bare
}

// maxBlocks is the number of blocks that are distinguished from template strings. Each requires a
// scan of the rest.
const maxBlocks = 16

// How to find strings and comments, in which a line is not a fence.
const (
	inScript = iota
	inPython
	inProse // every line that looks like a fence is one
)

// findBlocks returns the fenced blocks of source.
func findBlocks(source string, how int) []block {
	var tok *tokens
	var strs []span
	base := 0 // where tok and strs begin in source
	rescan := func(from int, n int) {
		if n > maxBlocks {
			how = inProse
		}
		switch base = from; how {
		case inScript:
			tok = scan(source[from:])
		case inPython:
			strs = triples(source[from:])
		}
	}
	isCode := func(at int) bool {
		return how == inProse || how == inScript && tok.at(at-base) >= 0 || how == inPython && !inAnySpan(strs, at-base)
	}
	rescan(0, 0)
	var out []block
	var cur *block
	var mark string
	for lo := 0; lo < len(source); {
		hi := lo + lineEndLF(source[lo:])
		m, info, at := fenceLine(source, lo, hi)
		switch {
		case m == "":
		case cur == nil && isCode(at):
			b := block{from: hi, to: len(source), info: info, at: at}
			mark = m
			if one, ok := oneLine(source, at, hi, m); ok {
				out = append(out, one)
				break
			}
			cur = &b
			rescan(hi, len(out))
		case cur != nil && info == "" && strings.HasPrefix(m, mark) && isCode(at):
			cur.to = lo
			out = append(out, *cur)
			cur = nil
			rescan(hi, len(out))
		}
		lo = hi
	}
	if cur != nil { // cut off, or closed after code on the same line
		rest := strings.TrimRight(source[cur.from:], " \t\r\n")
		cur.to = cur.from + len(strings.TrimSuffix(rest, mark))
		out = append(out, *cur)
	}
	return out
}

func lineEndLF(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i + 1
	}
	return len(s)
}

// fenceLine parses the line source[lo:hi] if it is a Markdown fence. It returns the mark (``` or
// ~~~, or longer), the first word after it, and the offset of the mark.
func fenceLine(source string, lo, hi int) (mark, info string, at int) {
	line := source[lo:hi]
	trimmed := strings.TrimLeft(line, " \t")
	at = lo + len(line) - len(trimmed)
	if !strings.HasPrefix(trimmed, "```") && !strings.HasPrefix(trimmed, "~~~") {
		return "", "", 0
	}
	rest := strings.TrimLeft(trimmed, trimmed[:1])
	mark = trimmed[:len(trimmed)-len(rest)]
	if f := strings.Fields(rest); len(f) > 0 {
		info = strings.ToLower(strings.Trim(f[0], "{}."))
		if w := strings.FieldsFunc(info, func(r rune) bool { return r == ',' || r == ':' || r == '{' }); len(w) > 0 {
			info = w[0]
		}
	}
	if mark[0] == '~' && info != "" && languages.Get()[info] == "" {
		return "", "", 0
	}
	return mark, info, at
}

// oneLine parses a fence that starts and ends on one line: ```ts await x()```.
func oneLine(source string, at, hi int, mark string) (block, bool) {
	from, to := at+len(mark), at+len(strings.TrimRight(source[at:hi], " \t\r\n"))
	if to-from <= len(mark) || !strings.HasSuffix(source[from:to], mark) {
		return block{}, false
	}
	b := block{from: from, to: to - len(mark), at: at}
	body := source[b.from:b.to]
	w := body[:len(body)-len(strings.TrimLeft(body, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
	if l := strings.ToLower(w); languages.Get()[l] != "" && len(w) < len(body) && body[len(w)] == ' ' {
		b.info, b.from = l, b.from+len(w)
	}
	return b, true
}
