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
// one bit, the digest's size and text, and the data. The text is empty if it is the data's digest
// under key, as it always is in a log: a digest is longer than most arguments.
func appendItem(b []byte, key *secret.Key, k retention.Kept) []byte {
	digest := k.Digest
	if digest == retention.Digest(key, k.Data) {
		digest = ""
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(len(k.Data))<<1), uint64(len(digest)))
	return append(append(b, digest...), k.Data...)
}

// encodeItems encodes the items of a pack.
func encodeItems(items []byte) []byte {
	out := make([]byte, 1+s2.MaxEncodedLen(len(items)))
	out[0] = packedItems
	return out[:1+len(s2.Encode(out[1:], items))]
}

// eachItem calls f with each item of an encoded pack. The digest is empty if it is not stored: see
// appendItem. eachItem returns secret.ErrUnseal if the pack is malformed.
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

// cutItem cuts the first item: see appendItem. If the lowest bit of the size is set, the digest
// follows as its 32 bytes: an older version wrote it.
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
		digest, items = newerFolds[0].prefix+hex.EncodeToString(items[:sha256.Size]), items[sha256.Size:]
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
