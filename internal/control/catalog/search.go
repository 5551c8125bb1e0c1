package catalog

import (
	"container/heap"
	"math"
	"sync"
)

// An index answers queries on the tools of one View. It is built on the first query.
//
// A query consists of a few terms. For each term, the index looks up the matching words of tools:
// the word itself, its synonyms in the thesaurus, and words with a similar meaning according to
// their vectors. For an unknown word, it also looks up words that differ by typing errors. For each
// term, a tool gets the weight of the best of these matches (BM25F). For the whole query, it gets
// the similarity of its own meaning, and with a small weight that of its upstream.
type index struct {
	once      sync.Once
	upstreams []*upstream
	words     wordVectors

	entries  []*Entry
	same     []int32            // by tool: the first one with an equal definition, at any upstream
	copies   map[int32][]int32  // by such a first one: all tools with this definition, if several
	names    map[string][]int32 // tools by name, squashed
	terms    map[string]int32   // by stem
	surfaces []docTerm          // by term, as are posts and idf
	posts    [][]posting
	idf      []float32
	cores    [][]int32 // by tool: the terms of its name and title, if it is an operation of an API
	deeds    []deed    // by tool

	centers []float32 // meanings of the tools
	hubs    []float32 // by tool: how much nearer than others it is to any word
	domains []float32 // meanings of the upstreams
	domain  []int32   // index of the upstream, by tool
	meant   []int32   // terms with a known meaning
	vectors []float32 // their meanings, in the order of meant

	mu         sync.Mutex
	neighbours map[string][]neighbour // by English word
}

type posting struct {
	tool   int32
	weight float32 // since computeWeights, it includes what counts of aside
	aside  float32 // weight in the tool's parameters
}

// tuning holds the ranker's parameters. TestSearchQuality documents the data sets on which they
// were chosen.
type tuning struct {
	K1       float32 // saturation of repeated occurrences (BM25)
	Synonym  float32 // weight of a synonym, relative to the word itself
	Near     float32 // maximum weight of a word with a similar meaning
	NearFrom float32 // similarity from which such a word counts
	Center   float32 // weight of the similarity to the whole query
	Hub      float32 // fraction of it that is subtracted for a tool that is near to any word
	Domain   float32 // weight of the similarity to the upstream
	Typo     float32 // weight of a word that differs by a typing error
	Weak     float32 // weight of words with little meaning
	Common   float32 // reduction for substitutes that occur in many tools
	Unknown  float32 // weight of words that occur in no tool
	Deed     float32 // reduction for a tool that does something else than the query asks for
	Extra    float32 // reduction for words of an operation's name and title that the query doesn't have
}

func defaultTuning() tuning {
	return tuning{K1: 1.5, Synonym: 0.85, Near: 0.65, NearFrom: 0.4, Center: 0.75, Hub: 0.5, Domain: 0.1, Typo: 0.8,
		Weak: 0.5, Common: 0.3, Unknown: 0.75, Extra: 0.4, Deed: 0.25}
}

const (
	maxQuery      = 2000 // bytes
	maxQueryWords = 64
	maxQueryTerms = 16
	exactName     = 100  // score of a tool whose name equals the query
	faint         = 0.55 // minimum score of a real match: 2 of 100 expected tools have less
	similar       = 0.2  // score of a tool whose name is almost spelled like the query
	maxNearest    = 3    // hits for a query that no tool fits
)

// Search returns the best matches for the query, best first, at most limit. A query that contains a
// word always has results, even if only the most similar names. An empty query has none.
func (v *View) Search(query string, limit int) []Hit {
	hits, _ := v.searchTools(query, limit)
	return hits
}

// Warm builds the index for Search unless it is built already, so that the first query needn't wait
// for it: about half a second for 10,000 tools. It returns when the index is built.
func (v *View) Warm() {
	if len(v.entries) > 0 {
		v.index.once.Do(v.index.build)
	}
}

