package catalog

import (
	"math"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// A queryTerm is one word or phrase of a query, with all matching words of tools.
type queryTerm struct {
	weight float32
	vector []float32         // its meaning; nil if unknown
	found  map[int32]float32 // weight of each matching term, at most 1
}

// parse splits a query into phrases of the thesaurus and words.
func (x *index) parse(query string, t tuning) []queryTerm {
	list := splitWords(query)
	list = list[:min(len(list), maxQueryWords)]
	stems := make([]string, len(list))
	for i, w := range list {
		stems[i] = stem(w)
	}
	var out []queryTerm
	for i := 0; i < len(list) && len(out) < maxQueryTerms; {
		if n := synonyms().phrase(stems[i:]); n > 1 {
			if q := x.term(strings.Join(stems[i:i+n], " "), "", t); len(q.found) > 0 {
				out = append(out, q)
				i += n
				continue
			}
		}
		if w := list[i]; !stopWords.Has(w) && !slices.Contains(list[:i], w) {
			q := x.term(stems[i], w, t)
			if weakWords.Has(w) {
				q.weight *= t.Weak
			}
			out = append(out, q)
		}
		i++
	}
	if len(out) == 0 && len(list) > 0 { // nothing but stop words
		for i, w := range list[:min(len(list), maxQueryTerms)] {
			out = append(out, x.term(stems[i], w, t))
		}
	}
	return out
}

// term finds the matches of one word or phrase. stems are its stems; word is empty for a phrase.
func (x *index) term(stems, word string, t tuning) queryTerm {
	rarest := float32(math.Log(1 + (float64(len(x.entries))+0.5)/0.5))
	q := queryTerm{weight: rarest, found: map[int32]float32{}}
	own, known := x.terms[stems]
	if known {
		q.found[own] = 1
		q.weight = x.idf[own]
	}
	for _, other := range synonyms().same[stems] {
		if id, ok := x.terms[other]; ok && id != own {
			q.found[id] = max(q.found[id], t.Synonym*x.reduceWeight(id, rarest, t))
		}
	}
	if word == "" {
		return q
	}
	n := x.words.find(word)
	if n < 0 && !known && len(q.found) == 0 {
		if x.matchTypos(&q, word, t); len(q.found) > 0 {
			return q
		}
		if n = x.words.nearestWord(word); n >= 0 {
			right := x.term(stem(x.words.word(n)), x.words.word(n), t)
			right.weight *= t.Typo
			return right
		}
	}
	if q.vector = x.words.meaning(word); q.vector == nil {
		return q
	}
	q.weight *= x.words.rarity(n)
	if !known {
		q.weight *= t.Unknown
	}
	for _, n := range x.findNeighbours(word, q.vector, t.NearFrom) {
		share := t.Near * (n.likeness - t.NearFrom) / (1 - t.NearFrom) * x.reduceWeight(n.term, rarest, t)
		q.found[n.term] = max(q.found[n.term], share)
	}
	return q
}

// A neighbour is a term that means nearly the same as a word of the query.
type neighbour struct {
	term     int32
	likeness float32
}

// maxKnown is the maximum number of words whose neighbours are cached.
const maxKnown = 4096

// findNeighbours returns the neighbours of an English word. It searches all terms and caches the
// result, since queries repeat the same few words.
func (x *index) findNeighbours(word string, vector []float32, from float32) []neighbour {
	x.mu.Lock()
	found, ok := x.neighbours[word]
	x.mu.Unlock()
	if ok {
		return found
	}
	for i, term := range x.meant {
		if l := dot(vector, x.vectors[i*x.words.dims:]); l > from {
			found = append(found, neighbour{term, l})
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.neighbours == nil || len(x.neighbours) >= maxKnown {
		x.neighbours = map[string][]neighbour{}
	}
	x.neighbours[word] = found
	return found
}

// reduceWeight reduces the weight of a substitute term that occurs in many tools.
func (x *index) reduceWeight(id int32, rarest float32, t tuning) float32 {
	return (1 - t.Common) + t.Common*x.idf[id]/rarest
}

// matchTypos matches word with similar words of the tools, as misspellings.
func (x *index) matchTypos(q *queryTerm, word string, t tuning) {
	allowed := allowedTypos(word)
	if allowed == 0 {
		return
	}
	for id, term := range x.surfaces {
		for _, s := range [...]string{term.surface, term.stem} {
			if n := countTypos(s, word, allowed); n > 0 {
				q.found[int32(id)] = max(q.found[int32(id)], t.Typo/float32(n))
			}
		}
	}
}

// allowedTypos returns the maximum number of typing errors in a word.
func allowedTypos(word string) int {
	switch {
	case len(word) < 4 || len(word) > 40:
		return 0
	case len(word) < 8:
		return 1
	}
	return 2
}

// countTypos returns the number of typing errors between s and word, which must start with the same
// letter. It returns 0 for none, or for more than allowed.
func countTypos(s, word string, allowed int) int {
	if d := len(s) - len(word); s == "" || max(d, -d) > allowed || s[0] != word[0] {
		return 0
	}
	if n := text.EditDistance([]byte(s), []byte(word)); n <= allowed {
		return n
	}
	return 0
}

// nearestWord returns the index of the English word with the fewest typing errors relative to word,
// and among those the most frequent; -1 if there is none.
func (w wordVectors) nearestWord(word string) int {
	allowed := allowedTypos(word)
	if allowed == 0 {
		return -1
	}
	best, fewest := -1, allowed+1
	for i := w.from(word[:1]); i < w.n && w.word(i)[0] == word[0]; i++ {
		n := countTypos(w.word(i), word, allowed)
		if n > 0 && (n < fewest || n == fewest && w.rank(i) < w.rank(best)) {
			best, fewest = i, n
		}
	}
	return best
}

// weakWords name an action, and hardly its subject.
var weakWords = lazily.Words(`show give tell find get make put see look what how where when why know take try go ` +
	`keep set run`)
