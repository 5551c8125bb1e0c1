package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// notFound says that path names no tool, what is nearest, and how its upstream is. Of an upstream
// that never told its tools nobody knows whether it has the one that is asked for: then the error
// is that it can't be reached.
func (v *View) notFound(path string) *tool.Error {
	asked := strings.TrimPrefix(path, "tools.")
	space, _, dotted := strings.Cut(asked, ".")
	u, rest := v.upstreamOf(asked)
	kind := tool.NotFound
	var msg string
	switch {
	case u != nil && rest != "" && len(u.entries) == 0 && u.troubled():
		kind, msg = tool.Unavailable, fmt.Sprintf("the tools of upstream %q are not known", u.name)
	case u != nil && rest == "":
		msg = fmt.Sprintf("%s is an upstream, not a tool", quoteShort(asked))
	case u != nil:
		msg = fmt.Sprintf("upstream %q has no tool %s", u.name, quoteShort(rest))
	case dotted:
		msg = fmt.Sprintf("no tool %s: there is no upstream %s", quoteShort(path), quoteShort(space))
	default:
		msg = "no tool " + quoteShort(path)
	}
	if near := v.nearest(asked, u); len(near) > 0 && kind == tool.NotFound {
		msg += "; did you mean " + orList(near) + "?"
	} else {
		msg += "."
	}
	if u == nil {
		u = v.nearUpstream(space)
	}
	if u != nil && u.troubled() {
		msg += " " + healthLine(u) + "."
	}
	return &tool.Error{Kind: kind, Msg: msg + " Use search to find tools by what they do."}
}

// troubled says whether an upstream is anything but ready.
func (u *upstream) troubled() bool { return u.health.State != tool.Ready && u.health.State != "" }

// upstreamOf gives the upstream that path begins with, the longest name first, and what comes after
// it.
func (v *View) upstreamOf(path string) (u *upstream, rest string) {
	for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		u := v.byName[path[:end]]
		if u == nil {
			u = v.byNamespace[path[:end]]
		}
		if u != nil {
			return u, strings.TrimPrefix(path[end:], ".")
		}
	}
	return nil, ""
}

func (v *View) nearUpstream(space string) *upstream {
	var best *upstream
	bestScore := 0.7
	asked := spellingOf(space)
	for _, u := range v.upstreams {
		if s := max(asked.like(u.name), asked.like(u.namespace)); s > bestScore {
			best, bestScore = u, s
		}
	}
	return best
}

// nearest gives the safe paths of up to three tools whose names are most like path; those of u,
// where it is not nil, go before others.
func (v *View) nearest(path string, u *upstream) []string {
	_, member, dotted := cutLast(path)
	type near struct {
		path  string
		score float64
	}
	var found []near
	whole, last := spellingOf(path), spellingOf(member)
	for _, e := range v.entries {
		s := whole.like(e.Path())
		if dotted {
			m := last.like(e.Member)
			if u != nil && e.Namespace == u.namespace {
				s = max(s, m+0.1)
			} else if u != nil {
				s = max(s, m) - 0.25
			} else {
				s = max(s, m)
			}
		} else {
			s = max(s, whole.like(e.Member), whole.like(e.Composed))
		}
		if s >= 0.55 {
			found = append(found, near{e.Path(), s})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path))
	})
	var out []string
	for i, n := range found {
		if i == 3 || n.score < found[0].score-0.2 {
			break
		}
		out = append(out, n.path)
	}
	return out
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// A spelling is a name that others are compared with: it is taken apart once.
type spelling struct {
	letters []byte
	words   []string
}

// spellingOf takes a name apart. Of one that is longer than any tool's only the beginning counts.
func spellingOf(name string) spelling {
	name = name[:min(len(name), 2*maxKept)]
	return spelling{squash(name), splitWords(name)}
}

// like returns how alike two names are, from 0 to 1: by the letters, and by the words whatever
// their order.
func (a spelling) like(b string) float64 {
	x, y := a.letters, squash(b)
	if len(x) == 0 || len(y) == 0 {
		return 0
	}
	long, short := max(len(x), len(y)), min(len(x), len(y))
	var letters float64
	if short >= 3 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
		letters = 0.65 // repo and repository
	}
	if diff := len(x) - len(y); max(diff, -diff)*2 < long && sharedLetters(x, y)*2 >= long {
		letters = max(letters, 1-float64(distance(x, y))/float64(long))
	}
	return max(letters, wordsLikeness(a.words, splitWords(b))*0.95)
}

// squash gives the letters and digits of s in lower case, at most 64.
func squash(s string) []byte {
	out := make([]byte, 0, 64)
	for _, r := range s {
		if len(out) > 60 {
			break
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
	}
	return out
}

func sharedLetters(x, y []byte) int {
	var count [256]int8
	for _, c := range x {
		count[c]++
	}
	n := 0
	for _, c := range y {
		if count[c] > 0 {
			count[c]--
			n++
		}
	}
	return n
}

// wordsLikeness is Dice's coefficient of the words of two names.
func wordsLikeness(x, y []string) float64 {
	if len(x) == 0 || len(y) == 0 || len(x) > 32 || len(y) > 32 {
		return 0
	}
	n := 0
	for _, w := range x {
		if slices.Contains(y, w) {
			n++
		}
	}
	return 2 * float64(n) / float64(len(x)+len(y))
}

// Distance is the number of bytes to insert, delete, change or swap with their neighbours that make
// b of a, or more than limit where that is certain at once or one of them is over 64 long. It is
// for did-you-means.
func Distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	return distance([]byte(a), []byte(b))
}

// distance is the number of letters to insert, delete, change or swap with their neighbours
// (optimal string alignment). Both are at most 64 long.
func distance(a, b []byte) int {
	var rows [3][66]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// nearestName gives the one of names that is most like s, or "".
func nearestName(s string, names []string) string {
	best, bestScore := "", 0.6
	asked := spellingOf(s)
	for _, n := range names {
		if l := asked.like(n); l > bestScore {
			best, bestScore = n, l
		}
	}
	return best
}

// healthLine says how an upstream is.
func healthLine(u *upstream) string {
	return fmt.Sprintf("upstream %s: %s", quoteShort(u.name), state(u))
}

func orList(items []string) string {
	if len(items) == 1 {
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " or " + items[len(items)-1]
}

// quoteShort quotes s for a message, cut to 80 bytes.
func quoteShort(s string) string { return fmt.Sprintf("%q", cut(s, 80)) }

// cut shortens s to n bytes, at a letter's edge, with an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// invisible says whether r is no letter, mark, number, sign or space: control characters, and those
// that change the direction of text or hide in it.
func invisible(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

// oneLine makes text from outside one line of at most n bytes: spaces joined, what is not visible
// taken out.
func oneLine(s string, n int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if b.Len() >= n+8 {
			break
		}
		switch {
		case unicode.IsSpace(r):
			space = true
		case invisible(r):
		default:
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return cut(b.String(), n)
}