// searchTools implements Search. found reports whether the best hit is a real match, or merely the
// nearest.
func (v *View) searchTools(query string, limit int) (hits []Hit, found bool) {
	if limit <= 0 || len(v.entries) == 0 || len(splitWords(cutQuery(query))) == 0 {
		return nil, false
	}
	v.Warm()
	x := v.index
	hits, scores := x.search(query, limit, defaultTuning(), v.hidden)
	if hits[0].Score >= similar {
		return hits, hits[0].Score >= faint
	}
	asked := spellingOf(query)
	for i, e := range x.entries {
		if !v.hidden[e] {
			scores[i] = max(scores[i], similar*float32(max(asked.like(e.Member), asked.like(e.Path()))))
		}
	}
	return x.top(scores, limit, v.hidden), false
}

func cutQuery(q string) string { return q[:min(len(q), maxQuery)] }

// build indexes the tools.
func (x *index) build() {
	x.words = loadVectors()
	x.terms, x.names, x.copies = map[string]int32{}, map[string][]int32{}, map[int32][]int32{}
	firsts := map[uint64]int32{}
	for k, u := range x.upstreams {
		u.block.once.Do(func() { u.block.docs = newDocs(u.block.tools) })
		d := u.block.docs
		ids := make([]int32, len(d.terms))
		for i, t := range d.terms {
			id, ok := x.terms[t.stem]
			if !ok {
				id = int32(len(x.surfaces))
				x.terms[t.stem] = id
				x.surfaces = append(x.surfaces, t)
				x.posts = append(x.posts, nil)
			}
			ids[i] = id
		}
		for i, list := range d.lists {
			n := int32(len(x.entries))
			e := u.entries[i]
			x.entries, x.domain = append(x.entries, e), append(x.domain, int32(k))
			x.addDefinition(n, d.sums[i], firsts)
			for _, name := range [...]string{e.Member, e.Path(), e.Composed, e.Tool.Title} {
				s := string(squash(name))
				x.names[s] = append(x.names[s], n)
			}
			var core []int32
			for _, tw := range list {
				if tw.core {
					core = append(core, ids[tw.term])
				}
				x.posts[ids[tw.term]] = append(x.posts[ids[tw.term]], posting{n, tw.weight, tw.aside})
			}
			x.cores, x.deeds = append(x.cores, core), append(x.deeds, d.deeds[i])
		}
	}
	x.computeWeights()
}

// addDefinition notes which earlier tools have the same definition as tool n.
func (x *index) addDefinition(n int32, sum uint64, firsts map[uint64]int32) {
	first, ok := firsts[sum]
	if !ok {
		firsts[sum], first = n, n
	} else {
		if x.copies[first] == nil {
			x.copies[first] = []int32{first}
		}
		x.copies[first] = append(x.copies[first], n)
	}
	x.same = append(x.same, first)
}

// computeWeights computes the values that depend on all tools together.
func (x *index) computeWeights() {
	n, dims := float64(len(x.entries)), x.words.dims
	x.idf = make([]float32, len(x.posts))
	x.centers = make([]float32, len(x.entries)*dims)
	for id, posts := range x.posts {
		x.idf[id] = weighAsides(posts, n)
		v := x.words.meaning(x.surfaces[id].surface)
		if v == nil {
			v = x.words.meaning(x.surfaces[id].stem)
		}
		if v == nil {
			continue
		}
		x.meant, x.vectors = append(x.meant, int32(id)), append(x.vectors, v...)
		for _, p := range posts {
			add(x.centers[int(p.tool)*dims:][:dims], v, x.idf[id]*p.weight/(1+p.weight))
		}
	}
	x.domains = make([]float32, len(x.upstreams)*dims)
	for i, k := range x.domain {
		c := x.centers[i*dims:][:dims]
		normalize(c)
		add(x.domains[int(k)*dims:][:dims], c, 1)
	}
	for k := range x.upstreams {
		normalize(x.domains[k*dims:][:dims])
	}
	x.weighHubs()
}

