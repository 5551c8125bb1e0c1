package program

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Bundled is code that was bundled from several files.
type Bundled struct {
	Code    string
	Before  int               // lines of Code before the bundler's
	Map     []byte            // the bundler's source map
	Sources map[string]string // the texts of the files by the path that Map has for them
	Python  bool              // Code is a Python program, which has no map: stack traces name the files
	Shell   bool              // Code is a shell script, whose positions mean nothing to the author of the files
}

// FromBundle returns a Program that runs Bundled.Code, a script as in Program.Code. Nothing is
// checked, and all its positions are in the bundled files (InModule). It knows no tools.
func FromBundle(b Bundled) *Program {
	if b.Shell {
		return &Program{Runtime: "bash", Code: b.Code, Name: ShellName, bundled: &bundled{Bundled: b}}
	}
	if b.Python {
		return &Program{Runtime: "python", Code: b.Code, Name: PythonName, bundled: &bundled{Bundled: b}}
	}
	before, lines := leadCode(b.Code)
	return &Program{Runtime: "js", Code: before + b.Code, Name: FileName, lead: lines, bundled: &bundled{Bundled: b}}
}

// FromBundle is like the function FromBundle. own is the program's source. The program also gets
// the names that own uses for tools that the principal can see.
func (p *Preparer) FromBundle(who tool.Principal, b Bundled, own string) *Program {
	prog := FromBundle(b)
	prog.Source = own
	if x, _ := p.indexOf(who); x != nil {
		prog.find(x, &Request{Source: own})
	}
	return prog
}

// A bundled maps positions in bundled code to positions in its files.
type bundled struct {
	Bundled
	once     sync.Once
	files    []string
	segments [][]fileSegment // by line of the bundler's code
	code     *lineTable
}

// A fileSegment maps a column of the code to a position in a file.
type fileSegment struct{ col, file, line, srcCol int }

func (b *bundled) loadMap() {
	b.once.Do(func() {
		var m struct {
			Sources  []string `json:"sources"`
			Mappings string   `json:"mappings"`
		}
		if json.Unmarshal(b.Map, &m) != nil {
			return // no position is known then
		}
		b.files, b.segments = m.Sources, decodeFileMappings(m.Mappings)
		b.code = newLineTable(b.Code, engineLines)
	})
}

// locatePlace maps a position in Code, which starts at 1 and counts bytes.
func (b *bundled) locatePlace(genLine, genCol int) (at Place, ok bool) {
	b.loadMap()
	n := genLine - 1 - b.Before
	if b.code == nil || n < 0 || n >= len(b.segments) {
		return Place{}, false
	}
	off := b.code.atByte(genLine-1, max(genCol, 1)-1)
	if off < 0 {
		return Place{}, false
	}
	_, col := b.code.utf16(off)
	list := b.segments[n]
	i := sort.Search(len(list), func(i int) bool { return list[i].col > col }) - 1
	if i < 0 || list[i].file >= len(b.files) {
		return Place{}, false
	}
	s := list[i]
	text, known := b.Sources[b.files[s.file]]
	if !known {
		return Place{}, false
	}
	lines := newLineTable(text, scriptLines)
	src := lines.atUTF16(s.line, s.srcCol)
	if src < 0 {
		return Place{}, false
	}
	line, column := lines.position(src)
	return Place{File: b.files[s.file], Line: line, Column: column, Frame: frame(lines, line, column)}, true
}

// pythonFrame matches a frame of a Python traceback.
var pythonFrame = lazily.Regexp(`File "([^"\n]{1,300})", line (\d{1,9})(?:, column (\d{1,9}))?`)

// locateFrame returns the innermost frame of a Python traceback that is in a file of the bundle.
func (b *bundled) locateFrame(stack string) (at Place, ok bool) {
	for _, m := range slices.Backward(pythonFrame.Get().FindAllStringSubmatch(stack, 200)) {
		text, known := b.Sources[m[1]]
		if !known {
			continue
		}
		lines := newLineTable(text, plainLines)
		at.File = m[1]
		at.Line, _ = strconv.Atoi(m[2])
		if at.Column, _ = strconv.Atoi(m[3]); at.Column == 0 {
			at.Column = 1
		}
		at.Frame = frame(lines, at.Line, at.Column)
		return at, true
	}
	return at, false
}

// decodeFileMappings is like decodeMappings, for a map of several files.
func decodeFileMappings(s string) [][]fileSegment {
	var lines [][]fileSegment
	var file, line, srcCol int
	for l := range strings.SplitSeq(s, ";") {
		var cur []fileSegment
		col := 0
		for seg := range strings.SplitSeq(l, ",") {
			v, n := segmentNumbers(seg)
			if n == 0 {
				continue
			}
			if col += v[0]; n < 4 {
				continue
			}
			file, line, srcCol = file+v[1], line+v[2], srcCol+v[3]
			if file < 0 || line < 0 || srcCol < 0 {
				return lines // the map is broken
			}
			cur = append(cur, fileSegment{col, file, line, srcCol})
		}
		lines = append(lines, cur)
	}
	return lines
}

// segmentNumbers decodes the numbers of a segment, and returns how many there are.
func segmentNumbers(seg string) (v [5]int, n int) {
	for seg != "" && n < len(v) {
		var ok bool
		if v[n], seg, ok = vlq(seg); !ok {
			break
		}
		n++
	}
	return v, n
}
