package typegen

import (
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// number returns a number within the bounds: an integer if possible, and one that is likely for its
// name.
func (m *maker) number(n *node, name string, whole bool, variant int) (*node, bool) {
	v := big.NewRat(likelyNumber(name), 1)
	step := rational(n.get("multipleOf"))
	if step == nil || step.Sign() <= 0 {
		step = nil
		if whole {
			step = big.NewRat(1, 1)
		}
	}
	lo, loOpen := highest(n, "minimum", "exclusiveMinimum")
	hi, hiOpen := lowest(n, "maximum", "exclusiveMaximum")
	unit := step
	if unit == nil {
		unit = big.NewRat(1, 1)
		if lo != nil && hi != nil {
			if gap := new(big.Rat).Sub(hi, lo); gap.Sign() > 0 && gap.Cmp(big.NewRat(2, 1)) < 0 {
				unit = new(big.Rat).Quo(gap, big.NewRat(4, 1))
			}
		}
	}
	if lo != nil && (v.Cmp(lo) < 0 || loOpen && v.Cmp(lo) == 0) {
		v.Set(lo)
		if loOpen {
			v.Add(v, unit)
		}
	}
	if hi != nil && (v.Cmp(hi) > 0 || hiOpen && v.Cmp(hi) == 0) {
		v.Set(hi)
		if hiOpen {
			v.Sub(v, unit)
		}
	}
	inside := func(x *big.Rat) bool {
		return (lo == nil || x.Cmp(lo) > 0 || !loOpen && x.Cmp(lo) == 0) &&
			(hi == nil || x.Cmp(hi) < 0 || !hiOpen && x.Cmp(hi) == 0)
	}
	if variant > 0 {
		by := new(big.Rat).Mul(unit, big.NewRat(int64(variant), 1))
		if up := new(big.Rat).Add(v, by); inside(up) {
			v = up
		} else if down := new(big.Rat).Sub(v, by); inside(down) {
			v = down
		}
	}
	if step != nil {
		v = toMultiple(v, step, inside)
	}
	return &node{kind: jNumber, s: decimal(v)}, true
}

func likelyNumber(name string) int64 {
	switch s := strings.ToLower(strings.ReplaceAll(name, "_", "")); {
	case strings.Contains(s, "limit"), strings.Contains(s, "perpage"), strings.Contains(s, "pagesize"),
		strings.Contains(s, "maxresults"), strings.Contains(s, "count"), s == "top", s == "size":
		return 10
	case strings.Contains(s, "year"):
		return 2026
	case strings.Contains(s, "port"):
		return 8080
	}
	return 1
}

// toMultiple returns a multiple of step near v and within the bounds, or v if there is none.
func toMultiple(v, step *big.Rat, inside func(*big.Rat) bool) *big.Rat {
	q := new(big.Rat).Quo(v, step)
	k := new(big.Int).Quo(q.Num(), q.Denom()) // towards zero
	for _, d := range []int64{0, 1, -1, 2} {
		c := new(big.Rat).SetInt(new(big.Int).Add(k, big.NewInt(d)))
		c.Mul(c, step)
		if inside(c) {
			return c
		}
	}
	return v
}

// rational returns the exact value of a number, or nil if it is missing or unreasonably large or
// small.
func rational(n *node) *big.Rat {
	if n == nil || n.kind != jNumber || len(n.s) > 60 {
		return nil
	}
	if f, err := strconv.ParseFloat(n.s, 64); err != nil || f > 1e200 || f < -1e200 ||
		f != 0 && f < 1e-200 && f > -1e-200 {
		return nil
	}
	r, ok := new(big.Rat).SetString(n.s)
	if !ok {
		return nil
	}
	return r
}

func highest(n *node, closed, open string) (r *big.Rat, isOpen bool) {
	a, b := rational(n.get(closed)), rational(n.get(open))
	if b != nil && (a == nil || b.Cmp(a) >= 0) {
		return b, true
	}
	return a, false
}

func lowest(n *node, closed, open string) (r *big.Rat, isOpen bool) {
	a, b := rational(n.get(closed)), rational(n.get(open))
	if b != nil && (a == nil || b.Cmp(a) <= 0) {
		return b, true
	}
	return a, false
}

// decimal returns r as a JSON number, exactly if few digits suffice.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	prec, exact := r.FloatPrec()
	if !exact || prec > 20 {
		prec = 20
	}
	return strings.TrimRight(r.FloatString(prec), "0")
}

