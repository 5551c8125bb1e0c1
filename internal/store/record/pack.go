package record

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// leafDictionary has what most leaves of calls have in common. It must never change: packed leaves
// refer to it.
//
//go:embed leaf.dict
var leafDictionary []byte

var leafDict = sync.OnceValue(func() *s2.Dict { return s2.MakeDict(foldDigests(nil, leafDictionary), nil) })

// packedDict begins a packed leaf: its digests are folded, and it is compressed with leafDict.
const packedDict = 1

// A folded digest is the byte foldMark, which JSON never has, and the bytes that the digits of the
// digest stand for.
const (
	digestPrefix = "hmac-sha256:"
	foldMark     = 0x01
)

// maxUnpacked is the maximum size of a packed leaf in bytes, before it is packed.
const maxUnpacked = 64 << 10

var errPacked = errors.New("the leaf can't be unpacked")

// packLeaf compresses a leaf of a call: to the byte packedDict and an S2 block. It returns nil if
// the leaf should be stored as it is.
func packLeaf(data []byte) []byte {
	if len(data) > maxUnpacked || bytes.IndexByte(data, foldMark) >= 0 {
		return nil
	}
	folded := foldDigests(make([]byte, 0, 1024), data)
	out := make([]byte, 1+s2.MaxEncodedLen(len(folded)))
	out[0] = packedDict
	block := leafDict().Encode(out[1:], folded)
	if 1+len(block) >= len(data) {
		return nil
	}
	return out[:1+len(block)]
}

// UnpackLeaf returns a leaf as it was hashed, from the two columns that store it: as it is, or
// packed. A packed leaf has at most three times maxUnpacked bytes.
func UnpackLeaf(leaf, packed []byte) ([]byte, error) {
	var u unpacker
	return u.unpackLeaf(leaf, packed)
}

// An unpacker unpacks leaves to the same memory.
type unpacker struct{ folded, leaf []byte }

// unpackLeaf is UnpackLeaf. A leaf that was packed is valid until the next call.
func (u *unpacker) unpackLeaf(leaf, packed []byte) ([]byte, error) {
	switch {
	case packed == nil:
		return leaf, nil
	case len(leaf) > 0 || len(packed) == 0 || packed[0] != packedDict:
		return nil, errPacked
	}
	n, err := s2.DecodedLen(packed[1:])
	if err != nil || n > maxUnpacked {
		return nil, errPacked
	}
	u.folded = slices.Grow(u.folded[:0], n)[:n]
	folded, err := leafDict().Decode(u.folded, packed[1:])
	if err != nil {
		return nil, errPacked
	}
	u.leaf, err = unfoldDigests(u.leaf[:0], folded)
	if err != nil {
		return nil, err
	}
	return u.leaf, nil
}

// foldDigests appends a leaf with folded digests to out.
func foldDigests(out, leaf []byte) []byte {
	for {
		before, after, found := bytes.Cut(leaf, []byte(digestPrefix))
		out = append(out, before...)
		if !found {
			return out
		}
		leaf = after
		var digest [sha256.Size]byte
		digits := after[:min(len(after), hex.EncodedLen(sha256.Size))]
		if _, err := hex.Decode(digest[:], digits); err != nil || len(digits) < hex.EncodedLen(sha256.Size) ||
			bytes.ContainsAny(digits, "ABCDEF") {
			out = append(out, digestPrefix...)
			continue
		}
		out = append(append(out, foldMark), digest[:]...)
		leaf = after[len(digits):]
	}
}

// unfoldDigests is the inverse of foldDigests.
func unfoldDigests(out, folded []byte) ([]byte, error) {
	for {
		before, after, found := bytes.Cut(folded, []byte{foldMark})
		out = append(out, before...)
		if !found {
			return out, nil
		}
		if len(after) < sha256.Size {
			return nil, errPacked
		}
		out = hex.AppendEncode(append(out, digestPrefix...), after[:sha256.Size])
		folded = after[sha256.Size:]
	}
}
