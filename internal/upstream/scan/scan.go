// Package scan looks for attacks in tool definitions: instructions aimed at the model, hidden
// characters, names that look like another tool's, and arguments that request secrets.
//
// A definition without findings is not proof of a harmless server. The rules prefer precision: they
// match texts that ordinary definitions don't contain, so that a finding is worth a person's time.
package scan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Kind classifies findings.
type Kind string

// The kinds of findings.
const (
	Instructions Kind = "instructions" // a text that directs the model rather than describing the tool
	Hidden       Kind = "hidden"       // hidden or bidirectional characters, or text out of sight
	Lookalike    Kind = "lookalike"    // a name that can be mistaken for another tool's
	Secret       Kind = "secret"       // an argument that requests a secret
	Unscanned    Kind = "unscanned"    // a part that was too expensive to scan
)

// A Finding is a suspicious part of a tool's definition.
type Finding struct {
	Kind  Kind
	Where string // "description", "inputSchema.properties.note.description"; printable, on one line
	Text  string // what was found; printable, on one line
}

// The bounds of a scan.
const (
	maxFindings = 20      // of one tool
	maxScanned  = 1 << 20 // bytes of a schema; a definition that mcp accepts is smaller
	maxExcerpt  = 120     // characters
	maxWhere    = 160     // characters
	maxDepth    = 128

	// maxMatched limits the bytes that are matched against patterns for one upstream. Only texts
	// that contain the words of a pattern are matched, which few real ones do. Thousands of texts
	// of nothing but such words would keep the scanner busy for minutes.
	maxMatched = 16 << 20

	// maxFolded limits the bytes of an upstream's folded texts. Folding can make a text eleven
	// times as long.
	maxFolded = 64 << 20

	// maxClean limits the texts that are remembered, and not scanned again. The tools of an API
	// share many: its types are part of each operation that uses them.
	maxClean = 200_000
)

// ScanTools returns the findings in the definitions of an upstream's tools, by exact name. If they
// cost too much to scan, the findings of the tools that were not scanned whole say so.
func ScanTools(tools []*tool.Tool) map[string][]Finding {
	found, _ := scanTools(tools, maxMatched)
	return found
}

// scanTools matches at most limit bytes, and also returns how many it matched.
func scanTools(tools []*tool.Tool, limit int) (found map[string][]Finding, matched int) {
	found = map[string][]Finding{}
	s := &scanner{limit: limit, seed: maphash.MakeSeed(), clean: map[textKey]bool{}}
	for _, t := range tools {
		s.found, s.cut = nil, false
		s.scanTool(t)
		if len(s.found) > 0 {
			found[t.Name] = s.found
		}
	}
	return found, s.matched
}

// scanTool adds the findings in the definition of a tool, in the order of the definition.
func (s *scanner) scanTool(t *tool.Tool) {
	if len(t.Hidden) > 0 {
		s.addFinding(Hidden, "definition", "hidden characters, which were removed: "+listRunes(t.Hidden))
	}
	if mixed := mixesScripts(t.Name); mixed != "" {
		s.addFinding(Lookalike, "name", "letters of another script that look like Latin ones: "+mixed)
	}
	s.scanText("title", t.Title, false)
	s.scanText("description", t.Description, false)
	s.scanSchema("inputSchema", t.InputSchema, true)
	s.scanSchema("outputSchema", t.OutputSchema, false)
}

// listRunes lists code points: U+202E, U+E0041.
func listRunes(rs []rune) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = fmt.Sprintf("%U", r)
	}
	return strings.Join(out, ", ")
}

// A scanner scans the tools of an upstream, one after the other.
type scanner struct {
	found []Finding // of the current tool
	cut   bool      // one of them says that a part was not scanned
	noted int       // findings so far, of all tools, also if they are not kept

	seed  maphash.Seed
	clean map[textKey]bool // texts without findings

	folded, matched int // bytes so far, of all tools
	limit           int // of matched
}

// A textKey identifies a text and how it is scanned. The seed is secret, so that no text can be
// made to have the hash of another.
type textKey struct {
	hash uint64
	asks bool
}

// skipPart adds one finding for the parts of a tool that are not scanned.
func (s *scanner) skipPart(where, why string) {
	s.noted++
	if s.cut {
		return
	}
	s.cut = true
	s.found = s.found[:min(len(s.found), maxFindings-1)]
	s.addFinding(Unscanned, where, "was not scanned: "+why)
}

func (s *scanner) addFinding(kind Kind, where, text string) {
	s.noted++
	f := Finding{kind, clipRunes(tool.VisibleLine(where), maxWhere), clipRunes(tool.VisibleLine(text), maxExcerpt)}
	if len(s.found) < maxFindings && !slices.Contains(s.found, f) {
		s.found = append(s.found, f)
	}
}

// clipRunes returns the first n characters of a text.
func clipRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// scanText scans a text that a model reads. asks means that it describes an argument.
func (s *scanner) scanText(where, text string, asks bool) {
	if len(text) < minText {
		return
	}
	key := textKey{maphash.String(s.seed, text), asks}
	if s.clean[key] {
		return
	}
	before := s.noted
	s.scanNewText(where, text, asks)
	if s.noted == before && len(s.clean) < maxClean {
		s.clean[key] = true
	}
}

