package wasm

import (
	"encoding/binary"
	"io"
)

// squeezed returns a function that writes pages in the format of images. It calls read to fill b
// with the bytes from the start of a page.
func squeezed(read func(b []byte, page uint32)) func(w io.Writer, runs []pageRun) error {
	return func(w io.Writer, runs []pageRun) error {
		room := new(packBuffers)
		for _, r := range runs {
			for at := uint32(0); at < r.n; {
				n := min(r.n-at, chunkSize/pageSize)
				b := room.chunk[:n*pageSize]
				read(b, r.first+at)
				if _, err := w.Write(squeeze(room.lines[:0], b)); err != nil {
					return err
				}
				at += n
			}
		}
		return nil
	}
}

// squeeze appends the masks and the lines of the pages in b to the slice to.
func squeeze(to, b []byte) []byte {
	masks := len(to)
	to = append(to, make([]byte, len(b)/pageSize*8)...)
	for p := 0; p < len(b); p += pageSize {
		mask := uint64(0)
		for l := range pageSize / lineSize {
			if line := b[p+l*lineSize:][:lineSize]; !zeros(line) {
				mask |= 1 << l
				to = append(to, line...)
			}
		}
		binary.LittleEndian.PutUint64(to[masks+p/pageSize*8:], mask)
	}
	return to
}

// zeros reports whether a line is all zeros.
func zeros(line []byte) bool {
	or := uint64(0)
	for i := 0; i < lineSize; i += 8 {
		or |= binary.LittleEndian.Uint64(line[i:])
	}
	return or == 0
}