// str returns a string based on its pattern, its format, an example in its description, or its
// name.
func (m *maker) str(n *node, name string, variant int) (*node, bool) {
	least := int(min(smallInt(n.get("minLength"), 0), 1<<20))
	most := int(min(smallInt(n.get("maxLength"), 1<<20), 1<<20))
	if least > 10_000 {
		return m.fail("minLength asks for too much")
	}
	fits := func(s string) bool {
		l := utf8.RuneCountInString(s)
		return least <= l && l <= most
	}
	var re *regexp.Regexp
	if p := n.str("pattern"); p != "" {
		var err error
		if re, err = compileRegexp(p); err != nil {
			return m.fail(fmt.Sprintf("pattern %q can't be read", cut(p, 60)))
		}
	}
	ok := func(s string) bool { return fits(s) && (re == nil || re.MatchString(s)) }
	if f := formatExample(n.str("format"), variant); f != "" && ok(f) {
		return str(f), true
	}
	if said := saidExample(n.str("description")); said != "" && variant == 0 && ok(said) {
		return str(said), true
	}
	word := likelyText(name)
	if variant > 0 {
		word += strconv.Itoa(variant + 1)
	}
	if ok(word) {
		return str(word), true
	}
	if re != nil {
		for extra := range 40 {
			if s, made := stringMatching(re.String(), extra, variant); made && ok(s) {
				return str(s), true
			}
		}
		return m.fail(fmt.Sprintf("no text found for pattern %q", cut(re.String(), 60)))
	}
	return str(fitLength(word, least, most, variant)), true
}

// fitLength cuts or pads s.
func fitLength(s string, least, most, variant int) string {
	r := []rune(s)
	if len(r) > most {
		r = r[:max(most, 0)]
		if variant > 0 && most > 0 {
			r[most-1] = rune('a' + variant%26)
		}
	}
	for i := 0; len(r) < least; i++ {
		r = append(r, rune('a'+(i+variant)%26))
	}
	return string(r)
}

func formatExample(format string, variant int) string {
	i := variant % 9
	switch format {
	case "date-time":
		return fmt.Sprintf("2026-01-%02dT09:00:00Z", 15+i)
	case "date":
		return fmt.Sprintf("2026-01-%02d", 15+i)
	case "time":
		return fmt.Sprintf("09:0%d:00Z", i)
	case "duration":
		return fmt.Sprintf("P%dD", i+1)
	case "email", "idn-email":
		return [...]string{"ann", "bob", "cy", "dee", "eve", "fay", "gil", "hal", "ida"}[i] + "@example.com"
	case "hostname", "idn-hostname":
		return [...]string{"", "a.", "b.", "c.", "d.", "e.", "f.", "g.", "h."}[i] + "example.com"
	case "uri", "url", "iri":
		return "https://example.com/" + [...]string{"", "a", "b", "c", "d", "e", "f", "g", "h"}[i]
	case "uri-reference", "iri-reference":
		return fmt.Sprintf("/path/%d", i+1)
	case "uri-template":
		return fmt.Sprintf("/items/%d/{id}", i+1)
	case "uuid":
		return fmt.Sprintf("3f2b8c1e-7d4a-4e6b-9c2f-1a5d8e7b604%d", i)
	case "ipv4":
		return fmt.Sprintf("192.0.2.%d", i+1)
	case "ipv6":
		return fmt.Sprintf("2001:db8::%d", i+1)
	case "json-pointer":
		return fmt.Sprintf("/a/%d", i)
	case "relative-json-pointer":
		return fmt.Sprintf("%d/a", i+1)
	case "regex":
		return "^a" + strings.Repeat("a", i) + "$"
	case "byte":
		return "aGVsbG8="
	case "semver":
		return fmt.Sprintf("1.%d.0", i)
	}
	return ""
}

var saidPattern = lazily.Regexp("(?i)(?:e\\.g\\.,?|example:?|such as|like)\\s*[`'\"“]([^`'\"”\\n]{1,80})[`'\"”]")

