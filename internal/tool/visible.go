package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns JSON as shown to a person who must approve it. Invisible characters (controls,
// bidirectional marks, spaces and letters without a glyph) are written as equivalent escapes.
func Visible(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case IsVisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// IsVisible reports whether Visible leaves a character as it is.
func IsVisible(r rune) bool {
	return r == '\n' || r == '\t' || r == ' ' || r != utf8.RuneError && unicode.IsPrint(r) && !shapeless(r)
}

// shapeless reports whether a character is invisible although Unicode counts it as a letter or a
// mark.
func shapeless(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// VisibleLine is Visible on one line.
func VisibleLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible([]byte(text)))
}
