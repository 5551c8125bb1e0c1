package wasm

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Images and snapshots are packed like this; numbers are little-endian:
//
//	16 bytes  type and version of the layout: imageMagic, plainMagic, stateMagic or
//	          oldStateMagic
//	16 bytes  name of the language, padded with zeros
//	32 bytes  identity of the engine's build: SHA-256, see identify
//	...       a frame of zstd (RFC 8878), or in a plain image the bytes themselves, with the
//	          fields of the type, and then pages: u32 n; n times u32 first page, u32 number of
//	          pages, sorted and disjoint; then their bytes
//	 4 bytes  CRC-32C of everything before
//
// Pages have pageSize bytes, whatever the system's page size is. In an image, the pages of a run
// are encoded in groups of up to sixteen: a u64 for each page, whose bits, from the lowest on, mark
// which of its 64 lines of 64 bytes are not all zeros; and these lines. An old snapshot has the
// same encoding, with lines XORed with those of the image. A snapshot is encoded in groups of
// sixteen pages, the last of which may be smaller:
//
//	two u64 for each page, whose bits, from the lowest on, mark which of its lines differ from
//	        the image's, and which of these are stored unchanged: the others are XORed with the
//	        image's
//	a u8    for each of these lines, whose bits mark which of its 8 words are not all zeros
//	a u64   for each of these words
const (
	imageMagic = "biplane image 1\n"
	plainMagic = "biplane plain 1\n"
	stateMagic = "biplane state 2\n"
	// oldStateMagic marks snapshots as they were written until 2026-11.
	oldStateMagic = "biplane state 1\n"
	nameSize      = 16
	idSize        = 32
	headSize      = len(imageMagic) + nameSize + idSize
	sumSize       = 4

	pageSize  = 4 << 10
	lineSize  = pageSize / 64
	chunkSize = 16 * pageSize
	maxWindow = 8 << 20 // window of zstd, in bytes: bounds the memory for unpacking
)

// An identity identifies a build of an engine.
type identity [idSize]byte

// String returns the first half in hexadecimal, which is enough to distinguish builds.
func (i identity) String() string { return hex.EncodeToString(i[:idSize/2]) }

// A head is the header of packed data.
type head struct {
	magic, lang string
	id          identity
}

// A pageRun is a run of pages: [first, first+n).
type pageRun struct{ first, n uint32 }

var errDamaged = errors.New("it is damaged (its checksum is wrong)")

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// summed reports whether packed data ends with its correct checksum.
func summed(b []byte) bool {
	end := len(b) - sumSize
	return castagnoli(b[:end]) == binary.LittleEndian.Uint32(b[end:])
}

// A codec packs and unpacks images and snapshots. It reuses its buffers and zstd coders.
type codec struct{ encoders, decoders, buffers, deltas sync.Pool }

// packBuffers holds buffers for pages while they are packed or unpacked.
type packBuffers struct {
	chunk [chunkSize]byte
	masks [chunkSize / pageSize]uint64
	lines [chunkSize + 8*chunkSize/pageSize]byte // lines and their masks
}

// takeBuffers returns buffers, which the caller puts back.
func (c *codec) takeBuffers() *packBuffers {
	if r, ok := c.buffers.Get().(*packBuffers); ok {
		return r
	}
	return new(packBuffers)
}

// pack returns the packed form of fields and pages. The pages are those of runs; write writes their
// bytes.
func (c *codec) pack(h head, level zstd.EncoderLevel, fields []byte, runs []pageRun,
	write func(w io.Writer, runs []pageRun) error) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(h.magic)
	out.Write(append([]byte(h.lang), make([]byte, nameSize)...)[:nameSize])
	out.Write(h.id[:])
	w, err := c.writer(&out, h, level)
	if err != nil {
		return nil, err
	}
	fields = binary.LittleEndian.AppendUint32(fields, uint32(len(runs)))
	for _, r := range runs {
		fields = binary.LittleEndian.AppendUint32(fields, r.first)
		fields = binary.LittleEndian.AppendUint32(fields, r.n)
	}
	if _, err = w.Write(fields); err == nil && len(runs) > 0 {
		err = write(w, runs)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("pack a guest: %w", err)
	}
	if e, ok := w.(*zstd.Encoder); ok && level == zstd.SpeedFastest {
		c.encoders.Put(e)
	}
	return binary.LittleEndian.AppendUint32(out.Bytes(), castagnoli(out.Bytes())), nil
}

