package privacy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Sheet collects texts that a model will see together. It must be used by one goroutine. A nil
// Sheet changes nothing.
type Sheet struct {
	g     *Guard
	of    tool.Scope
	paths tool.Paths // of personal fields
	words *lexicon
	finds []*Entry
	index map[string]int // index in finds, by Key
	fill  []func()       // put the results of drafts into place
	blind bool           // the vault can't be read, so personal data can't be recognized: nothing is shown
}

// unread replaces content that can't be checked.
const unread = "[omitted: it may contain personal data, and the vault that would show it can't be read]"

// Blind reports whether the vault can't be read. If so, nothing on the sheet is shown.
func (s *Sheet) Blind() bool { return s != nil && s.blind }

// Sheet returns a new Sheet for a vault. more are paths of personal fields, in addition to the
// configured ones.
func (g *Guard) Sheet(ctx context.Context, of tool.Scope, more ...[]string) *Sheet {
	if g == nil {
		return nil
	}
	words := g.vaultLexicon(ctx, of)
	return &Sheet{g: g, of: of, paths: append(slices.Clone(g.paths), more...), words: words, blind: words == nil,
		index: map[string]int{}}
}

// A draft is a text whose tokens have not been inserted yet.
type draft []part

// A part is a piece of a draft: a text, or a value to be replaced.
type part struct {
	text string
	find int // index in finds plus one; 0: text
}

func (d draft) isPlain() bool {
	return !slices.ContainsFunc(d, func(p part) bool { return p.find > 0 })
}

// addFound adds a value and returns its part.
func (s *Sheet) addFound(k Kind, value string, literal bool) part {
	e := &Entry{Token: Token{Kind: k}, Value: value, Literal: literal}
	key := e.Key()
	i, ok := s.index[key]
	if !ok {
		i = len(s.finds)
		s.index[key], s.finds = i, append(s.finds, e)
	}
	return part{find: i + 1}
}

