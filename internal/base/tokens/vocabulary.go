package tokens

import (
	_ "embed" // vocabulary
	"sort"
)

// vocabulary is the vocabulary of o200k_base; third_party/o200k documents its origin. It is read
// directly from the program's file, so it needs no heap memory. It has a table for each size of a
// token, from 1 to maxToken bytes: the number of tokens (3 bytes, big endian), the tokens in order,
// and their ranks (3 bytes each).
//
//go:embed vocabulary.bin
var vocabulary string

// maxToken is the size of the longest token in bytes.
const maxToken = 128

// tables are the positions of the tables in the vocabulary, by the size of their tokens.
type tables [maxToken + 1]int

// findTables finds the tables.
func findTables() *tables {
	var t tables
	next := 0
	for size := 1; size <= maxToken; size++ {
		t[size] = next
		next += 3 + readNumber(next)*(size+3)
	}
	return &t
}

// readNumber reads a number from the vocabulary.
func readNumber(at int) int {
	return int(vocabulary[at])<<16 | int(vocabulary[at+1])<<8 | int(vocabulary[at+2])
}

// findRank returns the rank of a token, and whether there is such a token.
func (t *tables) findRank(token string) (int, bool) {
	size := len(token)
	if size == 0 || size > maxToken {
		return 0, false
	}
	count, first := readNumber(t[size]), t[size]+3
	i := sort.Search(count, func(i int) bool { return vocabulary[first+i*size:][:size] >= token })
	if i == count || vocabulary[first+i*size:][:size] != token {
		return 0, false
	}
	return readNumber(first + count*size + i*3), true
}
