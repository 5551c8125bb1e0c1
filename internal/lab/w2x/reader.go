package main

import "fmt"

// An Error is an error in a module.
type Error struct {
	Where  string // the section or function
	Offset int    // from the start of the module, in bytes
	Msg    string
}

// Error returns a message with all three fields.
func (e *Error) Error() string { return fmt.Sprintf("%s at offset %d: %s", e.Where, e.Offset, e.Msg) }

// A reader reads a part of a module. After the first error it returns zeros, so that callers need
// to check err only at the end of each loop body.
type reader struct {
	b     []byte
	p     int
	base  int // offset of b in the module
	where string
	err   error
}

func (r *reader) setError(format string, a ...any) {
	if r.err == nil {
		r.err = &Error{r.where, r.base + r.p, fmt.Sprintf(format, a...)}
		r.p = len(r.b)
	}
}

// hasMore reports whether any bytes are left.
func (r *reader) hasMore() bool { return r.err == nil && r.p < len(r.b) }

func (r *reader) readByte() byte {
	if r.p >= len(r.b) {
		r.setError("unexpected end")
		return 0
	}
	r.p++
	return r.b[r.p-1]
}

// readUnsigned reads an unsigned LEB128 number of at most bits bits (core specification 5.2.2).
func (r *reader) readUnsigned(bits uint) uint64 {
	var v uint64
	for s := uint(0); ; s += 7 {
		c := r.readByte()
		if s >= bits || s+7 > bits && c&0x7f>>(bits-s) != 0 {
			r.setError("number of more than %d bits", bits)
			return 0
		}
		v |= uint64(c&0x7f) << s
		if c < 0x80 {
			return v
		}
	}
}

func (r *reader) u32() uint32 { return uint32(r.readUnsigned(32)) }

// readSigned reads a signed LEB128 number of at most bits bits.
func (r *reader) readSigned(bits uint) int64 {
	var v int64
	for s := uint(0); ; s += 7 {
		c := r.readByte()
		if s >= bits {
			r.setError("number of more than %d bits", bits)
			return 0
		}
		if s+7 > bits { // the bits beyond must repeat the sign
			if rest := int8(c<<1) >> (bits - s); c >= 0x80 || rest != 0 && rest != -1 {
				r.setError("number of more than %d bits", bits)
				return 0
			}
		}
		v |= int64(c&0x7f) << s
		if c < 0x80 {
			if s+7 < 64 && c&0x40 != 0 {
				v |= -1 << (s + 7)
			}
			return v
		}
	}
}

// readCount reads the number of items that take at least one byte each.
func (r *reader) readCount() int {
	n := r.u32()
	if int64(n) > int64(len(r.b)-r.p) {
		r.setError("%d items in %d bytes", n, len(r.b)-r.p)
		return 0
	}
	return int(n)
}

// readBytes reads n bytes.
func (r *reader) readBytes(n int) []byte {
	if n > len(r.b)-r.p {
		r.setError("unexpected end")
		return nil
	}
	r.p += n
	return r.b[r.p-n : r.p : r.p]
}

func (r *reader) readName() string { return string(r.readBytes(r.readCount())) }

// readLittleEndian reads n bytes as a little-endian number.
func (r *reader) readLittleEndian(n int) uint64 {
	var v uint64
	for i, c := range r.readBytes(n) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func (r *reader) valType() valType {
	t := valType(r.readByte())
	switch t {
	case i32, i64, f32, f64:
		return t
	}
	r.setError("unsupported value type %#x", byte(t))
	return i32
}

// subReader returns a reader of the next n bytes, which r skips.
func (r *reader) subReader(n int, where string) *reader {
	base := r.base + r.p
	b := r.readBytes(n)
	return &reader{b: b, base: base, where: where, err: r.err}
}

// finishSub copies the error of a reader returned by sub, or sets one if that has bytes left.
func (r *reader) finishSub(q *reader) {
	if q.err == nil && q.p < len(q.b) {
		q.setError("%d bytes too many", len(q.b)-q.p)
	}
	if r.err == nil && q.err != nil {
		r.err = q.err
		r.p = len(r.b)
	}
}