// weighAsides adds what the occurrences of a term in parameters count to the weights of its
// postings. It returns the term's idf among n tools. The occurrences count less, the more common
// they are. If every tool has the parameter include_archived, and a few are named archive, the word
// is about these few.
func weighAsides(posts []posting, n float64) float32 {
	idf := func(df float64) float64 { return math.Log(1 + (n-df+0.5)/(df+0.5)) }
	var named, asides float64
	for _, p := range posts {
		if p.weight > 0 {
			named++
		}
		if p.aside > 0 {
			asides++
		}
	}
	share := 1.0
	if named > 0 && asides > named {
		share = idf(asides) / idf(named)
	}
	df := 0.0
	for i := range posts {
		p := &posts[i]
		if p.weight > 0 {
			df++
		} else {
			df += share
		}
		p.weight += float32(share) * p.aside
	}
	return float32(idf(df))
}

// A tool that is described in many or general words is near to every query. How near is determined
// with common words: it is the mean similarity of the nearest ones (as in CSLS, Conneau et al.,
// 2018).
const (
	hubFrom, hubTo, hubStep = 100, 3000, 16 // ranks of these words
	hubNearest              = 5
	hubWorkers              = 4
)

// weighHubs computes hubs, whose mean is 0.
func (x *index) weighHubs() {
	dims := x.words.dims
	var common []float32
	for i := range x.words.n {
		if r := x.words.rank(i); r >= hubFrom && r < hubTo && r%hubStep == 0 {
			common = append(common, x.words.vector(i)...)
		}
	}
	x.hubs = make([]float32, len(x.entries))
	var workers sync.WaitGroup
	share := (len(x.hubs) + hubWorkers - 1) / hubWorkers
	for from := 0; from < len(x.hubs); from += share {
		workers.Go(func() {
			for i := from; i < min(from+share, len(x.hubs)); i++ {
				x.hubs[i] = nearness(x.centers[i*dims:][:dims], common)
			}
		})
	}
	workers.Wait()
	var sum float32
	for _, h := range x.hubs {
		sum += h
	}
	for i := range x.hubs {
		x.hubs[i] -= sum / float32(len(x.hubs))
	}
}

// nearness returns the mean similarity of v to the nearest vectors of a list.
func nearness(v, list []float32) float32 {
	var best [hubNearest]float32 // smallest first
	for ; len(list) > 0; list = list[len(v):] {
		l := dot(v, list)
		if l <= best[0] {
			continue
		}
		at := 0
		for ; at+1 < hubNearest && best[at+1] < l; at++ {
			best[at] = best[at+1]
		}
		best[at] = l
	}
	var sum float32
	for _, l := range best {
		sum += l
	}
	return sum / hubNearest
}

// search returns the limit best tools that are not hidden, of which there is at least one, and the
// scores of all tools.
func (x *index) search(query string, limit int, t tuning, hidden map[*Entry]bool) ([]Hit, []float32) {
	terms := x.parse(cutQuery(query), t)
	scores := make([]float32, len(x.entries))
	best := make([]float32, len(x.entries))
	center := make([]float32, x.words.dims)
	var total float32
	for _, q := range terms {
		add(center, q.vector, q.weight)
		if len(q.found) == 0 {
			continue
		}
		total += q.weight
		clear(best)
		for term, share := range q.found {
			for _, p := range x.posts[term] {
				best[p.tool] = max(best[p.tool], share*p.weight*(t.K1+1)/(t.K1+p.weight))
			}
		}
		add(scores, best, q.weight)
	}
	if total > 0 {
		for i := range scores {
			scores[i] /= total
		}
	}
	x.reduceExtra(scores, terms, t)
	x.addMeaning(scores, center, t)
	if asked := deedOfQuery(splitWords(cutQuery(query))); asked != anyDeed {
		for i, does := range x.deeds {
			if does != anyDeed && does != asked {
				scores[i] -= t.Deed
			}
		}
	}
	for _, i := range x.names[string(squash(query))] {
		scores[i] += exactName
	}
	return x.top(scores, limit, hidden), scores
}

