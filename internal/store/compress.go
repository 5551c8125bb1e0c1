package store

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// minCompressed is the size in bytes from which data is compressed. The first use of the encoder
// costs 0.5 ms: too much for the journal of a small program.
const minCompressed = 1 << 10

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

// compressData returns data as a Zstandard frame, or data itself if that isn't longer. Data that
// begins like a frame is always compressed, so that expandData can tell.
func compressData(data []byte) []byte {
	framed := bytes.HasPrefix(data, zstdMagic)
	if len(data) < minCompressed && !framed {
		return data
	}
	if out := encoder().EncodeAll(data, make([]byte, 0, len(data)/2)); framed || len(out) < len(data) {
		return out
	}
	return data
}

// expandData is the inverse of compressData.
func expandData(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, zstdMagic) {
		return data, nil
	}
	out, err := decoder().DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	return out, nil
}