// saidExample returns an example that a description quotes, or "".
func saidExample(doc string) string {
	if len(doc) > 4_000 {
		doc = doc[:4_000]
	}
	if m := saidPattern.Get().FindStringSubmatch(doc); m != nil && utf8.ValidString(m[1]) {
		return m[1]
	}
	return ""
}

// likelyText returns a plausible value for a parameter of this name.
func likelyText(name string) string {
	s := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
	switch {
	case strings.HasSuffix(s, "email"):
		return "ann@example.com"
	case strings.HasSuffix(s, "url"), strings.HasSuffix(s, "uri"), s == "link":
		return "https://example.com/"
	case strings.HasSuffix(s, "filename"):
		return "notes.txt"
	case strings.HasSuffix(s, "path"), s == "file":
		return "/notes.txt"
	case strings.HasSuffix(s, "date"), s == "day":
		return "2026-01-15"
	case strings.HasSuffix(s, "timezone"), s == "tz":
		return "Europe/Berlin"
	case s == "repo", strings.HasSuffix(s, "repository"):
		return "hello-world"
	case s == "id", strings.HasSuffix(s, "id") && len(s) <= 24:
		return "123"
	case s == "":
		return "example"
	}
	if len(name) <= 24 && utf8.ValidString(name) {
		return strings.TrimSpace(strings.ReplaceAll(name, "_", " "))
	}
	return "example"
}

// compileRegexp compiles an ECMAScript pattern, if Go's linear-time engine supports its syntax.
func compileRegexp(p string) (*regexp.Regexp, error) {
	if len(p) > 2_000 {
		return nil, errTooBig
	}
	return regexp.Compile(goSyntax(p))
}

var unicodeEscape = lazily.Regexp(`\\u([0-9A-Fa-f]{4})`)

func goSyntax(p string) string {
	if strings.Contains(p, `\\u`) {
		return p
	}
	return unicodeEscape.Get().ReplaceAllString(p, `\x{$1}`)
}

// stringMatching returns a string that a pattern matches: the shortest, with extra additional
// repetitions where any number is allowed.
func stringMatching(pattern string, extra, variant int) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	g := &textMaker{extra: extra, variant: variant}
	g.write(re.Simplify(), 0)
	return g.b.String(), !g.bad && g.b.Len() <= 20_000
}

type textMaker struct {
	b       strings.Builder
	extra   int
	variant int
	bad     bool
}

func (g *textMaker) write(re *syntax.Regexp, depth int) {
	if depth > 100 || g.b.Len() > 20_000 {
		g.bad = true
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			g.b.WriteRune(r)
		}
	case syntax.OpCharClass:
		g.b.WriteRune(pickRune(re.Rune, g.b.Len()+g.variant))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.b.WriteRune(rune('a' + (g.b.Len()+g.variant)%26))
	case syntax.OpCapture, syntax.OpConcat:
		for _, s := range re.Sub {
			g.write(s, depth+1)
		}
	case syntax.OpPlus, syntax.OpStar:
		n := g.extra
		if re.Op == syntax.OpPlus {
			n = max(n, 1)
		}
		for range n {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpQuest:
		if g.extra > 1 {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpAlternate:
		g.write(re.Sub[g.variant%len(re.Sub)], depth+1)
	case syntax.OpNoMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		g.bad = g.bad || re.Op == syntax.OpNoMatch
	}
}

// pickRune returns a readable character of a class (pairs of bounds), a different one for each i.
func pickRune(class []rune, i int) rune {
	in := func(r rune) bool {
		for k := 0; k+1 < len(class); k += 2 {
			if class[k] <= r && r <= class[k+1] {
				return true
			}
		}
		return false
	}
	for _, set := range []string{"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1234567890", "-_./:@ "} {
		for k := range len(set) {
			if r := rune(set[(i+k)%len(set)]); in(r) {
				return r
			}
		}
	}
	for k := 0; k+1 < len(class); k += 2 {
		for r := class[k]; r <= class[k+1] && r < class[k]+300; r++ {
			if r > ' ' && utf8.ValidRune(r) {
				return r
			}
		}
	}
	if len(class) > 0 {
		return class[0]
	}
	return 'a'
}
