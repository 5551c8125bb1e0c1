package privacy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/prose"
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
	return []Kind{Email, Phone, Card, IBAN, USSSN, UKNINO, DETaxID, FRNIR, ESDNI, ITCodice, NLBSN, PLPESEL, INAadhaar, BRCPF}
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
	return tool.Errorf(tool.Invalid, "%q is none of %s", prose.Clip(name, 40), strings.Join(names, ", "))
}

// A Match is personal data in a text: its bytes from Start up to End.
type Match struct {
	Start, End int
	Kind       Kind
}

// find returns the personal data of all kinds in a text, in order and without overlaps, in linear
// time. about is the cue of the field whose value the text is.
func find(text string, about cue) []Match {
	s := &scanner{text: text, about: about}
	if strings.IndexByte(text, '\n') >= 0 {
		s.heads, s.by = columns(text)
	}
	s.scan()
	return s.out
}

// parted replaces the escapes that separate words by white space:
// , \r, \t, and \u or \x of other characters than letters and digits. They occur in JSON or source
// within a text. Positions stay the same. Otherwise the letter of an escape would be taken as part
// of the next word.
func parted(t string) string {
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
		n, space := escape(t[i:])
		for j := from; n > 0 && j < i+n; j++ {
			b[j] = ' '
		}
		if i += n; n > 0 {
			b[i-1] = space
		}
	}
	return string(b)
}

// escape returns the length after the backslash of an escape that separates words, and the white
// space that replaces it. n is 0 if there is none.
func escape(t string) (n int, space byte) {
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

func word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) scan() {
	t := s.text
	for i := 0; i < len(t); {
		c := t[i]
		switch {
		case c == '@', c == '%' && strings.HasPrefix(t[i:], "%40"):
			i = s.email(i)
		case (digit(c) || c == '+' || c == '(') && s.fresh(i):
			i = s.number(i)
		case letter(c) && c < 0x80 && s.fresh(i):
			i = s.word(i)
		case word(c):
			i = s.past(i)
		default:
			i++
		}
	}
}

// past returns the end of the word at i.
func (s *scanner) past(i int) int {
	for i < len(s.text) && word(s.text[i]) {
		i++
	}
	return i
}

// fresh reports whether a word may begin at i.
func (s *scanner) fresh(i int) bool { return i == 0 || !word(s.text[i-1]) }

// ends reports whether a number or word may end before i, that is, not continue as part of
// something longer.
func (s *scanner) ends(i int) bool {
	t := s.text
	if i >= len(t) {
		return true
	}
	switch c := t[i]; {
	case word(c) || c == '@' || c == '%':
		return false
	case c == '-' || c == '.' || c == ':' || c == '/':
		return i+1 >= len(t) || !word(t[i+1])
	}
	return true
}

// inside reports whether i is inside something longer: after a hyphen, a dot or a slash at the end
// of a word.
func (s *scanner) inside(i int) bool {
	if i < 2 {
		return false
	}
	switch a, b := s.text[i-2], s.text[i-1]; b {
	case '-', '.', '/', ':', '#', '+':
		return b == '#' || digit(a) || letter(a) && b != ':' && b != '.'
	case '$':
		return true
	}
	return false
}

// add adds a match, and merges the matches that it overlaps into it.
func (s *scanner) add(start, end int, k Kind) int {
	for n := len(s.out); n > 0 && s.out[n-1].End > start; n = len(s.out) {
		start = min(start, s.out[n-1].Start)
		s.out = s.out[:n-1]
	}
	s.out = append(s.out, Match{start, end, k})
	return end
}

// cue returns the cue of the number at i: from the words before it on its line, its column, or its
// field.
func (s *scanner) cue(i int) cue {
	if c := cueIn(s.text[max(0, i-cueBytes):i]); c != noCue && (s.heads == nil || strings.LastIndexByte(s.text[max(0, i-cueBytes):i], s.by) < 0) {
		return c
	}
	if s.heads != nil {
		if c := s.column(i); c < len(s.heads) && s.heads[c] != noCue && s.line > 0 {
			return s.heads[c]
		}
	}
	return s.about
}

