package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// A Voice makes the digest of all that a guest says: its lines in their order, and its questions in theirs. How the ones
// stand to the others can't be told, since lines take their time. Its methods are not for several goroutines at once.
type Voice struct {
	lines, questions hash.Hash
	over             bool
}

// NewVoice makes a Voice that has said nothing.
func NewVoice() *Voice { return &Voice{lines: sha256.New(), questions: sha256.New()} }

// Line takes a line. After the last word of a program, last, none counts.
func (v *Voice) Line(text []byte, last bool) {
	if !v.over {
		add(v.lines, text)
	}
	v.over = v.over || last
}

// Question takes a question that the guest stands still for.
func (v *Voice) Question(text []byte) {
	if !v.over {
		add(v.questions, text)
	}
}

// Sum gives the digest so far, in hexadecimal.
func (v *Voice) Sum() string {
	sum := sha256.Sum256(v.questions.Sum(v.lines.Sum(nil)))
	return hex.EncodeToString(sum[:])
}

func add(h hash.Hash, text []byte) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // never fails
	_, _ = h.Write(text)
}
