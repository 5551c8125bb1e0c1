package store

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Sizes in bytes from which data is compressed, and from which it is a Zstandard frame. Smaller
// data is compressed with a dictionary, to the byte packedSmall and an S2 block. That needs a third
// of the time of a Zstandard frame, and the journal of a small program becomes shorter.
const (
	minCompressed = 64
	minFramed     = 16 << 10
)

// packedSmall begins small compressed data. JSON never begins with it.
const packedSmall = 1

// journalDictionary has what most journals have in common. It must never change: compressed
// journals refer to it.
//
//go:embed journal.dict
var journalDictionary []byte

var journalDict = sync.OnceValue(func() *s2.Dict { return s2.MakeDict(journalDictionary, nil) })

// maxExpanded is the maximum size in bytes of data that was compressed. It is far above what is
// written: the limit is for files that others have changed.
const maxExpanded = 256 << 20

// zstdMagic begins each Zstandard frame (RFC 8878, section 3.1.1). JSON never begins with it.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(64<<10))
	if err != nil {
		panic(err) // the options are wrong
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxExpanded))
	if err != nil {
		panic(err) // the options are wrong
	}
	return d
})

// compressData returns data in compressed form, or data itself if that isn't longer. Data that
// begins like compressed data is always compressed, so that expandData can tell.
func compressData(data []byte) []byte {
	must := isCompressed(data)
	if len(data) < minCompressed && !must {
		return data
	}
	var out []byte
	if len(data) < minFramed {
		out = make([]byte, 1+s2.MaxEncodedLen(len(data)))
		out[0] = packedSmall
		out = out[:1+len(journalDict().Encode(out[1:], data))]
	} else {
		out = encoder().EncodeAll(data, make([]byte, 0, len(data)/2))
	}
	if must || len(out) < len(data) {
		return out
	}
	return data
}

// isCompressed reports whether data begins like compressed data.
func isCompressed(data []byte) bool {
	return bytes.HasPrefix(data, zstdMagic) || len(data) > 0 && data[0] == packedSmall
}

// errExpanded is the error for compressed data that is longer than what is written.
var errExpanded = errors.New("it is too long")

// expandData is the inverse of compressData.
func expandData(data []byte) ([]byte, error) {
	if !isCompressed(data) {
		return data, nil
	}
	var out []byte
	var err error
	if data[0] != packedSmall {
		out, err = decoder().DecodeAll(data, nil)
	} else if n, _ := s2.DecodedLen(data[1:]); n >= minFramed {
		err = errExpanded
	} else {
		out, err = journalDict().Decode(make([]byte, n), data[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	return out, nil
}
