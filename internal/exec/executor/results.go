package executor

import (
	"encoding/json"
	"fmt"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

// results keeps what an execution leaves for later programs, and reads what earlier ones left.
type results struct {
	*env
	taint *taint
	meter *meter
}

// valueText returns the text of a value within the token budget. A value that doesn't fit is
// described, and kept for later programs.
func (s *results) valueText(e *execution.Execution) string {
	v, budget := string(e.Value), s.x.cfg.Limits.OutputTokens
	if len(v) <= budget { // a token has at least one byte
		return v
	}
	if s.x.tokens.Count(v, budget) <= budget {
		return v
	}
	h := s.x.left.keep(&leftover{principal: s.principal.ID, session: s.session, labels: s.taint.labels.All(),
		value: e.Whole()})
	first := s.x.tokens.Fit(v, budget*6/10, text.Head)
	last := s.x.tokens.Fit(v, budget*2/10, text.Tail)
	return s.overText(v, h, e.Language, first, last)
}

func (s *results) overText(v, handle, language, first, last string) string {
	shape, limit := values.Outline(json.RawMessage(v))
	about := float64(s.x.cfg.Limits.OutputTokens) * 0.8 * float64(len(v)) / float64(len(first)+len(last))
	call := fmt.Sprintf("await readResult(%q, { offset: 0, limit: %s })", handle, limit)
	if language == "python" {
		call = fmt.Sprintf("await read_result(%q, offset=0, limit=%s)", handle, limit)
	}
	switch language {
	case "bash":
		call = fmt.Sprintf("tool --raw biplane.result --handle %s --offset 0 --limit %s", handle, limit)
	case "go":
		call = fmt.Sprintf("tools.Call(\"biplane.result\", "+
			"map[string]any{\"handle\": %q, \"offset\": 0, \"limit\": %s})", handle, limit)
	case "rust":
		call = fmt.Sprintf("tools::call(\"biplane.result\", "+
			"tools::object!{\"handle\": %q, \"offset\": 0, \"limit\": %s})", handle, limit)
	case "java":
		call = fmt.Sprintf("Tools.call(\"biplane.result\", \"handle\", %q, \"offset\", 0, \"limit\", %s)",
			handle, limit)
	}
	return fmt.Sprintf("The value is too large to show in full: %s bytes of JSON, about %s tokens. Here are its "+
		"shape, its head and its tail. It is kept for %s: to read it, in a later program: %s\n"+
		"shape: %s\nhead: %s\ntail: %s", text.Group(len(v)), text.Group(int(about)),
		text.Span(s.x.cfg.Limits.KeptFor), call, shape, first, last)
}

// readResult returns a part of a leftover: {handle, offset?, limit?}. Offset and limit count
// characters of a string, items of an array, or otherwise characters of the JSON.
func (s *results) readResult(args json.RawMessage) (json.RawMessage, error) {
	fields, err := parseFields(args, "readResult", "handle", "offset", "limit")
	if err != nil {
		return nil, err
	}
	var h string
	offset, limit := 0, -1
	if err := decodeField(fields, "handle", &h, "a string: the handle of a result"); err != nil {
		return nil, err
	}
	if err := decodeField(fields, "offset", &offset, "a whole number"); err != nil {
		return nil, err
	}
	if err := decodeField(fields, "limit", &limit, "a whole number"); err != nil {
		return nil, err
	}
	l, err := s.leftover(h)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, tool.Errorf(tool.Invalid, "readResult: offset is %d: it counts from 0", offset)
	}
	var part json.RawMessage
	s.meter.doWork(l.size, func() { part, err = l.readPart(offset, limit) })
	return part, err
}

// readPart returns a part of the leftover: limit of its characters or items from offset on, or all
// of them if limit is negative.
func (l *leftover) readPart(offset, limit int) (json.RawMessage, error) {
	v := l.value
	if l.block != nil {
		return tool.Marshal(values.Runes(l.data, offset, limit))
	}
	switch v[0] {
	case '[':
		return values.Part(v, offset, limit), nil
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return nil, err
		}
		return tool.Marshal(values.Runes(s, offset, limit))
	}
	if offset == 0 && limit < 0 {
		return v, nil
	}
	return tool.Marshal(values.Runes(string(v), offset, limit))
}

// keep stores a content block for emit and readResult, and returns its handle: the given one, or a
// new one if handle is empty.
func (s *results) keep(handle string, b values.Block, raw json.RawMessage) string {
	l := &leftover{handle: handle, principal: s.principal.ID, session: s.session, labels: s.taint.labels.All(),
		block: raw, data: b.Data}
	if b.Resource != nil {
		if l.data = b.Resource.Blob; b.Resource.Text != nil {
			l.data, l.text = *b.Resource.Text, true
		}
	}
	return s.x.left.keep(l)
}

// keepAgain stores content blocks under their previous handles.
func (s *results) keepAgain(blocks []journal.Block) {
	for _, b := range blocks {
		var content values.Block
		if json.Unmarshal(b.Raw, &content) == nil {
			s.keep(b.Handle, content, b.Raw)
		}
	}
}

// leftover returns the leftover with a handle. Its labels are added to the run's.
func (s *results) leftover(handle string) (*leftover, error) {
	l, err := s.x.left.get(s.principal.ID, handle)
	if err == nil {
		err = s.taint.carry(l.labels)
	}
	if err == nil {
		err = s.taint.bringLeftover(l)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
