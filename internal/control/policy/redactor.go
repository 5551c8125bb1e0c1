package policy

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits on what a redactor reads. It removes anything beyond them.
const (
	redactDepth  = 200      // levels of objects and lists in one document
	redactLevels = 8        // depth of documents in strings of documents
	redactBytes  = 64 << 20 // total size of the documents in strings of one result
)

// A redactor replaces the values of named fields in JSON, and in JSON within its strings.
type redactor struct {
	root  tool.Paths
	names []string // last elements of the paths, in lower case
	hits  int      // number of values and strings replaced so far
	left  int      // remaining bytes of documents in strings
}

func newRedactor(paths []string) *redactor {
	d := &redactor{root: tool.ParsePaths(paths), left: redactBytes}
	for _, p := range d.root {
		if last := strings.ToLower(p[len(p)-1]); last != "*" && last != "**" {
			d.names = append(d.names, last)
		}
	}
	return d
}

// redactStructuredContent returns structured content without the fields.
func (d *redactor) redactStructuredContent(raw json.RawMessage) json.RawMessage {
	all, ok := decodeAll(string(raw))
	if ok && len(all) == 1 {
		if v, ok := d.redactValue(all[0], d.root, 0, 0); ok {
			if out, err := tool.Marshal(v); err == nil && (out[0] == '{' || out[0] == '[') {
				return out
			}
		}
	}
	return json.RawMessage(`{}`)
}

// redactDocument removes the fields from a text that is entirely JSON: one or more objects and
// lists, or a string of such a text. A byte order mark, white space and a code fence may surround
// it. It returns false for other texts. Numbers keep their digits; objects lose the order of their
// fields.
func (d *redactor) redactDocument(text string, paths tool.Paths, level int) (string, bool) {
	if d.left -= len(text); level > redactLevels || d.left < 0 {
		return "", false
	}
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\ufeff"))
	before, after := "", ""
	if body, ok := strings.CutPrefix(text, "```"); ok {
		info, inside, ok := strings.Cut(body, "\n")
		if !ok || strings.ContainsAny(info, "{[\"`") || !strings.HasSuffix(inside, "```") {
			return "", false
		}
		text, before, after = strings.TrimSuffix(inside, "```"), "```json\n", "\n```"
	}
	all, ok := decodeAll(text)
	if !ok {
		return "", false
	}
	lines := make([]string, len(all))
	for i, v := range all {
		switch s := jsonvalue.ForSwitch(v).(type) {
		case jsonvalue.Object, []any:
			v, ok = d.redactValue(v, paths, 0, level)
		case string:
			v, ok = d.redactDocument(s, paths, level+1)
		default:
			ok = false
		}
		if !ok {
			return "", false
		}
		out, err := tool.Marshal(v)
		if err != nil {
			return "", false
		}
		lines[i] = string(out)
	}
	return before + strings.Join(lines, "\n") + after, true
}

// decodeAll decodes a text of one or more JSON values. It returns false if the text has anything
// else.
func decodeAll(text string) (all []any, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var v any
		switch err := d.Decode(&v); {
		case err == io.EOF:
			return all, len(all) > 0
		case err != nil:
			return nil, false
		}
		all = append(all, v)
	}
}

// redactValue removes the fields from v. It returns false if v is nested too deeply.
func (d *redactor) redactValue(v any, paths tool.Paths, depth, level int) (any, bool) {
	if depth > redactDepth {
		return nil, false
	}
	switch v := jsonvalue.ForSwitch(v).(type) {
	case string:
		return d.redactText(v, paths, level), true
	case []any:
		for i, e := range v {
			var ok bool
			if v[i], ok = d.redactValue(e, paths, depth+1, level); !ok {
				return nil, false
			}
		}
	case jsonvalue.Object:
		return d.redactObject(v, paths, depth, level)
	}
	return v, true
}

func (d *redactor) redactObject(fields jsonvalue.Object, paths tool.Paths, depth, level int) (any, bool) {
	out := make(jsonvalue.Object, len(fields))
	for name, e := range fields {
		below, whole := paths.Below(name)
		// frameworks wrap a tool's return value in such a field
		if len(fields) == 1 && depth == 0 && strings.EqualFold(name, "result") {
			below = unionPaths(below, d.root)
		}
		var ok bool
		switch {
		case d.holdsFields(name, level):
			name, e = Redacted, Redacted
			d.hits++
		case whole:
			e = Redacted
			d.hits++
		default:
			if e, ok = d.redactValue(e, below, depth+1, level); !ok {
				return nil, false
			}
		}
		out[name] = e
	}
	return out, true
}

// unionPaths returns the paths of both, each once.
func unionPaths(a, b tool.Paths) tool.Paths {
	out := slices.Clone(a)
	for _, p := range b {
		if !slices.ContainsFunc(out, func(q []string) bool { return slices.Equal(p, q) }) {
			out = append(out, p)
		}
	}
	return out
}

// redactText removes the fields from a string. Paths also apply from the root of a document in it.
// A string that isn't entirely JSON and seems to contain fields is replaced.
func (d *redactor) redactText(s string, paths tool.Paths, level int) string {
	if looksLikeJSON(s) {
		if out, ok := d.redactDocument(s, unionPaths(paths, d.root), level+1); ok {
			return out
		}
	}
	if !d.mayHaveFields(s, level) {
		return s
	}
	d.hits++
	return uninspected
}

