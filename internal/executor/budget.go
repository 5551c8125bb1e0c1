package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// tail gives the last n bytes of s or fewer, whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	for i := 0; i < utf8.UTFMax && at < len(s) && !utf8.RuneStart(s[at]); i++ {
		at++
	}
	return s[at:]
}

// fit gives how many bytes of s, from its beginning or its end, are about so many tokens.
func (x *Executor) fit(s string, budget int, part func(string, int) string) (string, error) {
	n := min(len(s), budget*8)
	for {
		p := part(s, n)
		k, err := x.tokens.Count(p, 0)
		if err != nil || k <= budget {
			return p, err
		}
		n = min(n-1, len(p)*budget/k)
	}
}

// valueText shows a value within the budget. What doesn't fit is described, and kept for later programs.
func (r *run) valueText(e *Execution) string {
	v, budget := string(e.Value), r.x.cfg.Limits.OutputTokens
	if len(v) <= budget { // no token is shorter than a byte
		return v
	}
	n, err := r.x.tokens.Count(v, budget)
	if err == nil && n <= budget {
		return v
	}
	h := r.x.left.keep(&leftover{principal: r.principal.ID, session: r.exec.Session, labels: r.labels.All(), value: e.whole()})
	if err != nil {
		r.x.cfg.Log.Error("count tokens", "execution", r.id, "error", err)
		return r.overText(v, h, tokens.Head(v, budget*2), tail(v, budget/2))
	}
	first, err1 := r.x.fit(v, budget*6/10, tokens.Head)
	last, err2 := r.x.fit(v, budget*2/10, tail)
	if err1 != nil || err2 != nil {
		first, last = tokens.Head(v, budget*2), tail(v, budget/2)
	}
	return r.overText(v, h, first, last)
}

func (r *run) overText(v, handle, first, last string) string {
	shape, limit := outline(json.RawMessage(v))
	about := float64(r.x.cfg.Limits.OutputTokens) * 0.8 * float64(len(v)) / float64(len(first)+len(last))
	return fmt.Sprintf("The value is too large to show in full: %s bytes of JSON, about %s tokens. Here are its shape, its head and its tail. It is kept for %s: to read it, in a later program: await readResult(%q, { offset: 0, limit: %s })\n"+
		"shape: %s\nhead: %s\ntail: %s", group(len(v)), group(int(about)), span(r.x.cfg.Limits.KeptFor), handle, limit, shape, first, last)
}

// readResult gives a part of a leftover: {handle, offset?, limit?}, in characters of a string, items of an array, else
// characters of the JSON.
func (r *run) readResult(args json.RawMessage) (json.RawMessage, error) {
	fields, err := object(args, "readResult", "handle", "offset", "limit")
	if err != nil {
		return nil, err
	}
	var h string
	offset, limit := 0, -1
	if err := field(fields, "handle", &h, "a string: the handle of a result"); err != nil {
		return nil, err
	}
	if err := field(fields, "offset", &offset, "a whole number"); err != nil {
		return nil, err
	}
	if err := field(fields, "limit", &limit, "a whole number"); err != nil {
		return nil, err
	}
	l, err := r.leftover(h)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, tool.Errorf(tool.Invalid, "readResult: offset is %d: it counts from 0", offset)
	}
	v := l.value
	if l.block != nil {
		return tool.Marshal(runes(l.data, offset, limit))
	}
	switch v[0] {
	case '[':
		return part(v, offset, limit), nil
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return nil, err
		}
		return tool.Marshal(runes(s, offset, limit))
	}
	if offset == 0 && limit < 0 {
		return v, nil
	}
	return tool.Marshal(runes(string(v), offset, limit))
}

// part gives limit elements of an array from offset on; all when limit is negative.
func part(v json.RawMessage, offset, limit int) json.RawMessage {
	if offset == 0 && limit < 0 {
		return v
	}
	out := json.RawMessage{'['}
	for item := range items(v) {
		if offset > 0 {
			offset--
			continue
		}
		if limit == 0 {
			break
		}
		limit--
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// runes gives limit characters of s from offset on; all when limit is negative.
func runes(s string, offset, limit int) string {
	at := 0
	for ; offset > 0 && at < len(s); offset-- {
		_, n := utf8.DecodeRuneInString(s[at:])
		at += n
	}
	if limit < 0 {
		return s[at:]
	}
	end := at
	for ; limit > 0 && end < len(s); limit-- {
		_, n := utf8.DecodeRuneInString(s[end:])
		end += n
	}
	return s[at:end]
}

// outline describes the type of a JSON value in one line, and a sensible limit for reading it.
func outline(v json.RawMessage) (shape, limit string) {
	limit = "20000"
	if v[0] == '[' {
		limit = "50"
	}
	return cut(shapeOf(v, 0), 1200), limit
}

const (
	shapeDepth  = 4
	shapeFields = 24
	shapeItems  = 20
)

// shapeOf writes the type of v as TypeScript would, with the lengths of arrays and long strings.
func shapeOf(v json.RawMessage, depth int) string {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		return "undefined"
	}
	switch v[0] {
	case '{':
		return objectShape(v, depth)
	case '[':
		return arrayShape(v, depth)
	case '"':
		if len(v) > 500 {
			return fmt.Sprintf("string (%s characters)", group(utf8.RuneCount(v)-2))
		}
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func objectShape(v json.RawMessage, depth int) string {
	if depth >= shapeDepth {
		return "{…}"
	}
	d := json.NewDecoder(bytes.NewReader(v))
	if _, err := d.Token(); err != nil {
		return "object"
	}
	var parts []string
	n := 0
	for ; d.More(); n++ {
		k, err := d.Token()
		var field json.RawMessage
		if err != nil || d.Decode(&field) != nil {
			return "object"
		}
		if n < shapeFields {
			parts = append(parts, cut(fmt.Sprint(k), 60)+": "+shapeOf(field, depth+1))
		}
	}
	if n > shapeFields {
		parts = append(parts, fmt.Sprintf("… %s more fields", group(n-shapeFields)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func arrayShape(v json.RawMessage, depth int) string {
	n := 0
	kinds := map[string]bool{}
	for item := range items(v) {
		if n++; n <= shapeItems && depth < shapeDepth {
			kinds[shapeOf(item, depth+1)] = true
		}
	}
	switch {
	case n == 0:
		return "[]"
	case depth >= shapeDepth:
		return fmt.Sprintf("array of %s", group(n))
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	sort.Strings(names)
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return fmt.Sprintf("array of %s %s", group(n), strings.Join(names, " | "))
}

// countTokens counts what the agent was given and what it was spared; once.
func (r *run) countTokens() (Tokens, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counted || r.answered == nil { // it has not ended
		return r.exec.Tokens, nil
	}
	var t Tokens
	for _, raw := range r.answered.Content {
		var b block
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" {
			n, err := r.x.tokens.Count(b.Text, 0)
			if err != nil {
				return t, err
			}
			t.Returned += n
		}
	}
	all, size := 0, 0
	for _, raw := range r.seen {
		n, err := r.x.tokens.Count(string(raw), 0)
		if err != nil {
			return t, err
		}
		all, size = all+n, size+len(raw)
	}
	if size > 0 {
		all += int(float64(r.unseen) * float64(all) / float64(size))
	}
	t.KeptOut = max(0, all-t.Returned)
	r.exec.Tokens, r.counted, r.seen = t, true, nil
	return t, nil
}
