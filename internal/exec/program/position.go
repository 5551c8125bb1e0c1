package program

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// FileName is the name to run a program under (sandbox.Run.Name), by which Locate finds it in stack
// traces.
const FileName = "program.js"

// steps are the stages from the agent's text to the code that runs, each made from the one before:
// source -> code (fences, entities) -> input (exports, wrapper) -> output (compiled) -> final.
type steps struct {
	source string
	code   *text  // from source
	input  *text  // from code.s
	output string // from input.s, by the compiler
	srcMap []byte // source map of the compiler: output to input
	final  *text  // from output

	once      sync.Once
	segments  [][]segment // by line of output
	finalAt   *lineTable
	outputAt  *lineTable
	inputAt   *lineTable
	sourceAt  *lineTable
	badSrcMap bool
}

// A segment maps a column of output to a position in input. All numbers start at 0; columns are in
// UTF-16 units.
type segment struct{ col, line, srcCol int }

// load computes the data for positions, which most programs never need.
func (s *steps) load() {
	s.once.Do(func() {
		s.finalAt = newLineTable(s.final.s, engineLines)
		s.outputAt = newLineTable(s.output, scriptLines)
		s.inputAt = newLineTable(s.input.s, scriptLines)
		s.sourceAt = newLineTable(s.source, plainLines)
		var m struct {
			Mappings string `json:"mappings"`
		}
		if json.Unmarshal(s.srcMap, &m) != nil {
			s.badSrcMap = true
			return
		}
		s.segments = decodeMappings(m.Mappings)
	})
}

// SourceOffset maps an offset in the final code to one in the agent's text.
func (s *steps) SourceOffset(off int) (int, bool) {
	out, ok := s.final.origin(off)
	if !ok && out < 0 {
		return 0, false
	}
	in, ok := s.inputOf(out)
	if !ok {
		return 0, false
	}
	code, ok := s.input.origin(in)
	if !ok {
		return 0, false
	}
	src, ok := s.code.origin(code)
	return src, ok || src >= 0
}

// inputOf maps an offset by the compiler's source map, using the nearest segment at or before it.
func (s *steps) inputOf(off int) (int, bool) {
	s.load()
	line, col := s.outputAt.utf16(min(off, len(s.output)))
	if line >= len(s.segments) {
		return 0, false
	}
	list := s.segments[line]
	i := sort.Search(len(list), func(i int) bool { return list[i].col > col }) - 1
	if i < 0 {
		return 0, false
	}
	in := s.inputAt.atUTF16(list[i].line, list[i].srcCol)
	return in, in >= 0
}

// Position maps a position in Code to one in the agent's text. All numbers start at 1; genCol
// counts bytes, as QuickJS does, and col counts characters. ok is false for code that has no
// position in the text.
func (p *Program) Position(genLine, genCol int) (line, col int, ok bool) {
	if p.steps == nil {
		return 0, 0, false
	}
	genLine -= p.lead
	for _, m := range p.modules {
		genLine -= m.lines
	}
	return p.steps.position(genLine, genCol)
}

// position maps a position in the final code to one in the source.
func (s *steps) position(genLine, genCol int) (line, col int, ok bool) {
	s.load()
	off := s.finalAt.atByte(genLine-1, max(genCol, 1)-1)
	if off < 0 {
		return 0, 0, false
	}
	// If the engine knows only the line, it reports the first column. Use the first token instead.
	code := s.final.s
	if lead := s.finalAt.starts[genLine-1]; strings.TrimLeft(code[lead:off], " \t") == "" {
		off += len(code[off:]) - len(strings.TrimLeft(code[off:], " \t"))
	}
	src, ok := s.SourceOffset(off)
	if !ok {
		return 0, 0, false
	}
	line, col = s.sourceAt.position(src)
	return line, col, true
}

// stackPlace matches a position of the program in a frame of a stack trace: "at boom
// (program.js:3:34)".
var stackPlace = lazily.Regexp(`program\.js:(\d{1,9})(?::(\d{1,9}))?`)

// Locate returns the position in the agent's text of the innermost frame of an engine's stack trace
// that has one.
func (p *Program) Locate(stack string) (line, col int, ok bool) {
	if p.traced != nil {
		return p.traced.locate(stack)
	}
	for _, m := range stackPlace.Get().FindAllStringSubmatch(stack, 200) {
		l, _ := strconv.Atoi(m[1])
		c, _ := strconv.Atoi(m[2])
		if line, col, ok = p.Position(l, c); ok {
			return line, col, true
		}
	}
	return 0, 0, false
}

// Frame returns the lines of the agent's text around a position, with a caret. It returns "" if
// there is no such position.
func (p *Program) Frame(line, col int) string {
	switch {
	case p.traced != nil:
		return frame(p.traced.source, line, col)
	case p.steps == nil:
		return ""
	}
	p.steps.load()
	return frame(p.steps.sourceAt, line, col)
}

// dottedBefore matches names followed by dots at the end of a text, and nameAfter a name at its
// start.
var (
	dottedBefore = lazily.Regexp(`(?:[\p{L}_$][\p{L}\p{N}_$]*\??\.)*$`)
	nameAfter    = lazily.Regexp(`^[#\p{L}_$][\p{L}\p{N}_$]*`)
)

// NameAt returns the name at a position of the agent's text, with the names and dots before it:
// "r.items.map" at map. It returns "" if there is none, or if the expression is more than a name.
func (p *Program) NameAt(line, col int) string {
	if p.steps == nil {
		return ""
	}
	p.steps.load()
	if line < 1 || line > len(p.steps.sourceAt.starts) {
		return ""
	}
	text := []rune(p.steps.sourceAt.text(line - 1))
	if col < 1 || col > len(text) {
		return ""
	}
	before, name := string(text[:col-1]), nameAfter.Get().FindString(string(text[col-1:]))
	chain := dottedBefore.Get().FindString(before)
	if rest := strings.TrimSuffix(before, chain); name == "" || len(chain)+len(name) > maxName ||
		strings.HasSuffix(rest, ".") || strings.HasSuffix(rest, "]") || strings.HasSuffix(rest, ")") {
		return ""
	}
	return chain + name
}

// maxName is the maximum length in bytes of the result of NameAt.
const maxName = 100

// decodeMappings decodes the mappings of a source map (ECMA-426, 8): lines are separated by ';',
// segments by ','. A segment has one, four or five numbers in base64 VLQ, relative to those of the
// segment before.
func decodeMappings(s string) [][]segment {
	var lines [][]segment
	var cur []segment
	var line, srcCol int
	for _, l := range strings.Split(s, ";") {
		cur = nil
		col := 0
		for _, seg := range strings.Split(l, ",") {
			v, n := segmentNumbers(seg)
			if n == 0 {
				continue
			}
			col += v[0]
			if n < 4 {
				continue
			}
			line, srcCol = line+v[2], srcCol+v[3]
			cur = append(cur, segment{col, line, srcCol})
		}
		lines = append(lines, cur)
	}
	return lines
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// vlq decodes one number, and returns the rest.
func vlq(s string) (v int, rest string, ok bool) {
	for i, shift := 0, 0; i < len(s) && shift < 60; i, shift = i+1, shift+5 {
		d := strings.IndexByte(base64Digits, s[i])
		if d < 0 {
			return 0, "", false
		}
		v |= (d & 31) << shift
		if d < 32 {
			if v&1 != 0 {
				return -(v >> 1), s[i+1:], true
			}
			return v >> 1, s[i+1:], true
		}
	}
	return 0, "", false
}
