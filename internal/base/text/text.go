// Package text formats numbers, sizes, times and shortened texts for people and agents.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Cut shortens s to at most n bytes, without splitting a character, and marks the cut.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Clip shortens s to at most n characters, and marks the cut.
func Clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// FirstLine returns the first line of s.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Group formats a number with commas.
func Group[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count formats a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") {
		noun += "e"
	}
	return Group(n) + " " + noun + "s"
}

// Size formats a number of bytes.
func Size[T int | int64](n T) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.3g KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Duration formats how long something took.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Span formats how long something is kept.
func Span(d time.Duration) string {
	switch {
	case d%time.Hour == 0 && d > 0:
		return Count(int(d/time.Hour), "hour")
	case d%time.Minute == 0 && d > 0:
		return Count(int(d/time.Minute), "minute")
	}
	return d.String()
}

// Setting formats a duration as in a configuration: 30d, 10m, 1m30s.
func Setting(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if d != 0 && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d != 0 && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// IsASCII reports whether s has ASCII characters only.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Head returns at most the first n bytes of s, without splitting a character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}

// Tail returns at most the last n bytes of s, without splitting a character.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	for i := 0; i < utf8.UTFMax && at < len(s) && !utf8.RuneStart(s[at]); i++ {
		at++
	}
	return s[at:]
}