// column returns the index of the column at i. Calls must be in ascending order of i.
func (s *scanner) column(i int) int {
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

// email looks for an address around the @ at at, and returns the position to continue from.
func (s *scanner) email(at int) int {
	t := s.text
	after := at + 1
	if t[at] == '%' {
		after = at + 3
	}
	start := at
	for start > 0 && at-start < maxLocal && local(t[start-1]) {
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
	for end < len(t) && end-after < maxDomain && (word(t[end]) && t[end] != '_' || t[end] == '-' || t[end] == '.' || t[end] >= 0x80 && !dash(t[end:])) {
		end++
	}
	for end > after && (t[end-1] == '.' || t[end-1] == '-') {
		end--
	}
	if start == at || t[at-1] == '.' || !domain(t[after:end]) || machine(t[start:at], t[after:end], t[end:]) {
		return after
	}
	return s.add(start, end, Email)
}

// dash reports whether t begins with a typographic character that ends an address: quotes, dashes,
// spaces.
func dash(t string) bool {
	return strings.HasPrefix(t, "\u00a0") || strings.HasPrefix(t, "\u00bb") || strings.HasPrefix(t, "\u00ab") || len(t) > 1 && t[0] == 0xe2 && t[1] == 0x80 || strings.HasPrefix(t, "\u3001") || strings.HasPrefix(t, "\u3002")
}

// local reports whether c may occur before the @ (RFC 5322, section 3.2.3; RFC 6531).
func local(c byte) bool {
	return word(c) || c >= 0x80 || strings.IndexByte(".!#$%&'*+/=?^`{|}~-", c) >= 0
}

// domain reports whether d looks like a host name with a top-level domain.
func domain(d string) bool {
	dot := strings.LastIndexByte(d, '.')
	if dot <= 0 || len(d)-dot < 3 || strings.Contains(d, "..") || d[0] == '-' {
		return false
	}
	for i := dot + 1; i < len(d); i++ {
		if !letter(d[i]) && !strings.HasPrefix(d[dot+1:], "xn--") {
			return false
		}
	}
	return true
}

// machine reports whether something that looks like an address is a technical name: a repository, a
// systemd unit, an image with a scale factor.
func machine(user, host, rest string) bool {
	if user == "git" || user == "hg" || strings.HasPrefix(rest, ":") && len(rest) > 1 && letter(rest[1]) && strings.Contains(rest, "/") {
		return true
	}
	tld := host[strings.LastIndexByte(host, '.')+1:]
	return slices.Contains([]string{"service", "socket", "timer", "target", "mount", "slice", "scope",
		"png", "jpg", "jpeg", "gif", "svg", "webp", "js", "ts", "css", "json", "html"}, tld)
}

// longest is the maximum length of a word with spaces that is examined: an IBAN.
const longest = 34

// word looks for a value that begins with a letter at i, and returns the position to continue from.
func (s *scanner) word(i int) int {
	t := s.text
	end := s.past(i)
	if s.inside(i) || end-i > longest {
		return end
	}
	var first byte = t[i] &^ 0x20
	switch {
	case end-i == 16:
		if codiceFiscale(strings.ToUpper(t[i:end])) && s.ends(end) {
			return s.add(i, end, ITCodice)
		}
	case (first == 'X' || first == 'Y' || first == 'Z') && end-i <= 9:
		if e := s.packed(i, 9, "-."); e > 0 && dni(s.upper(i, e)) {
			return s.add(i, e, ESDNI)
		}
	}
	if end-i < 2 || !asciiLetter(t[i+1]) || end-i > 2 && !digit(t[i+2]) {
		return end
	}
	if n := ibanLength[strings.ToUpper(t[i:i+2])]; n > 0 && (end-i >= 4 && digit(t[i+3]) || end-i == 2) {
		if e := s.packed(i, n, " -"); e > 0 && iban(s.upper(i, e)) {
			return s.add(i, e, IBAN)
		}
	}
	if e := s.packed(i, 9, " -"); e > 0 && nino(s.upper(i, e)) && s.cue(i) != other {
		return s.add(i, e, UKNINO)
	}
	return end
}

func asciiLetter(c byte) bool { return letter(c) && c < 0x80 }

// packed returns the end of exactly n letters and digits from i on, with single separators between
// them. It returns 0 if there are fewer or more.
func (s *scanner) packed(i, n int, separators string) int {
	t := s.text
	for k := 0; i < len(t); i++ {
		switch {
		case word(t[i]) && t[i] != '_':
			if k++; k == n {
				if !s.ends(i + 1) {
					return 0
				}
				return i + 1
			}
		case k == 0 || strings.IndexByte(separators, t[i]) < 0 || !word(t[i-1]):
			return 0
		}
	}
	return 0
}

// upper returns a part of the text in upper case, without separators.
func (s *scanner) upper(i, end int) string {
	return bare(strings.ToUpper(s.text[i:end]))
}

// bare returns only the letters and digits of a text.
func bare(t string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, t)
}
