package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// An OutputDigest computes the digest of a guest's output: of its lines in order, and of its
// questions in order. The relative order of lines and questions is not part of it, since lines
// arrive with a delay. An OutputDigest is not safe for concurrent use.
type OutputDigest struct {
	lines, questions hash.Hash
	over             bool
}

// NewOutputDigest returns an empty OutputDigest.
func NewOutputDigest() *OutputDigest {
	return &OutputDigest{lines: sha256.New(), questions: sha256.New()}
}

// Line adds a line. Lines after the program's last one are ignored.
func (v *OutputDigest) Line(text []byte, last bool) {
	if !v.over {
		add(v.lines, text)
	}
	v.over = v.over || last
}

// Question adds a question that the guest blocks on.
func (v *OutputDigest) Question(text []byte) {
	if !v.over {
		add(v.questions, text)
	}
}

// Sum returns the digest so far, in hexadecimal.
func (v *OutputDigest) Sum() string {
	sum := sha256.Sum256(v.questions.Sum(v.lines.Sum(nil)))
	return hex.EncodeToString(sum[:])
}

func add(h hash.Hash, text []byte) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // never fails
	_, _ = h.Write(text)
}