// writer returns the writer through which the body goes to out.
func (c *codec) writer(out *bytes.Buffer, h head, level zstd.EncoderLevel) (io.WriteCloser, error) {
	if h.magic == plainMagic {
		return uncompressedWriter{out}, nil
	}
	if w, ok := c.encoders.Get().(*zstd.Encoder); ok && level == zstd.SpeedFastest {
		w.Reset(out)
		return w, nil
	}
	return zstd.NewWriter(out, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(1<<20))
}

// An uncompressedWriter is a writer that doesn't compress.
type uncompressedWriter struct{ io.Writer }

// Close does nothing.
func (uncompressedWriter) Close() error { return nil }

// openState opens a snapshot, which the caller closes.
func (c *codec) openState(b []byte) (head, *unpacker, error) {
	if bytes.HasPrefix(b, []byte(oldStateMagic)) {
		return c.open(b, oldStateMagic)
	}
	return c.open(b, stateMagic)
}

// open checks packed data and starts to read it. The caller closes the unpacker.
func (c *codec) open(b []byte, magic string) (head, *unpacker, error) {
	var h head
	if len(b) < headSize+sumSize {
		return h, nil, errors.New("it is too short")
	}
	h.magic = string(b[:len(magic)])
	if h.magic != magic {
		return h, nil, errors.New("it is not a snapshot, or is from another version of Biplane")
	}
	// An image is part of this binary, and as trustworthy as its code: a test checks its sum.
	if (magic == stateMagic || magic == oldStateMagic) && !summed(b) {
		return h, nil, errDamaged
	}
	h.lang = string(bytes.TrimRight(b[len(magic):][:nameSize], "\x00"))
	h.id = identity(b[len(magic)+nameSize:])
	if magic == plainMagic {
		return h, &unpacker{c: c, plain: b[headSize : len(b)-sumSize]}, nil
	}
	d, ok := c.decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0)); err != nil {
			return h, nil, err
		}
	}
	u := &unpacker{c: c, r: d, d: d, old: magic == oldStateMagic}
	if err := d.Reset(bytes.NewReader(b[headSize : len(b)-sumSize])); err != nil {
		u.err = err
	}
	return h, u, nil
}

// An unpacker reads fields. After an error, which it keeps, it returns zeros.
type unpacker struct {
	c     *codec
	r     io.Reader     // nil: reads the rest of plain
	d     *zstd.Decoder // r, if it is a decoder
	plain []byte
	old   bool // reading an old snapshot
	err   error
	buf   [8]byte
}

func (u *unpacker) close() {
	if u.d != nil && u.d.Reset(nil) == nil {
		u.c.decoders.Put(u.d)
	}
}

// read returns the next len(b) bytes, in b unless they are in memory already. The caller must not
// modify them.
func (u *unpacker) read(b []byte) []byte {
	switch {
	case u.err != nil:
	case u.r != nil:
		if _, u.err = io.ReadFull(u.r, b); u.err == nil {
			return b
		}
	case len(u.plain) < len(b):
		u.err = io.ErrUnexpectedEOF
	default:
		b, u.plain = u.plain[:len(b)], u.plain[len(b):]
		return b
	}
	clear(b)
	return b
}

func (u *unpacker) u32() uint32 { return binary.LittleEndian.Uint32(u.read(u.buf[:4])) }

func (u *unpacker) u64() uint64 { return binary.LittleEndian.Uint64(u.read(u.buf[:8])) }

// bytes reads a length of at most max and as many bytes. The caller must not modify them.
func (u *unpacker) bytes(max uint32) []byte {
	n := u.u32()
	if u.err == nil && n > max {
		u.err = fmt.Errorf("a field of %d bytes is too long", n)
	}
	if u.err != nil {
		return nil
	}
	return u.read(make([]byte, n))
}

// runs reads runs of pages below end; together they have at most end pages.
func (u *unpacker) runs(end uint32) (runs []pageRun) {
	n := u.u32()
	if u.err == nil && n > end {
		u.err = errors.New("it has more pages than memory")
	}
	next := uint64(0)
	for ; n > 0 && u.err == nil; n-- { // grows with the input: the number alone is not trusted
		r := pageRun{u.u32(), u.u32()}
		if u.err == nil && (r.n == 0 || uint64(r.first) < next || uint64(r.first)+uint64(r.n) > uint64(end)) {
			u.err = errors.New("its pages are out of order")
		}
		next = uint64(r.first) + uint64(r.n)
		runs = append(runs, r)
	}
	return runs
}

