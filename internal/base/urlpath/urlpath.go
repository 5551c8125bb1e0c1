// Package urlpath converts the paths of URLs to one canonical form, so that policy decides on the
// same path that the server sees.
package urlpath

import (
	"fmt"
	"net/url"
	"strings"
)

// CanonicalizePath changes the path of u to its canonical form (RFC 3986, section 6.2.2):
// characters that need no escape have none, escapes have upper-case digits, and there are no dot
// segments. It returns an error if a server that decodes the path once more could see dot segments
// in it.
func CanonicalizePath(u *url.URL) error {
	escaped := removeDots(unescapePlain(u.EscapedPath()))
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return fmt.Errorf("the path of the URL has an invalid escape: %w", err)
	}
	if hasHiddenDots(plain) {
		return fmt.Errorf("the path %.100q hides a dot segment: write the path without such segments", escaped)
	}
	u.Path, u.RawPath = plain, escaped
	return nil
}

// unescapePlain decodes the escapes of characters that need none, and writes others in upper case.
func unescapePlain(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b.WriteByte(path[i])
			continue
		}
		c := hexValue(path[i+1])<<4 | hexValue(path[i+2])
		if isPlain(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return b.String()
}

func hexValue(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// isPlain reports whether a character of a path needs no escape anywhere.
func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// removeDots removes dot segments (RFC 3986, section 5.2.4).
func removeDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var out []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == ".." && len(out) > 1:
			out = out[:len(out)-1]
		case s != "." && s != "..":
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return strings.Join(out, "/")
}

// hasHiddenDots reports whether a decoded path has dot segments, for a server that treats
// backslashes as slashes, or decodes it again.
func hasHiddenDots(path string) bool {
	for range 3 {
		for _, s := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' }) {
			if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
				return true
			}
		}
		next, err := url.PathUnescape(path)
		if err != nil || next == path {
			return false
		}
		path = next
	}
	return false
}