// holdsFields reports whether the name of a field is itself a text with fields to remove.
func (d *redactor) holdsFields(name string, level int) bool {
	if !strings.ContainsAny(name, "{[\\%&=:") && len(name) < minEncoded {
		return false
	}
	return d.redactText(name, d.root, level) == uninspected || looksLikeJSON(name) && d.needsRedaction(name, level)
}

// needsRedaction reports whether s is a document with fields to remove.
func (d *redactor) needsRedaction(s string, level int) bool {
	before := d.hits
	_, ok := d.redactDocument(s, d.root, level+1)
	return ok && d.hits > before
}

// looksLikeJSON reports whether a string begins like JSON that may have fields.
func looksLikeJSON(s string) bool {
	s = strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	return s != "" && strings.IndexByte("{[\"`", s[0]) >= 0
}

// mayHaveFields reports whether a string that isn't JSON may contain fields to remove: an object
// within other text, a field's name with a value after it, or either of them encoded.
func (d *redactor) mayHaveFields(s string, level int) bool {
	if d.left -= len(s); d.left < 0 || seemsStructured(s) || d.mentionsField(s) {
		return true
	}
	for _, plain := range decodeForms(s) {
		if level >= redactLevels {
			return true
		}
		d.left -= len(plain)
		if d.left < 0 {
			return true
		}
		if looksLikeJSON(plain) {
			before := d.hits
			if _, ok := d.redactDocument(plain, d.root, level+1); ok {
				if d.hits > before {
					return true
				}
				continue
			}
		}
		if d.mayHaveFields(plain, level+1) {
			return true
		}
	}
	return false
}

// seemsStructured reports whether a text seems to contain an object, or a list of objects or
// strings.
func seemsStructured(s string) bool {
	if i := strings.IndexByte(s, '{'); i >= 0 && strings.ContainsAny(s[i:], ":=") {
		return true
	}
	for {
		i := strings.IndexByte(s, '[')
		if i < 0 {
			return false
		}
		s = s[i+1:]
		if rest := strings.TrimSpace(s); rest != "" && strings.IndexByte("{[\"'\\", rest[0]) >= 0 {
			return true
		}
	}
}

// mentionsField reports whether a text has a field's name as a word next to a separator of names
// and values: "ssn: 1", <ssn>, "id,ssn".
func (d *redactor) mentionsField(s string) bool {
	lower := strings.ToLower(s)
	for _, name := range d.names {
		for at := 0; ; {
			i := strings.Index(lower[at:], name)
			if i < 0 {
				break
			}
			start := at + i
			end := start + len(name)
			at = end
			before, _ := utf8.DecodeLastRuneInString(lower[:start])
			after, _ := utf8.DecodeRuneInString(lower[end:])
			if isWordRune(before) || isWordRune(after) {
				continue
			}
			rest := strings.TrimLeft(lower[end:], "\"'`*_\\ )]")
			if rest != "" && strings.IndexByte(":=>,;|\t\r\n&", rest[0]) >= 0 {
				return true
			}
			if strings.HasSuffix(strings.TrimRight(lower[:start], " \"'"), ",") || before == '\t' || before == '|' ||
				before == ';' {
				return true
			}
		}
	}
	return false
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}

// minEncoded is the minimum length of a string that is decoded as base64, in bytes.
const minEncoded = 8

var (
	escape       = lazily.Regexp(`\\+(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})`)
	percent      = lazily.Regexp(`%[0-9a-fA-F]{2}`)
	base64Pieces = lazily.Regexp(`^[A-Za-z0-9+/_\-=\s.]+$`)
)

// decodeForms returns the decoded forms of a text, one for each encoding that it seems to have.
func decodeForms(s string) (out []string) {
	add := func(t string) {
		if t != s && t != "" && utf8.ValidString(t) {
			out = append(out, t)
		}
	}
	if strings.IndexByte(s, '\\') >= 0 && escape.Get().MatchString(s) {
		add(decodeEscapes(escape.Get(), s))
	}
	if strings.IndexByte(s, '%') >= 0 && percent.Get().MatchString(s) {
		t, err := url.PathUnescape(s)
		if err != nil { // it has another %
			t = decodeEscapes(percent.Get(), s)
		}
		add(t)
	}
	if strings.IndexByte(s, '&') >= 0 {
		add(html.UnescapeString(s))
	}
	addPieces := func(t string) { // the parts of a JWT, what follows data:...;base64,
		for piece := range strings.FieldsFuncSeq(t, isNotBase64) {
			if len(piece) < minEncoded {
				continue
			}
			if raw, err := base64.RawStdEncoding.DecodeString(standardAlphabet.Replace(piece)); err == nil {
				add(string(raw))
			}
		}
	}
	addPieces(s)
	if base64Pieces.Get().MatchString(s) { // one text in lines
		if joined := strings.Join(strings.Fields(s), ""); joined != s {
			addPieces(joined)
		}
	}
	return out
}

// standardAlphabet replaces the characters of base64 for URLs.
var standardAlphabet = strings.NewReplacer("-", "+", "_", "/")

// isNotBase64 reports whether c is not part of base64, in any alphabet, without its padding.
func isNotBase64(c rune) bool {
	return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("+/-_", c)
}

// decodeEscapes replaces matching escapes, of \ or %, with the characters that they represent.
func decodeEscapes(escapes *regexp.Regexp, s string) string {
	return escapes.ReplaceAllStringFunc(s, func(m string) string {
		n, err := strconv.ParseUint(strings.TrimLeft(m, "\\%xu"), 16, 32)
		if err != nil {
			return m
		}
		return string(rune(n))
	})
}
