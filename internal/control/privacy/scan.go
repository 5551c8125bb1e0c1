package privacy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Kind is a kind of personal data.
type Kind string

// The kinds that are recognized on their own, and Field, for fields named by the configuration or a
// tool's schema.
const (
	Email     Kind = "email"
	Phone     Kind = "phone"
	Card      Kind = "card"
	IBAN      Kind = "iban"
	USSSN     Kind = "us_ssn"
	UKNINO    Kind = "uk_nino"
	DETaxID   Kind = "de_tax_id"
	FRNIR     Kind = "fr_nir"
	ESDNI     Kind = "es_dni"
	ITCodice  Kind = "it_codice_fiscale"
	NLBSN     Kind = "nl_bsn"
	PLPESEL   Kind = "pl_pesel"
	INAadhaar Kind = "in_aadhaar"
	BRCPF     Kind = "br_cpf"
	Field     Kind = "field"
)

// Kinds returns all kinds that are recognized on their own.
func Kinds() []Kind {
	return []Kind{Email, Phone, Card, IBAN, USSSN, UKNINO, DETaxID, FRNIR, ESDNI, ITCodice, NLBSN, PLPESEL,
		INAadhaar, BRCPF}
}

// CheckKind returns an error if name is not one of known.
func CheckKind(name string, known []Kind) error {
	if slices.Contains(known, Kind(name)) {
		return nil
	}
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	return tool.Errorf(tool.Invalid, "%q is none of %s", text.Clip(name, 40), strings.Join(names, ", "))
}

// A Match is personal data in a text: its bytes from Start up to End.
type Match struct {
	Start, End int
	Kind       Kind
}

// findPersonal returns the personal data of all kinds in a text, in order and without overlaps, in
// linear time. about is the cue of the field whose value the text is.
func findPersonal(text string, about cue) []Match {
	s := &scanner{text: text, about: about}
	if strings.IndexByte(text, '\n') >= 0 {
		s.heads, s.by = headColumns(text)
	}
	s.scanText()
	return s.out
}

// replaceEscapes replaces escapes that separate words by white space: \n, \r, \t, and \u or \x of
// characters other than letters and digits. They occur in JSON or source code within a text.
// Without this the letter of an escape would count as part of the next word. Positions stay the
// same.
func replaceEscapes(t string) string {
	i := strings.IndexByte(t, '\\')
	if i < 0 {
		return t
	}
	b := []byte(t)
	for i < len(b) {
		from := i
		for i < len(b) && b[i] == '\\' {
			i++
		}
		if i == from {
			i++
			continue
		}
		n, space := escapeLength(t[i:])
		for j := from; n > 0 && j < i+n; j++ {
			b[j] = ' '
		}
		if i += n; n > 0 {
			b[i-1] = space
		}
	}
	return string(b)
}

// escapeLength returns the length after the backslash of an escape that separates words, and the
// white space that replaces it. n is 0 if there is none.
func escapeLength(t string) (n int, space byte) {
	if t == "" {
		return 0, 0
	}
	switch t[0] {
	case 'n', 'r':
		return 1, '\n'
	case 't':
		return 1, '\t'
	case 'u':
		n = 5
	case 'x':
		n = 3
	}
	if n == 0 || len(t) < n {
		return 0, 0
	}
	c, err := strconv.ParseUint(t[1:n], 16, 32)
	if err != nil || c == '@' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) {
		return 0, 0
	}
	return n, ' '
}

// A scanner scans a text once. The context that it examines around a position is limited.
type scanner struct {
	text  string
	about cue
	heads []cue // of the columns, if the text is a table
	by    byte  // the separator of columns
	line  int   // start of the line of the last position passed to column
	at    int   // position up to which columns were counted
	col   int
	out   []Match
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) scanText() {
	t := s.text
	for i := 0; i < len(t); {
		c := t[i]
		switch {
		case c == '@', c == '%' && strings.HasPrefix(t[i:], "%40"):
			i = s.scanEmail(i)
		case (isDigit(c) || c == '+' || c == '(') && s.mayBegin(i):
			i = s.scanNumber(i)
		case isLetter(c) && c < 0x80 && s.mayBegin(i):
			i = s.scanWord(i)
		case isWordByte(c):
			i = s.wordEnd(i)
		default:
			i++
		}
	}
}

