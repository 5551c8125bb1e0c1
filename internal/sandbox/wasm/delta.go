package wasm

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

const (
	// deltaPages is how many pages of a snapshot are laid out together.
	deltaPages = 16
	// lineWords is how many words of wordSize bytes a line has.
	lineWords = lineSize / wordSize
	wordSize  = 8
	// alike is in how many bytes a line may differ from the image's for the difference to be kept: beyond that the line is kept as it
	// is. What a guest made anew, where the image has the leftovers of something else, is much like its neighbours, and its difference is like nothing.
	alike = 24
)

// A delta is what some pages are, seen from the image's. See pack.go for how it is laid out.
type delta struct {
	pages, lines, n int // bytes of each part
	which           [deltaPages * 16]byte
	marks           [deltaPages * pageSize / lineSize]byte
	words           [deltaPages*pageSize + lineSize]byte // with room to read a whole line where the last words are
}

var noPage [pageSize]byte

// delta gives one, which the caller puts back.
func (c *codec) delta() *delta {
	if d, ok := c.deltas.Get().(*delta); ok {
		d.pages, d.lines, d.n = 0, 0, 0
		return d
	}
	return new(delta)
}

// differences gives what writes the pages of memory as they differ from those of img.
func (c *codec) differences(memory []byte, img *image) func(w io.Writer, runs []pageRun) error {
	return func(w io.Writer, runs []pageRun) error {
		d := c.delta()
		defer c.deltas.Put(d)
		for _, r := range runs {
			for page := r.first; page < r.first+r.n; page++ {
				old := &noPage
				if b := img.at(page, pageSize); len(b) == pageSize {
					old = (*[pageSize]byte)(b)
				}
				d.add((*[pageSize]byte)(memory[int(page)*pageSize:]), old)
				if d.pages == len(d.which) {
					if err := d.write(w); err != nil {
						return err
					}
				}
			}
		}
		return d.write(w)
	}
}

// add adds a page.
func (d *delta) add(now, old *[pageSize]byte) {
	var changed, whole uint64
	for l := range pageSize / lineSize {
		a, b := (*[lineSize]byte)(now[l*lineSize:]), (*[lineSize]byte)(old[l*lineSize:])
		if *a == *b {
			continue
		}
		changed |= 1 << l
		if d.line(a, b) {
			whole |= 1 << l
		}
	}
	binary.LittleEndian.PutUint64(d.which[d.pages:], changed)
	binary.LittleEndian.PutUint64(d.which[d.pages+8:], whole)
	d.pages += 16
}

// line adds a line, and reports whether it does as it is.
func (d *delta) line(now, old *[lineSize]byte) (whole bool) {
	var a, x [lineWords]uint64
	filled, differing := 0, 0
	for w := range a {
		a[w] = binary.LittleEndian.Uint64(now[w*wordSize:])
		x[w] = a[w] ^ binary.LittleEndian.Uint64(old[w*wordSize:])
		filled += bytesIn(a[w])
		differing += bytesIn(x[w])
	}
	if whole = filled < differing || differing > alike; whole {
		x = a
	}
	mark := byte(0)
	for w, v := range x {
		if v != 0 {
			mark |= 1 << w
			binary.LittleEndian.PutUint64(d.words[d.n:], v)
			d.n += wordSize
		}
	}
	d.marks[d.lines] = mark
	d.lines++
	return whole
}

// bytesIn is how many bytes of a word are not zero.
func bytesIn(v uint64) int {
	v |= v >> 4
	v |= v >> 2
	v |= v >> 1
	return bits.OnesCount64(v & 0x0101010101010101)
}

// write writes what was added, and begins anew.
func (d *delta) write(w io.Writer) error {
	for _, part := range [][]byte{d.which[:d.pages], d.marks[:d.lines], d.words[:d.n]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	d.pages, d.lines, d.n = 0, 0, 0
	return nil
}

// differences reads pages, and makes those of memory, which are as in the image, what they are.
func (u *unpacker) differences(runs []pageRun, memory []byte) error {
	d := u.c.delta()
	defer u.c.deltas.Put(d)
	var at [deltaPages]*[pageSize]byte
	n := 0
	for _, r := range runs {
		for page := r.first; page < r.first+r.n && u.err == nil; page++ {
			at[n] = (*[pageSize]byte)(memory[int(page)*pageSize:])
			if n++; n == deltaPages {
				u.delta(d, at[:n])
				n = 0
			}
		}
	}
	if n > 0 {
		u.delta(d, at[:n])
	}
	return u.err
}

// fill reads len(b) bytes into b.
func (u *unpacker) fill(b []byte) { copy(b, u.read(b)) }

// delta reads pages that were laid out together, and changes those of at.
func (u *unpacker) delta(d *delta, at []*[pageSize]byte) {
	u.fill(d.which[:16*len(at)])
	lines := 0
	for p := range at {
		changed, whole := d.page(p)
		lines += bits.OnesCount64(changed)
		if whole&^changed != 0 && u.err == nil {
			u.err = errors.New("it has lines that are not there")
		}
	}
	marks := d.marks[:lines]
	u.fill(marks)
	n := 0
	for _, m := range marks {
		n += bits.OnesCount8(m)
	}
	if u.fill(d.words[:n*wordSize]); u.err != nil {
		return
	}
	words := d.words[:]
	for p, to := range at {
		changed, whole := d.page(p)
		for ; changed != 0; changed &= changed - 1 {
			l := bits.TrailingZeros64(changed)
			line := (*[lineSize]byte)(to[l*lineSize:])
			if whole>>l&1 != 0 {
				clear(line[:])
			}
			n := patch(line, (*[lineSize]byte)(words), marks[0])
			words, marks = words[n:], marks[1:]
		}
	}
}

// page gives which lines of a page are changed, and which of these are as they are.
func (d *delta) page(p int) (changed, whole uint64) {
	return binary.LittleEndian.Uint64(d.which[16*p:]), binary.LittleEndian.Uint64(d.which[16*p+8:])
}

// patch changes the words of a line that mark says by as many words, which others follow, and says how many bytes these have.
func patch(line, words *[lineSize]byte, mark byte) (n int) {
	for ; mark != 0; mark &= mark - 1 {
		to := line[bits.TrailingZeros8(mark)*wordSize&(lineSize-wordSize):]
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)^binary.LittleEndian.Uint64(words[n&(lineSize-wordSize):]))
		n += wordSize
	}
	return n
}
