package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/klauspost/compress/s2"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

// packedItems begins an encoded pack, whose items are compressed to an S2 block. Older versions
// didn't compress them. Their packs begin with the length of a digest, which isn't 0.
const packedItems = 0

// maxItems is the maximum size in bytes of the items of a pack. It is far above what is written.
const maxItems = 1 << 20

// appendItem appends an item of a pack. It has the size of its data as a varint, shifted left by
// one bit. The lowest bit is set if the digest follows as its 32 bytes. Otherwise the digest's size
// and text follow. The data is last.
func appendItem(b []byte, k retention.Kept) []byte {
	size := uint64(len(k.Data)) << 1
	if digest, ok := foldDigest(k.Digest); ok {
		b = append(binary.AppendUvarint(b, size|1), digest[:]...)
	} else {
		b = binary.AppendUvarint(binary.AppendUvarint(b, size), uint64(len(k.Digest)))
		b = append(b, k.Digest...)
	}
	return append(b, k.Data...)
}

// foldDigest returns the bytes that the digits of a digest stand for. It reports false if the
// digest can't be restored from them.
func foldDigest(text string) (digest [sha256.Size]byte, ok bool) {
	folded := foldDigests(nil, []byte(text))
	if len(folded) != 1+sha256.Size || folded[0] != foldMark {
		return digest, false
	}
	return [sha256.Size]byte(folded[1:]), true
}

// encodeItems encodes the items of a pack.
func encodeItems(items []byte) []byte {
	out := make([]byte, 1+s2.MaxEncodedLen(len(items)))
	out[0] = packedItems
	return out[:1+len(s2.Encode(out[1:], items))]
}

// eachItem calls f with each item of an encoded pack. It returns secret.ErrUnseal if the pack is
// malformed.
func eachItem(data []byte, f func(digest string, data []byte) error) error {
	cut := cutOldItem
	if len(data) > 0 && data[0] == packedItems {
		n, err := s2.DecodedLen(data[1:])
		if err != nil || n > maxItems {
			return secret.ErrUnseal
		}
		if data, err = s2.Decode(nil, data[1:]); err != nil {
			return secret.ErrUnseal
		}
		cut = cutItem
	}
	for len(data) > 0 {
		digest, item, rest, ok := cut(data)
		if !ok {
			return secret.ErrUnseal
		}
		if err := f(digest, item); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// cutItem cuts the first item: see appendItem.
func cutItem(items []byte) (digest string, data, rest []byte, ok bool) {
	size, n := binary.Uvarint(items)
	if n <= 0 {
		return "", nil, nil, false
	}
	items = items[n:]
	if size&1 == 0 {
		if digest, items, ok = cutText(items); !ok {
			return "", nil, nil, false
		}
	} else {
		if len(items) < sha256.Size {
			return "", nil, nil, false
		}
		digest, items = digestPrefix+hex.EncodeToString(items[:sha256.Size]), items[sha256.Size:]
	}
	if size >>= 1; size > uint64(len(items)) {
		return "", nil, nil, false
	}
	return digest, items[:size:size], items[size:], true
}

// cutText cuts a text that follows its size.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return "", nil, false
	}
	b = b[n:]
	return string(b[:size]), b[size:], true
}

// cutOldItem cuts the first item as older versions wrote it: the sizes of its digest and of its
// data as varints, then the digest and the data.
func cutOldItem(items []byte) (digest string, data, rest []byte, ok bool) {
	n, a := binary.Uvarint(items)
	if a <= 0 {
		return "", nil, nil, false
	}
	m, b := binary.Uvarint(items[a:])
	if b <= 0 {
		return "", nil, nil, false
	}
	items = items[a+b:]
	if n > uint64(len(items)) || m > uint64(len(items))-n {
		return "", nil, nil, false
	}
	return string(items[:n]), items[n : n+m : n+m], items[n+m:], true
}