// reduceExtra reduces the scores of operations by the share of their names and titles that matches
// nothing of the query: of two that have all words of the query, the plainer one is meant. An API
// has many operations on the same things, and their names say what else each one is about. Other
// tools are few and named for their purpose, often in words that the query doesn't have.
func (x *index) reduceExtra(scores []float32, terms []queryTerm, t tuning) {
	matched := make([]float32, len(x.posts)) // by term: the best share
	for _, q := range terms {
		for term, share := range q.found {
			matched[term] = max(matched[term], share)
		}
	}
	for i, core := range x.cores {
		if scores[i] == 0 {
			continue
		}
		var all, extra float32
		for _, term := range core {
			all += x.idf[term]
			extra += x.idf[term] * (1 - matched[term])
		}
		if all > 0 {
			scores[i] *= 1 - t.Extra*extra/all
		}
	}
}

// addMeaning adds to the scores how near the tools are to the meaning of a query.
func (x *index) addMeaning(scores, center []float32, t tuning) {
	dims := x.words.dims
	normalize(center)
	if dot(center, center) == 0 {
		return
	}
	domains := make([]float32, len(x.upstreams))
	for k := range domains {
		domains[k] = t.Domain * dot(center, x.domains[k*dims:])
	}
	for i := range scores {
		scores[i] += t.Center*(dot(center, x.centers[i*dims:])-t.Hub*x.hubs[i]) + domains[x.domain[i]]
	}
}

// top returns the limit best tools; of equal ones, the first. Tools with the same definition are
// one hit.
func (x *index) top(scores []float32, limit int, hidden map[*Entry]bool) []Hit {
	best := x.bestCopies(scores, hidden)
	h := make(worstFirst, 0, min(limit, len(scores))+1)
	for i, s := range scores {
		if best[x.same[i]] != int32(i) || len(h) == limit && s <= h[0].score {
			continue
		}
		if len(h) < limit {
			heap.Push(&h, scoredTool{int32(i), s})
		} else {
			h[0] = scoredTool{int32(i), s}
			heap.Fix(&h, 0)
		}
	}
	out := make([]Hit, len(h))
	for i := len(h) - 1; i >= 0; i-- {
		s := heap.Pop(&h).(scoredTool)
		out[i] = Hit{Entry: x.entries[s.tool], Score: float64(s.score)}
		for _, c := range x.copies[x.same[s.tool]] {
			if c != s.tool && !hidden[x.entries[c]] {
				out[i].Also = append(out[i].Also, x.entries[c])
			}
		}
	}
	return out
}

// bestCopies returns the best tool of each definition that is not hidden; of equal ones, the first.
// Each definition has its entry at the index of its first tool: -1 if all its tools are hidden.
func (x *index) bestCopies(scores []float32, hidden map[*Entry]bool) []int32 {
	best := make([]int32, len(scores))
	for i := range best {
		best[i] = -1
	}
	for i, s := range scores {
		if b := &best[x.same[i]]; (*b < 0 || s > scores[*b]) && !hidden[x.entries[i]] {
			*b = int32(i)
		}
	}
	return best
}

type scoredTool struct {
	tool  int32
	score float32
}

// worstFirst is a heap with the worst tool at its root.
type worstFirst []scoredTool

func (h worstFirst) Len() int { return len(h) }
func (h worstFirst) Less(i, j int) bool {
	return h[i].score < h[j].score || h[i].score == h[j].score && h[i].tool > h[j].tool
}
func (h worstFirst) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push appends x (heap.Interface).
func (h *worstFirst) Push(x any) { *h = append(*h, x.(scoredTool)) }

// Pop removes and returns the last element (heap.Interface).
func (h *worstFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
