package catalog

import (
	_ "embed"
	"math"
	"strings"
)

// vectorData holds words and their meanings as vectors: words with similar usage have similar
// directions. Its origin, license and generation are described in third_party/wordvectors.
//
// The format is "BWV2", the number of words n and of dimensions d, n+1 offsets of words, n ranks by
// frequency (uint16), the words in alphabetical order, and n*d components. A component has 4 bits
// that hold its value plus 8; the first of two in a byte is in the lower half. All numbers are
// little-endian and unsigned, and have 4 bytes unless noted otherwise.
//
//go:embed vectors.bin
var vectorData string

// wordVectors reads vectorData in place.
type wordVectors struct {
	n, dims                     int
	offsets, ranks, text, parts string
}

// loadVectors returns the embedded vectors, without copying them.
func loadVectors() wordVectors {
	const head = 12
	w := wordVectors{n: le32(vectorData[4:]), dims: le32(vectorData[8:])}
	w.offsets = vectorData[head : head+4*(w.n+1)]
	w.ranks = vectorData[head+len(w.offsets):][:2*w.n]
	w.text = vectorData[head+len(w.offsets)+len(w.ranks):][:le32(w.offsets[4*w.n:])]
	w.parts = vectorData[head+len(w.offsets)+len(w.ranks)+len(w.text):]
	return w
}

func le32(s string) int { return int(s[0]) | int(s[1])<<8 | int(s[2])<<16 | int(s[3])<<24 }

func (w wordVectors) word(i int) string {
	return w.text[le32(w.offsets[4*i:]):le32(w.offsets[4*i+4:])]
}

// find returns the index of a word, or -1.
func (w wordVectors) find(word string) int {
	if i := w.from(word); i < w.n && w.word(i) == word {
		return i
	}
	return -1
}

// from returns the index of the first word that is not less than word.
func (w wordVectors) from(word string) int {
	lo, hi := 0, w.n
	for lo < hi {
		mid := (lo + hi) / 2
		if w.word(mid) < word {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// rank returns how many words are more frequent in English than word i, at most 65535.
func (w wordVectors) rank(i int) int { return int(w.ranks[2*i]) | int(w.ranks[2*i+1])<<8 }

// meaning returns the vector of a word. If there is none, it returns the vector of the word's
// singular or of its two parts (payslip: pay, slip), or nil.
func (w wordVectors) meaning(word string) []float32 {
	if i := w.find(word); i >= 0 {
		return w.vector(i)
	}
	if s, ok := strings.CutSuffix(word, "s"); ok && len(s) > 3 {
		return w.meaning(s)
	}
	first, second, rarest := -1, -1, maxPartRank
	for k := minPart; k <= len(word)-minPart; k++ {
		a, b := w.find(word[:k]), w.find(word[k:])
		if a < 0 || b < 0 {
			continue
		}
		if r := max(w.rank(a), w.rank(b)); r < rarest {
			first, second, rarest = a, b, r
		}
	}
	if first < 0 {
		return nil
	}
	v := w.vector(first)
	add(v, w.vector(second), 1)
	normalize(v)
	return v
}

// Limits for the parts of a compound word: minimum length and maximum rank.
const (
	minPart     = 3
	maxPartRank = 10000
)

// rarity returns how informative the word i is, given its frequency in English. It is about 1 for a
// rare word, and 1 for an unknown one (-1). The most frequent words, which occur in any text, have
// almost no information.
func (w wordVectors) rarity(i int) float32 {
	const rare, filler = 40000, 50 // ranks
	if i < 0 {
		return 1
	}
	r := float64(w.rank(i))
	return float32(math.Log(r+20) / math.Log(rare) * (r + 10) / (r + 10 + filler))
}

// vector returns the vector of word i, normalized to length 1.
func (w wordVectors) vector(i int) []float32 {
	out := make([]float32, w.dims)
	part := w.parts[i*w.dims/2:][:w.dims/2]
	for k := range part {
		out[2*k], out[2*k+1] = float32(part[k]&15)-8, float32(part[k]>>4)-8
	}
	normalize(out)
	return out
}

// normalize scales v to length 1, unless it is zero.
func normalize(v []float32) {
	n := math.Sqrt(float64(dot(v, v)))
	if n == 0 {
		return
	}
	for k := range v {
		v[k] /= float32(n)
	}
}

// dot returns the inner product; b is at least as long as a.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// add adds b scaled by by to a, which has the same length; b may also be nil.
func add(a, b []float32, by float32) {
	for i := range b {
		a[i] += b[i] * by
	}
}
