package tokens

import "unicode/utf8"

// maxMerged is the number of bytes of a word that are merged at once. It bounds the memory for a
// hostile text without spaces, and adds at most a token or two there.
const maxMerged = 16 << 10

// A merger counts the tokens of words by byte pair encoding: of all neighbours, the two that form
// the first token of the vocabulary are merged first. It can be used again, but not concurrently.
type merger struct {
	tables *tables // nil: not found yet
	parts  []part
	pairs  pairs
}

// A part is a part of a word.
type part struct {
	start, end int
	prev, next int // indexes of its neighbours; -1: none
	rank       int // of the token that it forms with the next part; -1: none
}

// A pair is a part that can be merged with the next one.
type pair struct{ rank, part int }

// isBefore reports whether p is merged before other.
func (p pair) isBefore(other pair) bool {
	return p.rank < other.rank || p.rank == other.rank && p.part < other.part
}

// pairs is a binary heap with the pair to merge first at its start.
type pairs []pair

// pushPair adds a pair.
func (h *pairs) pushPair(p pair) {
	all := append(*h, p)
	*h = all
	for i := len(all) - 1; i > 0; {
		above := (i - 1) / 2
		if !all[i].isBefore(all[above]) {
			return
		}
		all[i], all[above] = all[above], all[i]
		i = above
	}
}

// popPair removes the first pair, and returns it.
func (h *pairs) popPair() pair {
	all := *h
	first, last := all[0], len(all)-1
	all[0] = all[last]
	all = all[:last]
	*h = all
	for i := 0; ; {
		below := 2*i + 1
		if below >= last {
			return first
		}
		if below+1 < last && all[below+1].isBefore(all[below]) {
			below++
		}
		if !all[below].isBefore(all[i]) {
			return first
		}
		all[i], all[below] = all[below], all[i]
		i = below
	}
}

// countWord returns the number of tokens of a word.
func (m *merger) countWord(word string) int {
	if !utf8.ValidString(word) {
		word = string([]rune(word)) // with U+FFFD for each invalid byte
	}
	n := 0
	for len(word) > maxMerged {
		n += m.countPart(word[:maxMerged])
		word = word[maxMerged:]
	}
	return n + m.countPart(word)
}

func (m *merger) countPart(word string) int {
	if m.tables == nil {
		m.tables = findTables()
	}
	if _, ok := m.tables.findRank(word); ok {
		return 1
	}
	m.parts, m.pairs = m.parts[:0], m.pairs[:0]
	for i := range len(word) {
		m.parts = append(m.parts, part{start: i, end: i + 1, prev: i - 1, next: i + 1, rank: -1})
	}
	m.parts[len(word)-1].next = -1
	for i := range m.parts {
		m.addPair(word, i)
	}
	count := len(word)
	for len(m.pairs) > 0 {
		p := m.pairs.popPair()
		first := &m.parts[p.part]
		if first.rank != p.rank {
			continue // one of the two was merged meanwhile
		}
		second := &m.parts[first.next]
		first.end, first.next = second.end, second.next
		second.rank = -1
		if first.next >= 0 {
			m.parts[first.next].prev = p.part
		}
		count--
		m.addPair(word, p.part)
		if first.prev >= 0 {
			m.addPair(word, first.prev)
		}
	}
	if cap(m.parts) > MinSample { // after a rare long word
		m.parts, m.pairs = nil, nil
	}
	return count
}

// addPair finds the token that a part forms with the next one.
func (m *merger) addPair(word string, i int) {
	p := &m.parts[i]
	p.rank = -1
	if p.next < 0 {
		return
	}
	if rank, ok := m.tables.findRank(word[p.start:m.parts[p.next].end]); ok {
		p.rank = rank
		m.pairs.pushPair(pair{rank, i})
	}
}
