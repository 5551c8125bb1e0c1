package record

import (
	"bytes"
	_ "embed"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// Dictionaries have what most leaves have in common. They must never change: packed leaves refer to
// them.
var (
	//go:embed leaf.dict
	olderDictionary []byte
	//go:embed fold.dict
	newerDictionary []byte
	//go:embed event.dict
	eventDictionary []byte
)

var (
	olderDict = lazily.Value[*s2.Dict]{Make: func() *s2.Dict { return makeDict(olderDictionary, digestFolds) }}
	newerDict = lazily.Value[*s2.Dict]{Make: func() *s2.Dict { return makeDict(newerDictionary, newerFolds) }}
	// line ends are folds in it
	newestDict = lazily.Value[*s2.Dict]{Make: func() *s2.Dict {
		text := slices.Concat(eventDictionary, newerDictionary)
		return makeDict(bytes.ReplaceAll(text, []byte("\n"), nil), newestFolds)
	}}
)

func makeDict(text []byte, folds []fold) *s2.Dict {
	folded, _ := foldTexts(nil, text, folds)
	return s2.MakeDict(folded, nil)
}

// The first byte of a packed leaf is its form. Its texts are folded, and it is compressed with a
// dictionary.
const (
	packedDigests = 1 // digestFolds and olderDict; only read
	packedTexts   = 3 // newerFolds and newerDict; only read. 2 is archivedMark
	packedCall    = 4 // newestFolds and newestDict
	packedEvent   = 5 // the same for an event: Newest searches for them
)

// maxUnpacked is the maximum size of a packed leaf in bytes, before and after it is folded.
const maxUnpacked = 64 << 10

var errPacked = errors.New("the leaf can't be unpacked")

// formOf returns the form of a new leaf.
func formOf(leaf []byte) byte {
	// no leaf of a call has this text, since quotation marks are escaped in strings
	if bytes.Contains(leaf, []byte(`"part":"event"`)) {
		return packedEvent
	}
	return packedCall
}

// packLeaf compresses a leaf: to a form and an S2 block. It returns nil if the leaf should be
// stored as it is.
func packLeaf(data []byte) []byte {
	if len(data) > maxUnpacked {
		return nil
	}
	folded, ok := foldTexts(make([]byte, 0, 1024), data, newestFolds)
	if !ok {
		return nil
	}
	out := make([]byte, 1+s2.MaxEncodedLen(len(folded)))
	out[0] = formOf(data)
	block := newestDict.Get().Encode(out[1:], folded)
	if 1+len(block) >= len(data) {
		return nil
	}
	return out[:1+len(block)]
}

// UnpackLeaf returns a leaf as it was hashed, from the two columns that store it: as it is, or
// packed. A packed leaf has at most maxUnpacked bytes.
func UnpackLeaf(leaf, packed []byte) ([]byte, error) {
	var u unpacker
	return u.unpackLeaf(leaf, packed)
}

// An unpacker unpacks leaves to the same memory.
type unpacker struct{ folded, leaf []byte }

// unpackLeaf is UnpackLeaf. A leaf that was packed is valid until the next call.
func (u *unpacker) unpackLeaf(leaf, packed []byte) ([]byte, error) {
	if packed == nil {
		return leaf, nil
	}
	if len(leaf) > 0 || len(packed) == 0 {
		return nil, errPacked
	}
	dict, folds := &newestDict, newestFolds
	switch packed[0] {
	case packedCall, packedEvent:
	case packedTexts:
		dict, folds = &newerDict, newerFolds
	case packedDigests:
		dict, folds = &olderDict, digestFolds
	default:
		return nil, errPacked
	}
	n, err := s2.DecodedLen(packed[1:])
	if err != nil || n > maxUnpacked {
		return nil, errPacked
	}
	u.folded = slices.Grow(u.folded[:0], n)[:n]
	folded, err := dict.Get().Decode(u.folded, packed[1:])
	if err != nil {
		return nil, errPacked
	}
	u.leaf, err = unfoldTexts(u.leaf[:0], folded, folds)
	if err != nil {
		return nil, err
	}
	// Older versions packed no events. In another form, Newest wouldn't find one.
	if (packed[0] == packedEvent) != (formOf(u.leaf) == packedEvent) {
		return nil, errPacked
	}
	return u.leaf, nil
}
