package wasm

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

const (
	// deltaPages is how many pages of a snapshot are encoded together.
	deltaPages = 16
	// lineWords is how many words a line has.
	lineWords = lineSize / wordSize
	wordSize  = 8
	// alike is how many bytes of a line may differ from the image's line for the difference to be
	// stored. Beyond that the line itself is stored. New data over unrelated leftovers resembles
	// its neighbors, while its difference resembles nothing.
	alike = 24
)

// A delta is the difference between some pages and the image's. pack.go describes the encoding.
type delta struct {
	pages, lines, n int // bytes of each part
	which           [deltaPages * 16]byte
	marks           [deltaPages * pageSize / lineSize]byte
	words           [deltaPages*pageSize + lineSize]byte // with room to read a whole line at the last words
}

var noPage [pageSize]byte

// delta returns a delta, which the caller puts back.
func (c *codec) delta() *delta {
	if d, ok := c.deltas.Get().(*delta); ok {
		d.pages, d.lines, d.n = 0, 0, 0
		return d
	}
	return new(delta)
}

// differences returns a function that writes pages of memory as their difference to those of img.
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

// line adds a line, and reports whether it is stored unchanged.
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

// bytesIn returns how many bytes of a word are not zero.
func bytesIn(v uint64) int {
	v |= v >> 4
	v |= v >> 2
	v |= v >> 1
	return bits.OnesCount64(v & 0x0101010101010101)
}

// write writes the added pages, and resets d.
func (d *delta) write(w io.Writer) error {
	for _, part := range [][]byte{d.which[:d.pages], d.marks[:d.lines], d.words[:d.n]} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	d.pages, d.lines, d.n = 0, 0, 0
	return nil
}

// differences reads pages and applies them to memory, which holds the image's.
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

// delta reads pages that were encoded together, and applies them to those of at.
func (u *unpacker) delta(d *delta, at []*[pageSize]byte) {
	u.fill(d.which[:16*len(at)])
	lines := 0
	for p := range at {
		changed, whole := d.page(p)
		lines += bits.OnesCount64(changed)
		if whole&^changed != 0 && u.err == nil {
			u.err = errors.New("it refers to lines that don't exist")
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

// page returns which lines of a page are changed, and which of these are stored unchanged.
func (d *delta) page(p int) (changed, whole uint64) {
	return binary.LittleEndian.Uint64(d.which[16*p:]), binary.LittleEndian.Uint64(d.which[16*p+8:])
}

// patch XORs the words of a line selected by mark with the following words, and returns how many
// bytes these have.
func patch(line, words *[lineSize]byte, mark byte) (n int) {
	for ; mark != 0; mark &= mark - 1 {
		to := line[bits.TrailingZeros8(mark)*wordSize&(lineSize-wordSize):]
		binary.LittleEndian.PutUint64(to,
			binary.LittleEndian.Uint64(to)^binary.LittleEndian.Uint64(words[n&(lineSize-wordSize):]))
		n += wordSize
	}
	return n
}