// scanNewText scans a text that is not known to be clean.
func (s *scanner) scanNewText(where, text string, asks bool) {
	if isPadded(text) {
		s.addFinding(Hidden, where, "a text moved out of sight by white space")
	}
	if s.folded > maxFolded {
		s.skipPart(where, fmt.Sprintf("the definitions of this upstream are larger than %d MiB", maxFolded>>20))
		return
	}
	folded := foldText(text)
	s.folded += len(folded)
	s.applyRules(rules, where, folded)
	if asks {
		s.applyRules(requests, where, folded)
	}
}

// applyRules adds what rules find in a text.
func (s *scanner) applyRules(rules []*rule, where, folded string) {
	for _, r := range rules {
		if !r.isCandidate(folded) {
			continue
		}
		if s.matched+len(folded) > s.limit {
			s.skipPart(where, "the tools of this upstream have too many words that attacks use")
			return
		}
		s.matched += len(folded)
		if m := r.matchText(folded); m != "" {
			s.addFinding(r.kind, where, r.says+": "+m)
		}
	}
}

// scanSchema scans the texts of a JSON Schema. asks means that it describes arguments.
func (s *scanner) scanSchema(where string, raw json.RawMessage, asks bool) {
	if len(raw) == 0 {
		return
	}
	if len(raw) > maxScanned {
		s.skipPart(where, fmt.Sprintf("the schema is larger than %d MiB", maxScanned>>20))
		return
	}
	var v any
	_ = json.Unmarshal(raw, &v) // the schema was checked when it was listed
	s.walkValue(where, v, asks, 0)
}

// walkValue scans a decoded JSON value. It treats an object as a schema.
func (s *scanner) walkValue(where string, v any, asks bool, depth int) {
	if len(s.found) == maxFindings {
		return
	}
	if depth > maxDepth {
		s.skipPart(where, fmt.Sprintf("the schema is deeper than %d levels", maxDepth))
		return
	}
	switch v := jsonvalue.ForSwitch(v).(type) {
	case string:
		s.scanText(where, v, asks)
	case []any:
		for _, item := range v {
			s.walkValue(where, item, asks, depth+1)
		}
	case jsonvalue.Object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := joinPlace(where, k)
			s.scanText(at, k, false)
			if members, ok := jsonvalue.AsObject(v[k]); ok && k == "properties" {
				s.walkProperties(at, members, asks, depth+1)
				continue
			}
			s.walkValue(at, v[k], asks, depth+1)
		}
	}
}

// walkProperties scans the properties of a schema, by name.
func (s *scanner) walkProperties(where string, members jsonvalue.Object, asks bool, depth int) {
	for _, k := range slices.Sorted(maps.Keys(members)) {
		at := joinPlace(where, k)
		s.scanText(at, k, false)
		p, ok := jsonvalue.AsObject(members[k])
		if ok && asks && holdsText(p) && (requestsSecret(k) || p["format"] == "password") {
			s.addFinding(Secret, at, "an argument for a secret")
		}
		s.walkValue(at, members[k], asks, depth+1)
	}
}

// joinPlace appends a name to the place of a finding. Only the beginning of a place is shown, so
// that the rest is left out: the places of a deep schema would be long.
func joinPlace(where, name string) string {
	if len(where) > 4*maxWhere {
		return where
	}
	return where + "." + clipRunes(name, maxWhere)
}

// holdsText reports whether a schema's type allows strings.
func holdsText(schema jsonvalue.Object) bool {
	typ, ok := schema["type"]
	list, _ := typ.([]any)
	return !ok || typ == "string" || slices.Contains(list, any("string"))
}

// A Named is a tool with the path by which a finding refers to it.
type Named struct {
	Path string
	Name string // exact name at its upstream
}

// FindLookalikes returns, by path, findings for tools whose names can be mistaken for another
// one's: get_fіle with a Cyrillic letter, or 1ist_files. If only some of the names that look alike
// have other characters than ASCII, only those are findings.
func FindLookalikes(tools []Named) map[string]Finding {
	alike := map[string][]spelling{}
	for _, t := range tools {
		shape := shapeName(t.Name)
		alike[shape] = append(alike[shape], spelling{t, tool.Snake(t.Name)})
	}
	out := map[string]Finding{}
	for _, group := range alike {
		slices.SortFunc(group, func(a, b spelling) int { return cmp.Compare(a.Path, b.Path) })
		foreign := slices.ContainsFunc(group, func(t spelling) bool { return !isASCII(t.Name) })
		first := group[0]
		second := slices.IndexFunc(group, func(o spelling) bool { return o.snake != first.snake })
		for _, t := range group {
			if second < 0 || foreign && isASCII(t.Name) {
				continue
			}
			other := first // the first one that is spelled differently
			if t.snake == first.snake {
				other = group[second]
			}
			out[t.Path] = Finding{Lookalike, "name",
				clipRunes(tool.VisibleLine("looks like "+other.Path), maxExcerpt)}
		}
	}
	return out
}

// A spelling is a tool with its name in snake case.
type spelling struct {
	Named
	snake string
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f }) }
