package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// CallDigest returns the digest of a call: the SHA-256 of the tool's path, a zero byte and the
// canonical arguments, in hexadecimal.
func CallDigest(path string, args json.RawMessage) string {
	h := sha256.New()
	_, _ = io.WriteString(h, path) // never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(canonical(args))
	return hex.EncodeToString(h.Sum(nil))
}

// CanonicalJSON returns JSON in the canonical form of RFC 8785 (JCS). Numbers that a double can't
// hold exactly become strings of U+0000 and their text. No JSON is {}; invalid JSON stays as it is.
func CanonicalJSON(raw json.RawMessage) json.RawMessage { return canonical(raw) }

// canonical returns args in the canonical form of RFC 8785 (JCS), so that equal arguments have
// equal bytes. JCS numbers are doubles. A number that a double can't hold exactly becomes a string
// of U+0000 and its text. So two issue numbers that differ only in the last digit stay different.
// Absent arguments are {}.
func canonical(args json.RawMessage) []byte {
	if len(bytes.TrimSpace(args)) == 0 {
		return []byte("{}")
	}
	if out, ok := canonicalizePlain(args); ok {
		return out
	}
	return canonicalizeAny(args)
}

// canonicalizeAny is canonical for arguments that are not plain.
func canonicalizeAny(args json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return args // not JSON: leave it unchanged
	}
	if _, err := d.Token(); err != io.EOF {
		return args
	}
	plain, err := Marshal(exact(v))
	if err != nil {
		return args
	}
	out, err := jcs.Transform(plain)
	if err != nil {
		return plain
	}
	return out
}

// exact replaces the numbers in v that a double can't hold exactly with strings.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !fits(string(v)) {
			return "\x00" + string(v)
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any: // as encoding/json decodes an object into an interface
		for k, e := range v {
			v[k] = exact(e)
		}
	}
	return v
}

// fits reports whether a double certainly holds the number written as s: one of at most 15 digits,
// or an integer of at most 2^53 in magnitude.
func fits(s string) bool {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return -1<<53 <= n && n <= 1<<53
	}
	f, err := strconv.ParseFloat(s, 64)
	digits := strings.TrimLeft(strings.ReplaceAll(strings.TrimLeft(s, "-"), ".", ""), "0")
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		digits = digits[:i]
	}
	return err == nil && len(digits) <= 15 && (f != 0 || digits == "")
}
