package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/biplane-dev/biplane/internal/tool"
)

// DigestOf is the digest of a call: SHA-256 of the tool, a zero byte and the canonical arguments, in hexadecimal.
func DigestOf(path string, args json.RawMessage) string {
	h := sha256.New()
	_, _ = io.WriteString(h, path) // never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(canonical(args))
	return hex.EncodeToString(h.Sum(nil))
}

// canonical gives arguments in the form of RFC 8785, so that those that say the same are the same bytes. The RFC's numbers are
// doubles; one that a double doesn't hold exactly keeps its text, as a string that begins with U+0000: two issues
// whose numbers differ in the last digit are two issues. Absent arguments are {}.
func canonical(args json.RawMessage) []byte {
	if len(bytes.TrimSpace(args)) == 0 {
		return []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return args // no JSON: as it is
	}
	plain, err := tool.Marshal(exact(v))
	if err != nil {
		return args
	}
	out, err := jcs.Transform(plain)
	if err != nil {
		return plain
	}
	return out
}

// exact makes strings of the numbers that a double doesn't hold.
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
	case map[string]any:
		for k, e := range v {
			v[k] = exact(e)
		}
	}
	return v
}

// fits reports whether a double surely holds the number that s writes: one of at most 15 digits, or an integer up to 2^53.
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
