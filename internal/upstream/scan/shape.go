package scan

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// lookalikes maps letters of other scripts to the Latin letter that they look like. It holds the
// letters of Unicode's confusables (UTS 39) that common fonts draw like a letter of ASCII.
// Fullwidth and mathematical letters are not in it: NFKC maps those.
var lookalikes = lazily.Value[map[rune]rune]{Make: func() map[rune]rune {
	return map[rune]rune{
		'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ј': 'j', 'ѕ': 's', 'һ': 'h',
		'ԁ': 'd', 'ԛ': 'q', 'ԝ': 'w', 'ӏ': 'l', 'ѵ': 'v', 'ѡ': 'w', 'ɡ': 'g', 'ո': 'n', 'ս': 'u', 'օ': 'o', 'հ': 'h',
		'ց': 'g', 'ք': 'p', 'ա': 'w', 'ɩ': 'i', 'ı': 'i', 'ɑ': 'a', 'α': 'a', 'ο': 'o', 'ρ': 'p', 'ν': 'v', 'ι': 'i',
		'κ': 'k', 'τ': 't', 'υ': 'u', 'γ': 'y', 'χ': 'x', 'А': 'A', 'В': 'B', 'Е': 'E', 'К': 'K', 'М': 'M', 'Н': 'H',
		'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'У': 'Y', 'Х': 'X', 'І': 'I', 'Ј': 'J', 'Ѕ': 'S', 'Α': 'A', 'Β': 'B',
		'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I', 'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y',
		'Χ': 'X', 'Ꭺ': 'A', 'Ᏼ': 'B', 'Ꮯ': 'C', 'Ꭼ': 'E', 'Ꮋ': 'H', 'Ꭻ': 'J', 'Ꮶ': 'K', 'Ꮮ': 'L', 'Ꮇ': 'M', 'Ꮲ': 'P',
		'Ꭱ': 'R', 'Ꮪ': 'S', 'Ꭲ': 'T', 'Ꮩ': 'V', 'Ꮃ': 'W', 'Ꮓ': 'Z', 'к': 'k', 'т': 't', 'м': 'm', 'н': 'h', 'в': 'b',
		'‐': '-', '‑': '-', '‒': '-', '–': '-', '’': '\'', '‘': '\'',
	}
}}

// foldText returns a text as rules see it: in lower case, on one line, with single spaces, without
// emphasis, and with Latin letters instead of others that look like them.
func foldText(s string) string {
	if !isASCII(s) {
		s = norm.NFKC.String(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case r == '*' || r == '`':
			continue
		case unicode.IsSpace(r):
			space = true
			continue
		case r > 0x7f:
			if l, ok := lookalikes.Get()[r]; ok {
				r = l
			}
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// mixesScripts returns the letters in a name that look like Latin ones and are in a word with Latin
// letters. Words in one other script are ordinary.
func mixesScripts(name string) string {
	if isASCII(name) {
		return ""
	}
	var found []rune
	divides := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, word := range strings.FieldsFunc(name, divides) {
		if !strings.ContainsFunc(word, func(r rune) bool { return r <= 0x7f && unicode.IsLetter(r) }) {
			continue
		}
		for _, r := range word {
			if _, ok := lookalikes.Get()[r]; ok || r > 0x7f && isASCII(norm.NFKC.String(string(r))) {
				found = append(found, r)
			}
		}
	}
	return listRunes(found)
}

// shapeName returns the shape of a tool's name: names with the same shape look alike.
func shapeName(name string) string {
	if !isASCII(name) {
		name = strings.Map(func(r rune) rune {
			if l, ok := lookalikes.Get()[r]; ok {
				return l
			}
			return r
		}, norm.NFKC.String(name))
	}
	rs := []rune(tool.Snake(name))
	for i, r := range rs {
		// Only inside a word, so that v1 and vl stay different.
		if i+1 < len(rs) && unicode.IsLetter(rs[i+1]) {
			switch r {
			case '0':
				rs[i] = 'o'
			case '1':
				rs[i] = 'l'
			}
		}
	}
	return strings.NewReplacer("rn", "m", "vv", "w").Replace(string(rs))
}