// wordEnd returns the end of the word at i.
func (s *scanner) wordEnd(i int) int {
	for i < len(s.text) && isWordByte(s.text[i]) {
		i++
	}
	return i
}

// mayBegin reports whether a word may begin at i.
func (s *scanner) mayBegin(i int) bool { return i == 0 || !isWordByte(s.text[i-1]) }

// mayEnd reports whether a number or word may end before i, that is, not continue as part of
// something longer.
func (s *scanner) mayEnd(i int) bool {
	t := s.text
	if i >= len(t) {
		return true
	}
	switch c := t[i]; {
	case isWordByte(c) || c == '@' || c == '%':
		return false
	case c == '-' || c == '.' || c == ':' || c == '/':
		return i+1 >= len(t) || !isWordByte(t[i+1])
	}
	return true
}

// isInside reports whether i is inside something longer: after a hyphen, a dot or a slash at the
// end of a word.
func (s *scanner) isInside(i int) bool {
	if i < 2 {
		return false
	}
	switch a, b := s.text[i-2], s.text[i-1]; b {
	case '-', '.', '/', ':', '#', '+':
		return b == '#' || isDigit(a) || isLetter(a) && b != ':' && b != '.'
	case '$':
		return true
	}
	return false
}

// addMatch adds a match, and merges the matches that it overlaps into it.
func (s *scanner) addMatch(start, end int, k Kind) int {
	for n := len(s.out); n > 0 && s.out[n-1].End > start; n = len(s.out) {
		start = min(start, s.out[n-1].Start)
		s.out = s.out[:n-1]
	}
	s.out = append(s.out, Match{start, end, k})
	return end
}

// cueAt returns the cue of the number at i: from the words before it on its line, its column, or
// its field.
func (s *scanner) cueAt(i int) cue {
	if c := cueIn(s.text[max(0, i-cueBytes):i]); c != noCue &&
		(s.heads == nil || strings.LastIndexByte(s.text[max(0, i-cueBytes):i], s.by) < 0) {
		return c
	}
	if s.heads != nil {
		if c := s.columnAt(i); c < len(s.heads) && s.heads[c] != noCue && s.line > 0 {
			return s.heads[c]
		}
	}
	return s.about
}

// columnAt returns the index of the column at i. Calls must be in ascending order of i.
func (s *scanner) columnAt(i int) int {
	for ; s.at < i; s.at++ {
		switch s.text[s.at] {
		case '\n':
			s.line, s.col = s.at+1, 0
		case s.by:
			s.col++
		}
	}
	return s.col
}

// Limits of addresses (RFC 5321, section 4.5.3.1).
const (
	maxLocal  = 64
	maxDomain = 255
)

// scanEmail looks for an address around the @ at at, and returns the position to continue from.
func (s *scanner) scanEmail(at int) int {
	t := s.text
	after := at + 1
	if t[at] == '%' {
		after = at + 3
	}
	start := at
	for start > 0 && at-start < maxLocal && isLocalByte(t[start-1]) {
		start--
	}
	// skip what precedes the address in URLs and the like
	if i := strings.LastIndexAny(t[start:at], "=/?&|{}`*!#$^"); i >= 0 {
		start += i + 1
	}
	for start < at && strings.IndexByte(".'-+%", t[start]) >= 0 {
		start++
	}
	end := after
	for end < len(t) && end-after < maxDomain &&
		(isWordByte(t[end]) && t[end] != '_' || t[end] == '-' || t[end] == '.' || t[end] >= 0x80 &&
			!endsAddress(t[end:])) {
		end++
	}
	for end > after && (t[end-1] == '.' || t[end-1] == '-') {
		end--
	}
	if start == at || t[at-1] == '.' || !isDomain(t[after:end]) || isTechnicalName(t[start:at], t[after:end], t[end:]) {
		return after
	}
	return s.addMatch(start, end, Email)
}

