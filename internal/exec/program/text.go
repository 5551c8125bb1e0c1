package program

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A text is a string made from an earlier one (its parent) by keeping parts of it and inserting
// others. It maps each byte to its origin in the parent, so that positions can be traced back
// through any number of steps.
type text struct {
	s      string
	pieces []piece // in the order of at; together they cover s
}

// A piece is a run of bytes of a text. from is its offset in the parent. For inserted bytes, it is
// the place in the parent that they stand for, or -1 for none.
type piece struct {
	at, from int
	added    bool
}

// origin returns the offset in the parent of the byte at off. For inserted bytes ok is false, and
// pos is the place that they stand for, or -1.
func (t *text) origin(off int) (pos int, ok bool) {
	i := sort.Search(len(t.pieces), func(i int) bool { return t.pieces[i].at > off }) - 1
	if i < 0 {
		return -1, false
	}
	p := t.pieces[i]
	if p.added {
		return p.from, false
	}
	return p.from + off - p.at, true
}

// A textBuilder builds a text.
type textBuilder struct {
	parent string
	b      strings.Builder
	pieces []piece
}

// keep appends parent[from:to].
func (b *textBuilder) keep(from, to int) {
	if from >= to {
		return
	}
	b.pieces = append(b.pieces, piece{at: b.b.Len(), from: from})
	b.b.WriteString(b.parent[from:to])
}

// keepByte appends a byte whose origin is the offset at in the parent.
func (b *textBuilder) keepByte(c byte, at int) {
	if n := len(b.pieces); n == 0 || b.pieces[n-1].added || b.pieces[n-1].from+b.b.Len()-b.pieces[n-1].at != at {
		b.pieces = append(b.pieces, piece{at: b.b.Len(), from: at})
	}
	b.b.WriteByte(c)
}

// add appends s, which stands for the offset at in the parent (-1: none).
func (b *textBuilder) add(s string, at int) {
	if s == "" {
		return
	}
	b.pieces = append(b.pieces, piece{at: b.b.Len(), from: at, added: true})
	b.b.WriteString(s)
}

func (b *textBuilder) text() *text { return &text{s: b.b.String(), pieces: b.pieces} }

// An edit replaces s[from:to] by put.
type edit struct {
	from, to int
	put      string
}

// apply appends parent[lo:hi] with edits, which must not overlap. Inserted text stands for the
// place of its edit.
func (b *textBuilder) apply(lo, hi int, edits []edit) {
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].from < edits[j].from })
	for _, e := range edits {
		if e.from < lo || e.to > hi {
			continue
		}
		b.keep(lo, e.from)
		b.add(e.put, e.from)
		lo = e.to
	}
	b.keep(lo, hi)
}

// byteOrderMark may precede a text. It is invisible, so it has no column.
const byteOrderMark = "\ufeff"

// A lineTable holds the offsets of the lines of a text.
type lineTable struct {
	s      string
	starts []int
}

// Which line terminators count.
const (
	plainLines  = iota // "\n", "\r\n" and "\r" end a line: editors, and people
	scriptLines        // also U+2028 and U+2029: ECMA-262, 12.3, and so esbuild
	engineLines        // "\n" alone: QuickJS
)

func newLineTable(s string, how int) *lineTable {
	t := &lineTable{s: s, starts: append(make([]int, 0, 1+strings.Count(s, "\n")), 0)}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n':
			t.starts = append(t.starts, i+1)
		case how != engineLines && c == '\r':
			if i+1 < len(s) && s[i+1] == '\n' {
				i++
			}
			t.starts = append(t.starts, i+1)
		case how == scriptLines && c == 0xe2 && i+2 < len(s) && s[i+1] == 0x80 && (s[i+2] == 0xa8 || s[i+2] == 0xa9):
			t.starts = append(t.starts, i+3)
		}
	}
	return t
}

// line returns the number of the line (from 0) that contains off.
func (t *lineTable) line(off int) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > off }) - 1
}

// text returns a line without its terminator, or "" if there is no such line.
func (t *lineTable) text(line int) string {
	if line < 0 || line >= len(t.starts) {
		return ""
	}
	end := len(t.s)
	if line+1 < len(t.starts) {
		end = t.starts[line+1]
	}
	s := strings.TrimRight(t.s[t.starts[line]:end], "\r\n\u2028\u2029")
	if line == 0 {
		s = strings.TrimPrefix(s, byteOrderMark)
	}
	return s
}

// position returns the line and column of off, from 1. The column is in characters.
func (t *lineTable) position(off int) (line, col int) {
	off = min(max(off, 0), len(t.s))
	l := t.line(off)
	before := t.s[t.starts[l]:off]
	if l == 0 {
		before = strings.TrimPrefix(before, byteOrderMark)
	}
	return l + 1, utf8.RuneCountInString(before) + 1
}

// atByte returns the offset of a line and a column in bytes, both from 0, or -1.
func (t *lineTable) atByte(line, col int) int {
	if line < 0 || line >= len(t.starts) || col < 0 {
		return -1
	}
	return min(t.starts[line]+col, len(t.s))
}

// atUTF16 returns the offset of a line and a column in UTF-16 units, both from 0, or -1.
func (t *lineTable) atUTF16(line, col int) int {
	if line < 0 || line >= len(t.starts) || col < 0 {
		return -1
	}
	off := t.starts[line]
	for col > 0 && off < len(t.s) {
		r, n := utf8.DecodeRuneInString(t.s[off:])
		col--
		if r > 0xffff {
			col--
		}
		off += n
	}
	return off
}

// utf16 returns the line of off and its column in UTF-16 units, both from 0.
func (t *lineTable) utf16(off int) (line, col int) {
	line = t.line(off)
	for _, r := range t.s[t.starts[line]:off] {
		col++
		if r > 0xffff {
			col++
		}
	}
	return line, col
}
