package retention

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// Limits of redaction: the nesting depth of values, and of strings that contain JSON.
const (
	redactDepth = 200
	redactTexts = 4
)

// redacted replaces a secret, as in package mask.
const redacted = "[redacted]"

// redactJSON returns JSON in which the values of secret fields, and texts in strings that look like
// secrets, are replaced. It returns nil for data that is not JSON, is nested too deeply, or is too
// large to be kept whole. Fields can't be found in a part of it.
func (k *Keeper) redactJSON(data []byte) []byte {
	if len(data) > keptBytes {
		return nil
	}
	if k.isPlain(data) {
		return data
	}
	return k.redactSlowly(data)
}

// redactSlowly is redact without the fast path.
func (k *Keeper) redactSlowly(data []byte) []byte {
	var out bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := k.copyValue(d, &out, redactDepth, redactTexts); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return out.Bytes()
}

// isPlain reports whether JSON certainly has nothing to redact. It is ASCII without spaces between
// tokens, has only the usual escapes, no names of secret fields, and nothing that text looks for.
// Then redacted would return the same bytes. This fast path handles most arguments.
func (k *Keeper) isPlain(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c <= ' ' || c >= 0x80:
			return false
		case c == '"':
			s, n := parseASCII(data[i:])
			if n == 0 || !k.plainString(s, data[i+n:]) {
				return false
			}
			i += n - 1
		case c == '{' || c == '[':
			if depth++; depth >= redactDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return json.Valid(data)
}

// parseASCII returns the ASCII string that data begins with, and its encoded length. The length is
// 0 if it has escapes that an encoder may write differently.
func parseASCII(data []byte) (s []byte, n int) {
	escaped := false
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			if s = data[1:i]; escaped {
				s = decodeEscapes(s)
			}
			return s, i + 1
		case c == '\\':
			if i++; i == len(data) || !strings.Contains(`"\nrt`, string(data[i])) {
				return nil, 0
			}
			escaped = true
		case c < ' ' || c >= 0x80:
			return nil, 0
		}
	}
	return nil, 0
}

// decodeEscapes decodes the escapes that unquoted accepts.
func decodeEscapes(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			i++
			switch c = s[i]; c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			}
		}
		out = append(out, c)
	}
	return out
}

// plainString reports whether a string needs no redaction, and is not the name of a secret field.
func (k *Keeper) plainString(s, rest []byte) bool {
	if len(rest) > 0 && rest[0] == ':' {
		exact, like := k.secretName(string(s))
		return !exact && !like
	}
	if t := bytes.TrimSpace(s); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		return false
	}
	return (!mayMatchShape(s) || !shapes.Get().Match(s)) && (!mayHaveName(s) || !namedShapes.Get().Match(s))
}

// mayMatchShape reports whether an ASCII string may match shapes: each of them contains one of
// these marks. It is much faster than the regular expression.
func mayMatchShape(s []byte) bool {
	for _, mark := range []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-",
		"k_live_", "k_test_", "AKIA", "AIza", "eyJ", "-----BEGIN", "://"} {
		if bytes.Contains(s, []byte(mark)) {
			return true
		}
	}
	for i, c := range s {
		if c|0x20 == 'b' && (hasWordPrefix(s[i:], "bearer") || hasWordPrefix(s[i:], "basic")) {
			return true
		}
	}
	return false
}

// mayHaveName reports whether a text may contain a name of namedShapes, with its delimiter. It is
// much faster than the regular expression.
func mayHaveName(s []byte) bool {
	if bytes.Contains(s, []byte("':")) {
		return true
	}
	for rest := s; ; {
		i := bytes.IndexByte(rest, '=')
		if i < 0 {
			return false
		}
		tail := strings.ToLower(string(rest[max(0, i-4):i]))
		for _, end := range []string{"swd", "word", "rase", "pwd", "cret", "oken", "key", "jwt", "ture", "id",
			"sig", "code"} {
			if strings.HasSuffix(tail, end) {
				return true
			}
		}
		rest = rest[i+1:]
	}
}

// hasWordPrefix reports whether s begins with a lower-case word, ignoring case.
func hasWordPrefix(s []byte, word string) bool {
	return len(s) >= len(word) && strings.EqualFold(string(s[:len(word)]), word)
}