// endsAddress reports whether t begins with a typographic character that ends an address: quotes,
// dashes, spaces.
func endsAddress(t string) bool {
	return strings.HasPrefix(t, "\u00a0") || strings.HasPrefix(t, "\u00bb") || strings.HasPrefix(t, "\u00ab") ||
		len(t) > 1 && t[0] == 0xe2 && t[1] == 0x80 || strings.HasPrefix(t, "\u3001") || strings.HasPrefix(t, "\u3002")
}

// isLocalByte reports whether c may occur before the @ (RFC 5322, section 3.2.3; RFC 6531).
func isLocalByte(c byte) bool {
	return isWordByte(c) || c >= 0x80 || strings.IndexByte(".!#$%&'*+/=?^`{|}~-", c) >= 0
}

// isDomain reports whether d looks like a host name with a top-level domain.
func isDomain(d string) bool {
	dot := strings.LastIndexByte(d, '.')
	if dot <= 0 || len(d)-dot < 3 || strings.Contains(d, "..") || d[0] == '-' {
		return false
	}
	for i := dot + 1; i < len(d); i++ {
		if !isLetter(d[i]) && !strings.HasPrefix(d[dot+1:], "xn--") {
			return false
		}
	}
	return true
}

// isTechnicalName reports whether something that looks like an address is a technical name: a
// repository, a systemd unit, an image with a scale factor.
func isTechnicalName(user, host, rest string) bool {
	if user == "git" || user == "hg" || strings.HasPrefix(rest, ":") && len(rest) > 1 && isLetter(rest[1]) &&
		strings.Contains(rest, "/") {
		return true
	}
	tld := host[strings.LastIndexByte(host, '.')+1:]
	return slices.Contains([]string{"service", "socket", "timer", "target", "mount", "slice", "scope",
		"png", "jpg", "jpeg", "gif", "svg", "webp", "js", "ts", "css", "json", "html"}, tld)
}

// longest is the maximum length of a word with spaces that is examined: an IBAN.
const longest = 34

// scanWord looks for a value that begins with a letter at i, and returns the position to continue
// from.
func (s *scanner) scanWord(i int) int {
	t := s.text
	end := s.wordEnd(i)
	if s.isInside(i) || end-i > longest {
		return end
	}
	var first byte = t[i] &^ 0x20
	switch {
	case end-i == 16:
		if codiceFiscale(strings.ToUpper(t[i:end])) && s.mayEnd(end) {
			return s.addMatch(i, end, ITCodice)
		}
	case (first == 'X' || first == 'Y' || first == 'Z') && end-i <= 9:
		if e := s.packedEnd(i, 9, "-."); e > 0 && isDNI(s.upperText(i, e)) {
			return s.addMatch(i, e, ESDNI)
		}
	}
	if end-i < 2 || !asciiLetter(t[i+1]) || end-i > 2 && !isDigit(t[i+2]) {
		return end
	}
	if n := ibanLength.Get()[strings.ToUpper(t[i:i+2])]; n > 0 && (end-i >= 4 && isDigit(t[i+3]) || end-i == 2) {
		if e := s.packedEnd(i, n, " -"); e > 0 && isIBAN(s.upperText(i, e)) {
			return s.addMatch(i, e, IBAN)
		}
	}
	if e := s.packedEnd(i, 9, " -"); e > 0 && isNINO(s.upperText(i, e)) && s.cueAt(i) != other {
		return s.addMatch(i, e, UKNINO)
	}
	return end
}

func asciiLetter(c byte) bool { return isLetter(c) && c < 0x80 }

// packedEnd returns the end of exactly n letters and digits from i on, with single separators
// between them. It returns 0 if there are fewer or more.
func (s *scanner) packedEnd(i, n int, separators string) int {
	t := s.text
	for k := 0; i < len(t); i++ {
		switch {
		case isWordByte(t[i]) && t[i] != '_':
			if k++; k == n {
				if !s.mayEnd(i + 1) {
					return 0
				}
				return i + 1
			}
		case k == 0 || strings.IndexByte(separators, t[i]) < 0 || !isWordByte(t[i-1]):
			return 0
		}
	}
	return 0
}

// upperText returns a part of the text in upper case, without separators.
func (s *scanner) upperText(i, end int) string {
	return stripSeparators(strings.ToUpper(s.text[i:end]))
}

// stripSeparators returns only the letters and digits of a text.
func stripSeparators(t string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, t)
}
