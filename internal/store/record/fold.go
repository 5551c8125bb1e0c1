package record

import (
	"bytes"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// A fold is a form of texts in leaves that don't compress, mostly since their digits are random.
// Such a text is replaced by a byte that JSON never has, and by the bytes that its digits stand
// for. The byte is 1 for the first fold, 2 for the second, and so on.
type fold struct {
	prefix, suffix string
	digits, size   int // numbers of digits after the prefix, and of their bytes
	code           digitCode
}

// A digitCode says how digits stand for bytes.
type digitCode int

const (
	hexDigits  digitCode = iota
	idDigits             // of the id of a record
	textDigits           // of rand.Text, in lower case
	timeDigits           // audit.FormatTime of the microseconds since 1970
)

// The folds of leaves in the forms packedDigests, packedTexts, and newer ones. They must never
// change: packed leaves refer to them.
var (
	digestFolds = newerFolds[:1]
	newerFolds  = []fold{
		{"hmac-sha256:", "", 64, 32, hexDigits},
		{`"record":"`, `"`, 26, 16, idDigits},
		{`"time":"`, `"`, 27, 7, timeDigits},
		{"ex_", "", 16, 10, textDigits}, // most of the id of an execution
		{"@", "", 16, 8, hexDigits},     // the version of a policy
		// S2 finds nothing at the ends of a leaf
		{`{"begun":`, "", 0, 0, hexDigits},
		{`,"v":1}`, "", 0, 0, hexDigits},
	}
	newestFolds = appendTexts(slices.Clip(newerFolds), memberTexts...)
)

// memberTexts are the usual texts between the values of a leaf's members. A text that begins
// with another one comes first.
var memberTexts = []string{
	// the beginning of a call
	`{"arguments":{"digest":"`, `","kept":"`, `","size":`, `},"call":"`, `","client":"`, `","effect":"allow`,
	`","execution":"`, `","kind":"call","part":"begun","policy":"`, `","principal":"`, `","reason":"it is permitted",`,
	`,"seq":`, `,"tool":"`, `","upstream":"`, `","v":1}`,
	// its end
	`,"duration_us":`, `,"kind":"call","outcome":"ok","part":"ended",`, `,"result":{"digest":"`, `},"seq":`,
	// an event
	`{"client":"`, `","detail":{"`, `"},"execution":"`, `","kind":"`, `","outcome":"`, `","part":"event","principal":"`,
}

// maxRaw is the maximum number of bytes for digits.
const maxRaw = 32

var (
	idEncoding   = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
	textEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

// appendTexts appends folds without digits.
func appendTexts(folds []fold, texts ...string) []fold {
	for _, text := range texts {
		folds = append(folds, fold{prefix: text})
	}
	return folds
}

// foldTexts appends a leaf with folded texts to out. It reports false if the leaf has a byte that
// stands for a fold, as JSON never has.
func foldTexts(out, leaf []byte, folds []fold) (_ []byte, ok bool) {
	var may [256]uint32 // the folds whose texts begin with a byte, as bits
	for n := range folds {
		may[folds[n].prefix[0]] |= 1 << n
	}
	from := 0
	for i := 0; i < len(leaf); i++ {
		c := leaf[i]
		if c >= 1 && int(c) <= len(folds) {
			return nil, false
		}
		for left := may[c]; left != 0; left &= left - 1 {
			n := bits.TrailingZeros32(left)
			f := &folds[n]
			if len(leaf)-i < len(f.prefix) || string(leaf[i:i+len(f.prefix)]) != f.prefix {
				continue
			}
			if raw, size := f.parseText(leaf[i:]); size > 0 {
				out = append(append(append(out, leaf[from:i]...), byte(n+1)), raw[:f.size]...)
				from = i + size
				i = from - 1
				break
			}
		}
	}
	return append(out, leaf[from:]...), true
}

// unfoldTexts is the inverse of foldTexts. It returns an error if the leaf is longer than
// maxUnpacked.
func unfoldTexts(out, folded []byte, folds []fold) ([]byte, error) {
	from := 0
	for i := 0; i < len(folded); i++ {
		c := folded[i]
		if c < 1 || int(c) > len(folds) {
			continue
		}
		f := &folds[c-1]
		if len(folded)-i-1 < f.size {
			return nil, errPacked
		}
		out = append(append(out, folded[from:i]...), f.prefix...)
		from = i + 1 + f.size
		out = append(f.appendDigits(out, folded[i+1:from]), f.suffix...)
		if len(out) > maxUnpacked {
			return nil, errPacked
		}
		i = from - 1
	}
	if out = append(out, folded[from:]...); len(out) > maxUnpacked {
		return nil, errPacked
	}
	return out, nil
}

// parseText parses the text whose prefix data begins with. It returns the bytes that its digits
// stand for, and its size, which is 0 if there is no such text, or if these bytes don't restore it.
func (f *fold) parseText(data []byte) (raw [maxRaw]byte, size int) {
	size = len(f.prefix) + f.digits + len(f.suffix)
	if len(data) < size || string(data[size-len(f.suffix):size]) != f.suffix {
		return raw, 0
	}
	digits := data[len(f.prefix) : size-len(f.suffix)]
	var again [2 * maxRaw]byte
	if !f.decodeDigits(raw[:f.size], digits) ||
		!bytes.Equal(f.appendDigits(again[:0], raw[:f.size]), digits) {
		return raw, 0
	}
	return raw, size
}

func (f *fold) decodeDigits(raw, digits []byte) bool {
	var err error
	switch f.code {
	case hexDigits:
		_, err = hex.Decode(raw, digits)
	case idDigits:
		_, err = idEncoding.Decode(raw, digits)
	case textDigits:
		_, err = textEncoding.Decode(raw, digits)
	case timeDigits:
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, string(digits))
		var micros [8]byte
		binary.BigEndian.PutUint64(micros[:], uint64(t.UnixMicro()))
		copy(raw, micros[1:])
	}
	return err == nil
}

func (f *fold) appendDigits(out, raw []byte) []byte {
	switch f.code {
	case idDigits:
		return idEncoding.AppendEncode(out, raw)
	case textDigits:
		return textEncoding.AppendEncode(out, raw)
	case timeDigits:
		var micros [8]byte
		copy(micros[1:], raw)
		return appendTime(out, time.UnixMicro(int64(binary.BigEndian.Uint64(micros[:]))).UTC())
	default:
		return hex.AppendEncode(out, raw)
	}
}

// appendTime appends t, which is in UTC, as audit.FormatTime does, in half of the time.
func appendTime(out []byte, t time.Time) []byte {
	out = t.AppendFormat(out, time.RFC3339)
	out = strconv.AppendInt(out[:len(out)-len("Z")], 1e6+int64(t.Nanosecond()/1e3), 10)
	out[len(out)-len("1000000")] = '.'
	return append(out, 'Z')
}
