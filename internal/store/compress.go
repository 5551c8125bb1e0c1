package store

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// Sizes in bytes from which data is compressed, and from which it is a Zstandard frame. Smaller
// data is compressed with a dictionary, to a byte for its form and an S2 block. That needs a third
// of the time of a Zstandard frame, and the journal of a small program becomes shorter.
const (
	minCompressed = 64
	minFramed     = 16 << 10
)

// Forms of small compressed data. JSON never begins with one.
const (
	packedSmall  = 1 // only read
	packedFolded = 2 // its digests are folded: an S2 block has each digit as a byte
)

// A folded digest is the byte foldMark, and the bytes that its hexadecimal digits stand for. These
// two bytes follow escapeMark if they are in the data. They are rare: UTF-8 never has them.
const (
	foldMark   = 0xff
	escapeMark = 0xfe
	foldDigits = 2 * sha256.Size
)

// journalDictionary has what most journals have in common. It must never change: compressed
// journals refer to it.
//
//go:embed journal.dict
var journalDictionary []byte

var journalDict = lazily.Value[*s2.Dict]{Make: func() *s2.Dict { return s2.MakeDict(journalDictionary, nil) }}

// maxExpanded is the maximum size in bytes of data that was compressed. It is far above what is
// written: the limit is for files that others have changed.
const maxExpanded = 256 << 20

// zstdMagic begins each Zstandard frame (RFC 8878, section 3.1.1). JSON never begins with it.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

var encoder = lazily.Value[*zstd.Encoder]{Make: func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(64<<10))
	if err != nil {
		panic(err) // the options are wrong
	}
	return e
}}

var decoder = lazily.Value[*zstd.Decoder]{Make: func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxExpanded))
	if err != nil {
		panic(err) // the options are wrong
	}
	return d
}}

// compressData returns data in compressed form, or data itself if that isn't longer. Data that
// begins like compressed data is always compressed, so that expandData can tell.
func compressData(data []byte) []byte {
	must := isCompressed(data)
	if len(data) < minCompressed && !must {
		return data
	}
	var folded, out []byte
	small := len(data) < minFramed
	if small {
		folded = foldDigests(make([]byte, 0, len(data)), data)
		small = len(folded) < minFramed // escaped bytes are longer
	}
	if small {
		out = make([]byte, 1+s2.MaxEncodedLen(len(folded)))
		out[0] = packedFolded
		out = out[:1+len(journalDict.Get().Encode(out[1:], folded))]
	} else {
		out = encoder.Get().EncodeAll(data, make([]byte, 0, len(data)/2))
	}
	if must || len(out) < len(data) {
		return out
	}
	return data
}

// isCompressed reports whether data begins like compressed data.
func isCompressed(data []byte) bool {
	return bytes.HasPrefix(data, zstdMagic) || len(data) > 0 && (data[0] == packedSmall || data[0] == packedFolded)
}

// Errors for compressed data that was not written like that.
var (
	errExpanded = errors.New("it is too long")
	errFolded   = errors.New("a digest or a byte is missing at its end")
)

// expandData is the inverse of compressData.
func expandData(data []byte) ([]byte, error) {
	if !isCompressed(data) {
		return data, nil
	}
	var out []byte
	var err error
	if data[0] == zstdMagic[0] {
		out, err = decoder.Get().DecodeAll(data, nil)
	} else if n, _ := s2.DecodedLen(data[1:]); n >= minFramed {
		err = errExpanded
	} else {
		out, err = journalDict.Get().Decode(make([]byte, n), data[1:])
	}
	if err == nil && data[0] == packedFolded {
		out, err = unfoldDigests(make([]byte, 0, 2*len(out)), out)
	}
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	return out, nil
}

// foldDigests appends data with folded digests to out.
func foldDigests(out, data []byte) []byte {
	for {
		i := indexDigest(data)
		if i < 0 {
			return escapeMarks(out, data)
		}
		out = append(escapeMarks(out, data[:i]), foldMark)
		out, _ = hex.AppendDecode(out, data[i:i+foldDigits]) // these are digits
		data = data[i+foldDigits:]
	}
}

// indexDigest returns the index of the first digest in data, or -1.
func indexDigest(data []byte) int {
	for i := 0; len(data)-i >= foldDigits; {
		last := i + foldDigits - 1 // most texts have another byte soon before it, and are skipped
		for last >= i && (data[last] >= '0' && data[last] <= '9' || data[last] >= 'a' && data[last] <= 'f') {
			last--
		}
		if last < i {
			return i
		}
		i = last + 1
	}
	return -1
}

func escapeMarks(out, data []byte) []byte {
	if bytes.IndexByte(data, foldMark) < 0 && bytes.IndexByte(data, escapeMark) < 0 {
		return append(out, data...)
	}
	for _, c := range data {
		if c >= escapeMark {
			out = append(out, escapeMark)
		}
		out = append(out, c)
	}
	return out
}

// unfoldDigests is the inverse of foldDigests.
func unfoldDigests(out, folded []byte) ([]byte, error) {
	from := 0
	for i := 0; i < len(folded); i++ {
		size := 0
		switch folded[i] {
		case foldMark:
			size = sha256.Size
		case escapeMark:
			size = 1
		default:
			continue
		}
		out = append(out, folded[from:i]...)
		if from = i + 1 + size; from > len(folded) {
			return nil, errFolded
		}
		if size == 1 {
			out = append(out, folded[i+1])
		} else {
			out = hex.AppendEncode(out, folded[i+1:from])
		}
		i = from - 1
	}
	return append(out, folded[from:]...), nil
}