// insertTokens inserts the tokens.
func (s *Sheet) insertTokens(d draft) string {
	var b strings.Builder
	for _, p := range d {
		if p.find > 0 {
			b.WriteString(s.finds[p.find-1].Token.String())
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// Text adds *p to the sheet. If it is a JSON object or list, it is treated as JSON.
func (s *Sheet) Text(p *string) {
	if s == nil || *p == "" {
		return
	}
	if s.blind {
		*p = unread
		return
	}
	d := s.textOrJSON(*p, noCue, s.startPlace(), 0)
	if len(d) > 1 || strings.Contains(*p, ellipsis) {
		s.fill = append(s.fill, func() { *p = s.insertTokens(d) })
	}
}

// JSON adds *p to the sheet, a JSON value. If it is invalid, it is treated as text.
func (s *Sheet) JSON(p *json.RawMessage) {
	if s == nil || len(*p) == 0 {
		return
	}
	if s.blind {
		*p = json.RawMessage(`"` + unread + `"`)
		return
	}
	d, ok := s.draftJSON(string(*p), s.startPlace(), 0)
	if !ok {
		d = s.draftText(string(*p), noCue)
	}
	if len(d) > 1 || !ok && strings.Contains(string(*p), ellipsis) {
		s.fill = append(s.fill, func() { *p = json.RawMessage(s.insertTokens(d)) })
	}
}

// Block adds *p to the sheet, an MCP content block. Binary blocks can't be checked: unless the
// configuration lets them pass, they are replaced by a notice.
func (s *Sheet) Block(p *json.RawMessage) {
	if s == nil {
		return
	}
	if s.blind {
		*p = json.RawMessage(`{"type":"text","text":"` + unread + `"}`)
		return
	}
	// field names are case-sensitive: a struct would accept "Type" for "type"
	var b, resource map[string]json.RawMessage
	_ = json.Unmarshal(*p, &b)
	_ = json.Unmarshal(b["resource"], &resource)
	text := func(of map[string]json.RawMessage, name string) (t string) {
		_ = json.Unmarshal(of[name], &t)
		return t
	}
	kind := text(b, "type")
	switch {
	case resource["blob"] != nil:
		if t, ok := decodeBase64(text(resource, "blob")); ok {
			s.addBlob(p, t)
			return
		}
		s.withholdBlock(p, text(resource, "mimeType"), len(resource["blob"]))
		return
	case b["data"] != nil || kind == "image" || kind == "audio":
		s.withholdBlock(p, text(b, "mimeType"), len(b["data"]))
		return
	}
	s.JSON(p)
}

// mediaType matches a plausible media type.
var mediaType = lazily.Regexp(`^[a-z]{1,20}/[a-z0-9.+-]{1,80}$`)

// withholdBlock replaces a block that can't be checked by a notice.
func (s *Sheet) withholdBlock(p *json.RawMessage, mime string, base64 int) {
	if s.g.cfg.Binaries {
		return
	}
	about := ""
	if mediaType.Get().MatchString(mime) {
		about = " (" + mime + ")"
	}
	text := fmt.Sprintf("[a file%s of %d bytes was omitted: it can't be checked for personal data; privacy.binaries: "+
		"pass shows it]", about, base64*3/4)
	if raw, err := tool.Marshal(tool.TextBlock{Type: "text", Text: text}); err == nil {
		s.fill = append(s.fill, func() { *p = raw })
	}
}

// decodeBase64 decodes base64. ok is false unless the result is text.
func decodeBase64(data string) (string, bool) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return "", false
	}
	return string(raw), true
}

// addBlob adds the text that a resource contains as base64.
func (s *Sheet) addBlob(p *json.RawMessage, text string) {
	d := s.textOrJSON(text, noCue, s.startPlace(), 0)
	rest := slices.Clone(*p)
	s.JSON(&rest)
	s.fill = append(s.fill, func() {
		var fields, resource map[string]json.RawMessage
		_ = json.Unmarshal(rest, &fields) // both were parsed before, and replacements leave them valid
		_ = json.Unmarshal(fields["resource"], &resource)
		// strings can always be marshaled
		resource["blob"], _ = json.Marshal(base64.StdEncoding.EncodeToString([]byte(s.insertTokens(d))))
		fields["resource"], _ = json.Marshal(resource)
		*p, _ = json.Marshal(fields)
	})
}

// Again adds the texts of *p, a result whose content was hidden before, perhaps in another vault.
// Its other blocks are kept.
func (s *Sheet) Again(p **tool.Result) {
	if s == nil || *p == nil || s.blind { // if blind, there is nothing else to show
		return
	}
	var fields map[string]json.RawMessage
	var content []json.RawMessage
	if json.Unmarshal((*p).Raw, &fields) != nil || json.Unmarshal(fields["content"], &content) != nil {
		return
	}
	before := len(s.fill)
	for i := range content {
		var b tool.TextBlock
		if json.Unmarshal(content[i], &b) == nil && b.Type == "text" {
			s.JSON(&content[i])
		}
	}
	meta := fields["_meta"]
	s.JSON(&meta)
	if len(s.fill) == before {
		return
	}
	s.fill = append(s.fill, func() {
		if meta != nil {
			fields["_meta"] = meta
		}
		fields["content"], _ = json.Marshal(content) // parts of valid JSON
		raw, err := tool.Marshal(fields)
		if err == nil {
			var out *tool.Result
			if out, err = tool.ParseResult(raw); err == nil {
				*p = out
				return
			}
		}
		*p = tool.Text(true, "the answer can't be shown without personal data")
	})
}

// Result adds *p to the sheet, a tool result.
func (s *Sheet) Result(p **tool.Result) {
	if s == nil || *p == nil {
		return
	}
	if s.blind {
		*p = tool.Text(true, unread)
		return
	}
	var fields map[string]json.RawMessage
	var content []json.RawMessage
	if json.Unmarshal((*p).Raw, &fields) != nil ||
		fields["content"] != nil && json.Unmarshal(fields["content"], &content) != nil {
		*p = tool.Text(true, "the tool's answer can't be shown: it can't be checked for personal data")
		return
	}
	delete(fields, "content")
	before := len(s.fill)
	for i := range content {
		s.Block(&content[i])
	}
	rest := map[string]*json.RawMessage{}
	for k, v := range fields {
		rest[k] = &v
		s.JSON(&v)
	}
	if len(s.fill) == before {
		return
	}
	s.fill = append(s.fill, func() {
		list, err := tool.Marshal(content)
		rest["content"] = &list
		var raw json.RawMessage
		if err == nil {
			raw, err = tool.Marshal(rest)
		}
		var r *tool.Result
		if err == nil {
			r, err = tool.ParseResult(raw)
		}
		if err != nil {
			r = tool.Text(true, "the tool's answer can't be shown: its personal data can't be replaced")
		}
		*p = r
	})
}

// Hide replaces everything on the sheet. If the vault can't be written, tokens have no numbers and
// can't be reversed; no values are shown.
func (s *Sheet) Hide(ctx context.Context) {
	if s == nil {
		return
	}
	if len(s.finds) > 0 {
		ctx = context.WithoutCancel(ctx) // what is shown must be hidden, however the call ended
		s.g.touchVault(ctx, s.of)
		if err := s.g.cfg.Store.Number(ctx, s.of, s.g.cfg.Values, s.finds); err != nil {
			s.g.cfg.Log.Error("vault of personal data not writable: some tokens have no stored value", "err", err)
			for _, e := range s.finds {
				e.N = 0
			}
		}
		if fresh := slices.DeleteFunc(slices.Clone(s.finds), isEvident); len(fresh) > 0 && !s.words.hasAll(fresh) {
			s.g.forgetVault(s.of)
		}
	}
	for _, f := range s.fill {
		f()
	}
	s.fill = nil
}

// HideTexts replaces the personal data in texts that a model will see together.
func (g *Guard) HideTexts(ctx context.Context, of tool.Scope, texts tool.Texts) {
	s := g.Sheet(ctx, of)
	for _, p := range texts.JSON {
		s.JSON(p)
	}
	for _, p := range texts.Text {
		s.Text(p)
	}
	for _, p := range texts.Blocks {
		s.Block(p)
	}
	s.Hide(ctx)
}

// textOrJSON returns the draft of a text, which may be JSON. about is the cue of the field that
// holds the text, and at is its place.
func (s *Sheet) textOrJSON(t string, about cue, at place, depth int) draft {
	if head := strings.TrimSpace(t); head != "" && depth < maxNested && (head[0] == '{' || head[0] == '[') {
		if d, ok := s.draftJSON(t, at, depth+1); ok {
			return d
		}
	}
	return s.draftText(t, about)
}

// draftText returns the draft of a text.
func (s *Sheet) draftText(t string, about cue) draft {
	tail := ""
	if cutOff(t) {
		t, tail = trimPartial(t)
	}
	t = withoutHalves(t)
	var out draft
	at := 0
	for _, m := range s.findMatches(t, about) {
		out = append(out, part{text: t[at:m.Start]},
			s.addFound(m.Kind, s.words.withoutEscapes(t[m.Start:m.End]), false))
		at = m.End
	}
	return append(out, part{text: t[at:] + tail})
}

// findMatches returns the personal data in a text: what is recognized, and known values of fields.
func (s *Sheet) findMatches(t string, about cue) []Match {
	read := replaceEscapes(t)
	all := slices.DeleteFunc(findPersonal(read, about), func(m Match) bool { return s.g.off[m.Kind] })
	known := s.words.findValues(t)
	if read != t {
		known = append(known, s.words.findValues(read)...)
	}
	if len(known) == 0 {
		return all
	}
	all = append(all, known...)
	slices.SortFunc(all, func(a, b Match) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	out := all[:0]
	for _, m := range all {
		if n := len(out); n > 0 && m.Start < out[n-1].End {
			// Both are hidden, as one value that covers both.
			if m.End > out[n-1].End {
				out[n-1] = Match{out[n-1].Start, m.End, Field}
			}
			continue
		}
		out = append(out, m)
	}
	return out
}

// The end of a text that was truncated before it was checked may be the first half of a value.
const (
	ellipsis = "…"
	minCut   = 1000 // minimum size in bytes of a text that may have been truncated
	maxHalf  = 254  // maximum number of bytes removed before the cut
)

// cutOff reports whether a text was truncated: long ones then end with an ellipsis, sometimes
// followed by the number of missing characters.
func cutOff(t string) bool {
	if len(t) < minCut {
		return false
	}
	i := strings.LastIndex(t[len(t)-min(len(t), 64):], ellipsis)
	return i >= 0
}

// trimPartial removes what may be half a value from a truncated text: the last word, and groups of
// digits before it.
func trimPartial(t string) (head, tail string) {
	i := strings.LastIndex(t, ellipsis)
	head, tail = t[:i], t[i:]
	end := len(head)
	for end > 0 && len(head)-end < maxHalf && strings.IndexByte(" \t\r\n\"',;<>()[]{}", head[end-1]) < 0 {
		end--
	}
	for end > 0 && len(head)-end < maxHalf && strings.IndexByte("0123456789 -./()+", head[end-1]) >= 0 {
		end--
	}
	for end > 0 && end < len(head) && !utf8.RuneStart(head[end]) {
		end--
	}
	return head[:end], tail
}