// copyValue copies the decoder's next value.
func (k *Keeper) copyValue(d *json.Decoder, out *bytes.Buffer, depth, texts int) error {
	if depth == 0 {
		return fmt.Errorf("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return k.copyNested(d, out, t, depth, texts)
	case string:
		return writeToken(out, k.redactText(t, texts))
	}
	return writeToken(out, t)
}

// copyNested copies an array or an object whose opening delimiter was read.
func (k *Keeper) copyNested(d *json.Decoder, out *bytes.Buffer, open json.Delim, depth, texts int) error {
	out.WriteString(open.String())
	for i := 0; d.More(); i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if err := writeToken(out, name); err != nil {
				return err
			}
			out.WriteByte(':')
			if done, err := k.secretValue(d, out, fmt.Sprint(name)); done || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := k.copyValue(d, out, depth-1, texts); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err != nil {
		return err
	}
	out.WriteString(end.(json.Delim).String())
	return nil
}

// secretValue replaces the decoder's next value if the field's name names a secret. Numbers,
// true and false are replaced only if the name is an exact match: max_tokens is not a secret, pin
// is. null is never replaced.
func (k *Keeper) secretValue(d *json.Decoder, out *bytes.Buffer, name string) (done bool, err error) {
	exact, like := k.secretName(name)
	if !exact && !like {
		return false, nil
	}
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return false, err
	}
	if c := raw[0]; exact && c != 'n' || c == '"' || c == '{' || c == '[' {
		return true, writeToken(out, redacted)
	}
	_, err = out.Write(raw)
	return true, err
}

// secretNames returns names of secret fields, letters only. Names of more than three letters also
// match as prefixes and suffixes.
func secretNames() []string {
	return []string{
		"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey",
		"authorization",
		"cookie", "credential", "otp", "pin", "cvv", "cvc", "ssn", "jwt", "bearer", "signature", "sessionid",
	}
}

// secretName reports whether a field's name is exactly a secret's name, and whether it looks like
// one.
func (k *Keeper) secretName(name string) (exact, like bool) {
	s := strings.TrimSuffix(normalizeName(name), "s")
	for _, w := range k.secrets {
		if s == strings.TrimSuffix(w, "s") {
			return true, true
		}
	}
	for _, w := range k.looks {
		if s == w {
			exact = exact || s == normalizeName(name)
			like = true
		}
		if len(w) > 3 && (strings.HasSuffix(s, w) || strings.HasPrefix(s, w)) {
			like = true
		}
	}
	return exact, like
}

// normalizeName returns a name in lower case, with letters and digits only.
func normalizeName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// shapes matches texts that are secrets in any context: tokens with a known prefix, JWTs, private
// keys, values after an authorization scheme, and passwords in URLs.
var shapes = lazily.Regexp(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,` +
	`}|xox[a-z]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{10,` +
	`}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
	`|(?i:\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.~=-]{8,}|://[^/\s:@]+:[^/\s@]+@`)

// namedShapes matches secrets that follow a name: parameters of URLs and forms, and entries of a
// printed Python dictionary.
var namedShapes = lazily.Regexp(`(?i)((?:[?&;#]|\b)(?:[a-z0-9]+[_-])*(?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|private_?key|jwt|signature|session_?id)=|[?&](?:key|sig|code)=)([^&;#\s"'<>]+)` +
	`|('(?:[a-z0-9]+[_ -])*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credentials?|jwt|signature|session_?id)': ?b?)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)

// redactText redacts a string: as JSON if it is an object or an array, and otherwise the parts that
// match shapes or namedShapes.
func (k *Keeper) redactText(s string, texts int) string {
	if t := strings.TrimSpace(s); texts > 0 && (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) {
		if k.isPlain([]byte(t)) {
			return t
		}
		var out bytes.Buffer
		d := json.NewDecoder(strings.NewReader(t))
		d.UseNumber()
		if k.copyValue(d, &out, redactDepth, texts-1) == nil {
			if _, err := d.Token(); err == io.EOF {
				return out.String()
			}
		}
	}
	if !text.IsASCII(s) || mayMatchShape([]byte(s)) {
		s = shapes.Get().ReplaceAllString(s, redacted)
	}
	if !mayHaveName([]byte(s)) {
		return s
	}
	return namedShapes.Get().ReplaceAllStringFunc(s, func(m string) string {
		if m[0] == '\'' {
			name, _, _ := strings.Cut(m, ":")
			return name + ": '" + redacted + "'"
		}
		name, _, _ := strings.Cut(m, "=")
		return name + "=" + redacted
	})
}

// writeToken writes a token as JSON.
func writeToken(out *bytes.Buffer, t any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(t); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the encoder's newline
	return nil
}
