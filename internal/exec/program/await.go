package program

import (
	"sort"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

// In some systems call_tool and mcp.callTool block until they have their result. A program written
// for them awaits nothing, and would use promises as values here, which is never intended. So its
// calls of tools are awaited, even if their values are unused, because the next call may depend on
// their effects.

// awaitNote tells the agent about it.
const awaitNote = "tool calls return promises; this program awaits none of them, so they were awaited automatically: " +
	"write await"

// promiseWords are words used by programs that handle promises.
var promiseWords = lazily.Words(`await async then Promise finally`)

// standsStill reports whether a program may be written for blocking calls.
func standsStill(source string) bool {
	if strings.Contains(source, "await") ||
		!strings.Contains(source, "call_tool") && !strings.Contains(source, "mcp.callTool") {
		return false
	}
	t := scan(source)
	for i := range t.list {
		if t.list[i].kind != word {
			continue
		}
		if w := t.text(i); promiseWords.Has(w) && (w != "finally" || t.is(i-1, ".")) ||
			w == "catch" && t.is(i-1, ".") {
			return false
		}
	}
	return true
}

// await inserts await before the calls of tools, and reports whether there are any.
func (s *steps) await(x *check.Index, declared []string) bool {
	assigned, dynamic := assignments(scan(s.final.s))
	if dynamic {
		return false
	}
	spans := x.Awaits(check.Code{Text: s.final.s, Tree: check.ParseCode(s.final.s), Origin: s, Assigned: assigned,
		Declared: declared})
	if len(spans) == 0 {
		return false
	}
	var puts []edit
	for _, p := range spans {
		puts = append(puts, edit{from: p.From, put: "(await "}, edit{from: p.To, put: ")"})
	}
	sort.SliceStable(puts, func(i, j int) bool { return puts[i].from < puts[j].from })
	s.final = s.final.insert(puts)
	return true
}

// insert returns t with insertions, which must be in order. The origins of the rest don't change.
func (t *text) insert(puts []edit) *text {
	b := &textBuilder{}
	copied := 0
	upTo := func(end int) {
		for i := range t.pieces {
			p := t.pieces[i]
			next := len(t.s)
			if i+1 < len(t.pieces) {
				next = t.pieces[i+1].at
			}
			from, to := max(p.at, copied), min(next, end)
			if from >= to {
				continue
			}
			origin := p.from
			if !p.added {
				origin += from - p.at
			}
			b.pieces = append(b.pieces, piece{at: b.b.Len(), from: origin, added: p.added})
			b.b.WriteString(t.s[from:to])
		}
		copied = max(copied, end)
	}
	for _, put := range puts {
		upTo(put.from)
		at, _ := t.origin(min(put.from, len(t.s)-1))
		b.add(put.put, at)
	}
	upTo(len(t.s))
	return b.text()
}
