package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/secret/mask"
)

// Redacted is what stands in the place of a secret value.
const Redacted = mask.Redacted

// What is redacted goes no deeper than so many levels; a string that is JSON by itself is a level
// of texts.
const (
	redactDepth = 200
	redactTexts = 4
)

// redact gives JSON with the values of secret fields replaced, and what looks like a secret in its
// strings; nil for what is no JSON, is nested too deeply, or is too large to be kept whole, since
// in a part of it fields can't be told.
func (k *keeper) redact(data []byte) []byte {
	if len(data) > KeptBytes {
		return nil
	}
	if k.plain(data) {
		return data
	}
	return k.redacted(data)
}

// redacted is redact by reading all of it.
func (k *keeper) redacted(data []byte) []byte {
	var out bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := k.value(d, &out, redactDepth, redactTexts); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return out.Bytes()
}

// plain reports whether JSON surely has nothing to redact: ASCII without spaces between and with no
// escapes but the usual ones, without names of secret fields, and without anything that text looks
// for. Then redacted gives the same bytes. Of most arguments that is all that there is to do.
func (k *keeper) plain(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c <= ' ' || c >= 0x80:
			return false
		case c == '"':
			s, n := unquoted(data[i:])
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

// unquoted gives the ASCII string that data begins with, and how long it is there; 0 where it has
// escapes that an encoder may write in another way.
func unquoted(data []byte) (s []byte, n int) {
	escaped := false
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			if s = data[1:i]; escaped {
				s = unescape(s)
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

// unescape writes out the escapes that unquoted takes.
func unescape(s []byte) []byte {
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

// plainString reports whether a string is nothing that is redacted, nor the name of what is.
func (k *keeper) plainString(s, rest []byte) bool {
	if len(rest) > 0 && rest[0] == ':' {
		exact, like := k.secretName(string(s))
		return !exact && !like
	}
	if t := bytes.TrimSpace(s); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		return false
	}
	return (!suspect(s) || !k.shapes().Match(s)) && (!names(s) || !k.named().Match(s))
}

// suspect reports whether ASCII may have one of the shapes, of which each has one of these. It is
// much quicker than the expression.
func suspect(s []byte) bool {
	for _, mark := range []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-", "k_live_", "k_test_", "AKIA", "AIza", "eyJ", "-----BEGIN", "://"} {
		if bytes.Contains(s, []byte(mark)) {
			return true
		}
	}
	for i, c := range s {
		if c|0x20 == 'b' && (starts(s[i:], "bearer") || starts(s[i:], "basic")) {
			return true
		}
	}
	return false
}

// names reports whether a text may have a name of namedShapes, with what follows it. It is much
// quicker than the expression.
func names(s []byte) bool {
	if bytes.Contains(s, []byte("':")) {
		return true
	}
	for rest := s; ; {
		i := bytes.IndexByte(rest, '=')
		if i < 0 {
			return false
		}
		tail := strings.ToLower(string(rest[max(0, i-4):i]))
		for _, end := range []string{"swd", "word", "rase", "pwd", "cret", "oken", "key", "jwt", "ture", "id", "sig", "code"} {
			if strings.HasSuffix(tail, end) {
				return true
			}
		}
		rest = rest[i+1:]
	}
}

// starts reports whether s begins with a lower-case word, in whatever case.
func starts(s []byte, word string) bool {
	return len(s) >= len(word) && strings.EqualFold(string(s[:len(word)]), word)
}

// value copies the decoder's next value.
func (k *keeper) value(d *json.Decoder, out *bytes.Buffer, depth, texts int) error {
	if depth == 0 {
		return fmt.Errorf("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return k.nested(d, out, t, depth, texts)
	case string:
		return write(out, k.text(t, texts))
	}
	return write(out, t)
}

// nested copies an array or an object whose first delimiter was read.
func (k *keeper) nested(d *json.Decoder, out *bytes.Buffer, open json.Delim, depth, texts int) error {
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
			if err := write(out, name); err != nil {
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
		if err := k.value(d, out, depth-1, texts); err != nil {
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

// secretValue replaces the decoder's next value where the field's name says so. Numbers, true,
// false and null are secrets under names that say nothing else only: max_tokens is none, pin is.
func (k *keeper) secretValue(d *json.Decoder, out *bytes.Buffer, name string) (done bool, err error) {
	exact, like := k.secretName(name)
	if !exact && !like {
		return false, nil
	}
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return false, err
	}
	if c := raw[0]; exact && c != 'n' || c == '"' || c == '{' || c == '[' {
		return true, write(out, Redacted)
	}
	_, err = out.Write(raw)
	return true, err
}

// looks are names of secret fields, letters only; those of more than three letters are also ends
// and beginnings of such names.
func looks() []string {
	return []string{
		"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey", "authorization",
		"cookie", "credential", "otp", "pin", "cvv", "cvc", "ssn", "jwt", "bearer", "signature", "sessionid",
	}
}

// secretName reports whether a field's name is one of a secret, or looks like one.
func (k *keeper) secretName(name string) (exact, like bool) {
	s := strings.TrimSuffix(squeeze(name), "s")
	for _, w := range k.secrets {
		if s == strings.TrimSuffix(w, "s") {
			return true, true
		}
	}
	for _, w := range k.looks {
		if s == w {
			exact = exact || s == squeeze(name)
			like = true
		}
		if len(w) > 3 && (strings.HasSuffix(s, w) || strings.HasPrefix(s, w)) {
			like = true
		}
	}
	return exact, like
}

// squeeze is a name without what writers of names differ in.
func squeeze(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// shapes are texts that are secrets whatever they are called: tokens by their makers' prefixes,
// JWTs, private keys, what follows an authorization scheme, passwords in addresses.
const shapes = `\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
	`|(?i:\b(?:bearer|basic)\s+)[A-Za-z0-9+/_.~=-]{8,}|://[^/\s:@]+:[^/\s@]+@`

// namedShapes are texts with a name before what is secret: parameters of addresses and forms, and
// what Python prints of a dictionary.
const namedShapes = `(?i)((?:[?&;#]|\b)(?:[a-z0-9]+[_-])*(?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|private_?key|jwt|signature|session_?id)=|[?&](?:key|sig|code)=)([^&;#\s"'<>]+)` +
	`|('(?:[a-z0-9]+[_ -])*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credentials?|jwt|signature|session_?id)': ?b?)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`

// text redacts within a string: as JSON where it is an object or an array, else what has the shape
// of a secret.
func (k *keeper) text(s string, texts int) string {
	if t := strings.TrimSpace(s); texts > 0 && (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) {
		var out bytes.Buffer
		d := json.NewDecoder(strings.NewReader(t))
		d.UseNumber()
		if k.value(d, &out, redactDepth, texts-1) == nil {
			if _, err := d.Token(); err == io.EOF {
				return out.String()
			}
		}
	}
	s = k.shapes().ReplaceAllString(s, Redacted)
	if !names([]byte(s)) {
		return s
	}
	return k.named().ReplaceAllStringFunc(s, func(m string) string {
		if m[0] == '\'' {
			name, _, _ := strings.Cut(m, ":")
			return name + ": '" + Redacted + "'"
		}
		name, _, _ := strings.Cut(m, "=")
		return name + "=" + Redacted
	})
}

// write writes a token as JSON.
func write(out *bytes.Buffer, t any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(t); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the encoder's newline
	return nil
}