// decodePages reads the bytes of runs and passes them to use in pieces of whole pages, which use
// must not modify. Pages without a zero line are passed on as packed.
func (u *unpacker) decodePages(runs []pageRun, use func(b []byte, page uint32) error) error {
	buffers := u.c.takeBuffers()
	defer u.c.buffers.Put(buffers)
	u.chunks(runs, func(first, n uint32) {
		masks, lines := u.readPages(n, buffers)
		for len(masks) > 0 && u.err == nil {
			full := masks[0] == allLines
			k, b := 0, lines
			for k < len(masks) && (masks[k] == allLines) == full {
				k++
			}
			if full {
				b, lines = lines[:k*pageSize], lines[k*pageSize:]
			} else {
				b = buffers.chunk[:k*pageSize]
				clear(b)
				lines = expand(b, masks[:k], lines)
			}
			u.err = use(b, first)
			first, masks = first+uint32(k), masks[k:]
		}
	})
	return u.err
}

// xor reads the bytes of runs and XORs them into memory.
func (u *unpacker) xor(runs []pageRun, memory []byte) error {
	buffers := u.c.takeBuffers()
	defer u.c.buffers.Put(buffers)
	u.chunks(runs, func(first, n uint32) {
		masks, lines := u.readPages(n, buffers)
		expand(memory[int(first)*pageSize:][:n*pageSize], masks, lines)
	})
	return u.err
}

// chunks calls use for each packed piece of runs, until there is an error.
func (u *unpacker) chunks(runs []pageRun, use func(first, n uint32)) {
	for _, r := range runs {
		for at := uint32(0); at < r.n && u.err == nil; {
			n := min(r.n-at, chunkSize/pageSize)
			use(r.first+at, n)
			at += n
		}
	}
}

// allLines is the mask of a page without a zero line.
const allLines = 1<<(pageSize/lineSize) - 1

// readPages reads n pages in the format of images: their masks and their lines. After an error it
// returns none.
func (u *unpacker) readPages(n uint32, buffers *packBuffers) (masks []uint64, lines []byte) {
	masks = buffers.masks[:n]
	count := 0
	for p := range masks {
		masks[p] = u.u64()
		count += bits.OnesCount64(masks[p])
	}
	if lines = u.read(buffers.lines[:count*lineSize]); u.err != nil {
		return nil, nil
	}
	return masks, lines
}

// expand XORs the result of squeezed into pages, and returns the remaining lines.
func expand(b []byte, masks []uint64, lines []byte) []byte {
	for p, mask := range masks {
		for mask != 0 { // adjacent lines at once
			first := bits.TrailingZeros64(mask)
			count := bits.TrailingZeros64(^(mask >> first))
			to := b[p*pageSize+first*lineSize:][:count*lineSize]
			subtle.XORBytes(to, to, lines)
			lines = lines[count*lineSize:]
			mask &^= (1<<count - 1) << first
		}
	}
	return lines
}

// end checks that nothing is left.
func (u *unpacker) end() error {
	if u.err == nil {
		n, err := len(u.plain), io.EOF
		if u.r != nil {
			n, err = io.ReadFull(u.r, u.buf[:1])
		}
		if n > 0 || err != io.EOF {
			u.err = errors.New("it contains more data than declared")
		}
	}
	return u.err
}

// runsOf returns the sorted pages as runs.
func runsOf(pages []uint32) (runs []pageRun) {
	for _, p := range pages {
		if k := len(runs); k > 0 && runs[k-1].first+runs[k-1].n == p {
			runs[k-1].n++
		} else {
			runs = append(runs, pageRun{p, 1})
		}
	}
	return runs
}

// less returns the pages of runs that are not in minus. All are sorted.
func less(runs, minus []pageRun) (rest []pageRun) {
	for _, r := range runs {
		for len(minus) > 0 && minus[0].first+minus[0].n <= r.first {
			minus = minus[1:]
		}
		end := r.first + r.n
		for _, m := range minus {
			if m.first >= end {
				break
			}
			if m.first > r.first {
				rest = append(rest, pageRun{r.first, m.first - r.first})
			}
			r.first = min(m.first+m.n, end)
		}
		if r.first < end {
			rest = append(rest, pageRun{r.first, end - r.first})
		}
	}
	return rest
}
