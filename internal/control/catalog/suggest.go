package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// notFound returns the error for a path that names no tool. It mentions the nearest names and the
// state of the upstream. If an upstream has never listed its tools, it is unknown whether it has
// this one: the error then is that the upstream is unavailable.
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

// troubled reports whether an upstream is in any state other than ready.
func (u *upstream) troubled() bool { return u.health.State != tool.Ready && u.health.State != "" }

// upstreamOf returns the upstream whose name is the longest prefix of path, and the rest of the
// path.
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

// nearest returns the safe paths of up to three tools with the names most similar to path. If u is
// not nil, its tools are preferred.
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

// A spelling is a name, split once, to be compared with others.
type spelling struct {
	letters []byte
	words   []string
}

// spellingOf splits a name. Of an overlong name only the beginning counts.
func spellingOf(name string) spelling {
	name = name[:min(len(name), 2*maxKept)]
	return spelling{squash(name), splitWords(name)}
}

// like returns the similarity of two names, from 0 to 1, by letters and by words in any order.
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
		letters = max(letters, 1-float64(text.EditDistance(x, y))/float64(long))
	}
	return max(letters, wordsLikeness(a.words, splitWords(b))*0.95)
}

// squash returns the letters and digits of s in lower case, at most 64 bytes.
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

// wordsLikeness returns Dice's coefficient of the words of two names.
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

// nearestName returns the most similar of names, or "" if none is similar.
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

// healthLine describes the state of an upstream.
func healthLine(u *upstream) string {
	return fmt.Sprintf("upstream %s: %s", quoteShort(u.name), state(u))
}

func orList(items []string) string {
	if len(items) == 1 {
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " or " + items[len(items)-1]
}

// quoteShort quotes s for a message, truncated to 80 bytes.
func quoteShort(s string) string { return fmt.Sprintf("%q", cut(s, 80)) }

// cut truncates s to n bytes, at a character boundary, with an ellipsis.
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

// invisible reports whether r is not a letter, mark, number, symbol or space: control characters,
// and characters that change the direction of text or are hidden in it.
func invisible(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

// oneLine converts untrusted text to one line of at most n bytes: white space is collapsed, and
// invisible characters are removed.
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
