package catalog

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// docs are the indexed words of an upstream's tools.
type docs struct {
	terms []docTerm
	lists [][]termWeight // by tool
	sums  []uint64       // hashes of the definitions, by tool
	deeds []deed         // by tool
}

// A docTerm is a word that occurs in tools.
type docTerm struct {
	stem    string
	surface string // one of the words with this stem
}

// A termWeight is the weight of a term in a tool: its occurrences, weighted by field and field
// length. An occurrence in a parameter is an aside: in its name, its description or its values.
type termWeight struct {
	term   int32 // index in docs.terms
	weight float32
	aside  float32
	core   bool // it is in the name or title of an operation
}

// The fields of a tool, with the weight of one occurrence, the usual number of words in the field,
// and the strength of length normalization (b of BM25F).
var fields = [...]struct {
	weight, usual, b float32
}{
	fieldName:        {3.0, 3, 0.3},
	fieldUpstream:    {1.0, 1, 0},
	fieldTitle:       {2.0, 3, 0.3},
	fieldDescription: {1.6, 12, 0.5},
	fieldParameter:   {0.7, 5, 0.6},
	fieldExplanation: {0.5, 12, 0.6},
	fieldValue:       {0.5, 6, 0.6},
	fieldProduct:     {0.6, 3, 0},
	fieldRest:        {0.6, 30, 0.7},
	fieldTarget:      {2.0, 1, 0.3},
	fieldPath:        {0.7, 3, 0.3},
	fieldVerb:        {0.8, 1, 0},
}

const (
	fieldName = iota
	fieldUpstream
	fieldTitle
	fieldDescription
	fieldParameter
	fieldExplanation
	fieldValue
	fieldProduct // the upstream's known subject
	fieldRest    // of the description, after its first sentence
	fieldTarget  // of a route, like the next two
	fieldPath
	fieldVerb
)

// Limits on what is indexed of one tool.
const (
	maxFieldWords = 400
	maxFieldBytes = 8 << 10
)

// newDocs indexes the words of tools.
func newDocs(tools []*tool.Tool) *docs {
	d := &docs{lists: make([][]termWeight, len(tools)), sums: make([]uint64, len(tools)),
		deeds: make([]deed, len(tools))}
	ids := map[string]int32{}
	stems := map[string]string{}
	for i, t := range tools {
		weights := map[int32]*termWeight{}
		texts, isOperation := toolTexts(t)
		for field := range texts {
			d.read(field, texts[field], weights, ids, stems)
		}
		list := make([]termWeight, 0, len(weights))
		for _, w := range weights {
			w.core = w.core && isOperation
			list = append(list, *w)
		}
		slices.SortFunc(list, func(a, b termWeight) int { return cmp.Compare(a.term, b.term) })
		d.lists[i] = list
		d.sums[i], d.deeds[i] = hashDefinition(t), deedOfTool(t)
	}
	return d
}

// hashSeed makes the hashes of definitions unpredictable, so that no upstream can write a tool that
// looks like a copy of another one.
var hashSeed = maphash.MakeSeed()

// hashDefinition returns a hash of a tool's definition, valid in this process. It is the same for
// the same tool at another upstream, even if the description mentions the upstream's name.
func hashDefinition(t *tool.Tool) uint64 {
	description := t.Description
	if t.Upstream != "" {
		description = strings.ReplaceAll(description, t.Upstream, "")
	}
	return maphash.Comparable(hashSeed, [...]uint64{
		maphash.String(hashSeed, t.Name), maphash.String(hashSeed, description),
		maphash.Bytes(hashSeed, t.InputSchema), maphash.Bytes(hashSeed, t.OutputSchema),
	})
}

// read adds the words of one field to weights.
func (d *docs) read(field int, texts []string, weights map[int32]*termWeight, ids map[string]int32,
	stems map[string]string) {
	var list []string
	for _, text := range texts {
		if len(list) < maxFieldWords {
			list = append(list, splitWords(text[:min(len(text), maxFieldBytes)])...)
		}
	}
	list = list[:min(len(list), maxFieldWords)]
	f := fields[field]
	count := 0
	for _, w := range list {
		if !stopWords.Has(w) {
			count++
		}
	}
	each := f.weight / (1 - f.b + f.b*float32(max(count, 1))/f.usual)
	for _, w := range list {
		if stopWords.Has(w) && field != fieldName {
			continue
		}
		s, ok := stems[w]
		if !ok {
			s = stem(w)
			stems[w] = s
		}
		id, ok := ids[s]
		if !ok {
			id = int32(len(d.terms))
			ids[s] = id
			d.terms = append(d.terms, docTerm{stem: s, surface: w})
		}
		tw := weights[id]
		if tw == nil {
			tw = &termWeight{term: id}
			weights[id] = tw
		}
		tw.core = tw.core || field == fieldName || field == fieldTitle
		if isAside(field) {
			tw.aside += each
		} else {
			tw.weight += each
		}
	}
}

// toolTexts returns the texts of a tool by field, and whether the tool is an operation of an API.
// Every operation is about the product, so that only other tools have its words.
func toolTexts(t *tool.Tool) (out [len(fields)][]string, isOperation bool) {
	out[fieldName] = []string{t.Name}
	out[fieldUpstream] = []string{t.Upstream}
	out[fieldTitle] = []string{t.Title}
	text, r := splitRoute(t.Description)
	if isOperation = r != (route{}); !isOperation {
		for _, w := range splitWords(t.Upstream) {
			out[fieldProduct] = append(out[fieldProduct], products.Get()[w])
		}
	}
	lead, rest := splitLead(text)
	out[fieldDescription], out[fieldRest] = []string{lead}, []string{rest}
	out[fieldTarget], out[fieldPath], out[fieldVerb] = []string{r.target}, []string{r.path, r.tag}, []string{r.verbs}
	schemaTexts(decodeSchema(t.InputSchema), &out, 0)
	return out, isOperation
}

// schemaTexts collects the names, descriptions and values of parameters, including nested ones.
func schemaTexts(s schema.Schema, out *[len(fields)][]string, depth int) {
	if s.IsZero() || depth > 5 {
		return
	}
	if text, ok := s.ValueOf("description").(string); ok && depth > 0 {
		out[fieldExplanation] = append(out[fieldExplanation], text)
	}
	for _, v := range append(slices.Clone(s.EnumValues()), s.ValueOf("const")) {
		if text, ok := v.(string); ok {
			out[fieldValue] = append(out[fieldValue], text)
		}
	}
	for _, name := range s.PropertyNames() {
		out[fieldParameter] = append(out[fieldParameter], name)
		property, _ := s.Property(name)
		schemaTexts(property, out, depth+1)
	}
	for _, keyword := range [...]string{"items", "additionalProperties"} {
		schemaTexts(s.Part(keyword), out, depth+1)
	}
	for _, keyword := range [...]string{"anyOf", "oneOf", "allOf"} {
		for _, form := range s.Parts(keyword) {
			schemaTexts(form, out, depth+1)
		}
	}
}

// isAside reports whether the words of a field say little about a tool beside its other words.
func isAside(field int) bool {
	return field == fieldParameter || field == fieldExplanation || field == fieldValue
}
