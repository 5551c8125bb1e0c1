package privacy

import "strings"

const (
	maxGroups = 8  // groups of digits in one number
	maxGroup  = 19 // digits in one group
)

// A digitRun is a sequence of groups of digits with separators, which may contain a number.
type digitRun struct {
	s      *scanner
	n      int // number of groups
	start  [maxGroups]int
	end    [maxGroups]int
	plus   bool // a plus precedes the first group
	paren  bool // the first group is in parentheses
	digits string
	upTo   [maxGroups]int // number of digits up to the end of each group
	cued   bool
	about  cue
}

// scanNumber looks for a number that begins with a digit, a plus or a parenthesis at i. It returns
// the position to continue from.
func (s *scanner) scanNumber(i int) int {
	r := &digitRun{s: s}
	first := i
	if s.text[i] == '+' {
		r.plus = true
		i++
	}
	if i < len(s.text) && s.text[i] == '(' {
		r.paren = true
		i++
	}
	if i >= len(s.text) || !isDigit(s.text[i]) {
		return first + 1
	}
	if !r.readGroups(i) {
		return s.wordEnd(i)
	}
	if !s.isInside(first) || r.plus && s.text[first-1] == ':' {
		for n := r.n; n > 0; n-- {
			if !r.mayClose(n) {
				continue
			}
			if k, end := r.kindOf(n); k != "" {
				return s.addMatch(r.startOf(first, k), end, k)
			}
		}
	}
	if s.text[r.end[0]:r.end[0]] == "" && r.end[0] < len(s.text) && isWordByte(s.text[r.end[0]]) {
		return s.wordEnd(r.end[0])
	}
	return r.end[0]
}

// startOf returns the start of a number. Parentheses belong to phone numbers only.
func (r *digitRun) startOf(first int, k Kind) int {
	if k == Phone {
		return first
	}
	return r.start[0]
}

// readGroups reads the groups from i on. It returns false if the first is too long for a number.
func (r *digitRun) readGroups(i int) bool {
	t := r.s.text
	var b strings.Builder
	for r.n < maxGroups {
		j := i
		for j < len(t) && isDigit(t[j]) && j-i <= maxGroup {
			j++
		}
		if j == i || j-i > maxGroup {
			break
		}
		r.start[r.n], r.end[r.n] = i, j
		b.WriteString(t[i:j])
		r.upTo[r.n] = b.Len()
		r.n++
		k := skipSeparator(t, j)
		if k == j || k >= len(t) || !isDigit(t[k]) {
			break
		}
		i = k
	}
	r.digits = b.String()
	return r.n > 0
}

// skipSeparator returns the end of the separator at i: at most three of the characters that
// separate groups of digits.
func skipSeparator(t string, i int) int {
	for k := 0; k < 3 && i < len(t); k++ {
		switch c := t[i]; {
		case c == ' ' || c == '-' || c == '.' || c == '/' || c == '(' || c == ')':
			i++
		case strings.HasPrefix(t[i:], "\u00a0"):
			i += 2
		case strings.HasPrefix(t[i:], "\u202f"), strings.HasPrefix(t[i:], "\u2011"), strings.HasPrefix(t[i:], "\u2013"):
			i += 3
		default:
			return i
		}
	}
	return i
}

// mayClose reports whether a number may end with the n-th group.
func (r *digitRun) mayClose(n int) bool {
	if n < r.n || !r.s.mayEnd(r.end[n-1]) {
		c := byte(0)
		if end := r.end[n-1]; end < len(r.s.text) {
			c = r.s.text[end]
		}
		// The last two conditions are for numbers that end with a letter.
		return n < r.n && (c == ' ' || c >= 0x80) || c != 0 && asciiLetter(c) || c == '-' && n == r.n
	}
	return true
}

// separatorBefore returns the separator before the k-th group.
func (r *digitRun) separatorBefore(k int) string { return r.s.text[r.end[k-1]:r.start[k]] }

// isEven reports whether the first n groups are separated by the same character, which must be in
// of if it is ASCII.
func (r *digitRun) isEven(n int, of string) bool {
	for k := 1; k < n; k++ {
		if s := r.separatorBefore(k); s != r.separatorBefore(1) || len(s) != 1 && s[0] < 0x80 || s[0] < 0x80 &&
			strings.IndexByte(of, s[0]) < 0 {
			return false
		}
	}
	return true
}

// hasShape reports whether the groups have these lengths.
func (r *digitRun) hasShape(n int, lengths ...int) bool {
	if n != len(lengths) {
		return false
	}
	for k, l := range lengths {
		if r.end[k]-r.start[k] != l {
			return false
		}
	}
	return true
}

// numberCue returns the cue of the number.
func (r *digitRun) numberCue() cue {
	if !r.cued {
		r.about, r.cued = r.s.cueAt(r.start[0]), true
	}
	return r.about
}

// kindOf returns the kind of the first n groups, and the end of the number.
func (r *digitRun) kindOf(n int) (Kind, int) {
	d, end := r.digits[:r.upTo[n-1]], r.end[n-1]
	if !r.s.mayEnd(end) && n == r.n {
		return r.kindWithLetter(d, n, end)
	}
	if r.plus {
		if r.isPhone(d, n) {
			return Phone, end
		}
		return "", 0
	}
	if k, e := r.kindWithLetter(d, n, end); k != "" {
		return k, e
	}
	for _, try := range []struct {
		kind Kind
		is   bool
	}{
		{Card, len(d) >= 13 && r.isCard(d, n)},
		{FRNIR, len(d) == 15 && isNIR(d) &&
			(n == 1 || r.hasShape(n, 1, 2, 2, 2, 3, 3, 2) || r.hasShape(n, 13, 2)) && r.numberCue() != other},
		{INAadhaar, len(d) == 12 && isAadhaar(d) &&
			(r.numberCue() == INAadhaar || r.hasShape(n, 4, 4, 4) && r.isEven(n, " -") && r.isUnlabeled())},
		{BRCPF, len(d) == 11 && isCPF(d) &&
			(r.numberCue() == BRCPF || r.hasShape(n, 3, 3, 3, 2) && r.separatorBefore(1) == "." &&
				r.separatorBefore(3) == "-")},
		{USSSN, len(d) == 9 && isSSN(d) &&
			(r.numberCue() == USSSN || r.hasShape(n, 3, 2, 4) && r.isEven(n, "-") && r.isUnlabeled())},
		{DETaxID, len(d) == 11 && steuerID(d) &&
			(r.numberCue() == DETaxID || r.hasShape(n, 2, 3, 3, 3) && r.isEven(n, " ") && r.isUnlabeled())},
		{PLPESEL, len(d) == 11 && n == 1 && r.numberCue() == PLPESEL && isPESEL(d)},
		{NLBSN, len(d) == 9 && r.numberCue() == NLBSN && isBSN(d)},
		{Phone, len(d) >= 7 && r.isPhone(d, n)},
	} {
		if try.is {
			return try.kind, end
		}
	}
	return "", 0
}

// isUnlabeled reports whether no word nearby says that the number is something else.
func (r *digitRun) isUnlabeled() bool { return r.numberCue() == noCue || r.numberCue() == Field }

// kindWithLetter recognizes numbers with a letter at the end or inside: a Spanish DNI, a French
// number of Corsica.
func (r *digitRun) kindWithLetter(d string, n, end int) (Kind, int) {
	t := r.s.text
	if len(d) == 8 && (n == 1 || r.hasShape(n, 2, 3, 3) && r.isEven(n, ".")) {
		e := end
		if e < len(t) && (t[e] == '-' || t[e] == ' ') {
			e++
		}
		if e < len(t) && asciiLetter(t[e]) && r.s.mayEnd(e+1) && isDNI(strings.ToUpper(d+t[e:e+1])) &&
			(t[e] < 'a' || r.numberCue() == ESDNI) && r.numberCue() != other {
			return ESDNI, e + 1
		}
	}
	if n != 1 && n != 4 || end+1 >= len(t) || t[end]|0x20 != 'a' && t[end]|0x20 != 'b' || t[end-1] != '2' {
		return "", 0
	}
	if e := r.s.packedEnd(r.start[0], 15, " "); e > 0 && isNIR(r.s.upperText(r.start[0], e)) && r.numberCue() != other {
		return FRNIR, e
	}
	return "", 0
}

// isCard reports whether the first n groups are a payment card number.
func (r *digitRun) isCard(d string, n int) bool {
	switch {
	case !isCardNetwork(d) || !isLuhn(d):
		return false
	case n == 1 && (len(d) == 13 || len(d) == 19):
		return r.numberCue() == Card
	case n == 1:
		return r.numberCue() != other
	}
	grouped := r.hasShape(n, 4, 4, 4, 4) || r.hasShape(n, 4, 6, 5) || r.hasShape(n, 4, 6, 4) ||
		r.hasShape(n, 4, 4, 4, 4, 3) || r.hasShape(n, 4, 4, 4, 1)
	return grouped && r.isEven(n, " -")
}

// isDate reports whether the groups begin like a date or a network address.
func (r *digitRun) isDate(n int) bool {
	if n < 3 || r.separatorBefore(1) != r.separatorBefore(2) {
		return false
	}
	a, b, c := r.end[0]-r.start[0], r.end[1]-r.start[1], r.end[2]-r.start[2]
	few := a <= 2 && b <= 2 && (c == 4 || c == 2 && n == 3) || a == 4 && b <= 2 && c <= 2
	if few && a == 4 {
		year := parseDigits(r.s.text[r.start[0]:r.end[0]])
		return r.separatorBefore(1) != " " && year >= 1900 && year < 2200
	}
	if few && c == 4 {
		return parseDigits(r.s.text[r.start[0]:r.end[0]]) <= 31 &&
			parseDigits(r.s.text[r.start[1]:r.end[1]]) <= 31 && r.separatorBefore(1) != " "
	}
	return few || n == 4 && r.separatorBefore(1) == "." && a <= 3 && b <= 3 && c <= 3 && r.end[3]-r.start[3] <= 3
}

// isPhone reports whether the first n groups are a phone number.
func (r *digitRun) isPhone(d string, n int) bool {
	switch {
	case len(d) > 15+2 || r.hasSingles(n):
		return false
	case r.plus:
		return len(d) >= 8 && len(d) <= 16 && callingCode(d) > 0 // one more for the (0) that some write
	case r.isDate(n):
		return false
	case strings.HasPrefix(d, "00"):
		return len(d) >= 10 && callingCode(d[2:]) > 0 && (r.numberCue() == Phone || n > 1 && r.isUnlabeled())
	case r.numberCue() == Phone:
		return len(d) >= 7 && len(d) <= 13 && (n > 1 || len(d) >= 8 || r.s.about == Phone || r.s.heads != nil)
	case n == 1 || !r.isUnlabeled():
		return false
	case r.paren:
		return len(d) >= 9 && len(d) <= 12 && r.end[0]-r.start[0] <= 5
	case isNANP(d) && (r.hasShape(n, 3, 3, 4) && r.isEven(n, "-. ") || r.hasShape(n, 1, 3, 3, 4)):
		return true
	case d[0] == '0' && d[1] != '0':
		return r.isTrunk(d, n)
	}
	return r.hasShape(n, 5, 5) && d[0] >= '6' && r.isEven(n, " -")
}

// hasSingles reports whether one of the groups after the first has a single digit, except a 0 or
// the group after a country code.
func (r *digitRun) hasSingles(n int) bool {
	for k := 1; k < n; k++ {
		if r.end[k]-r.start[k] == 1 && r.s.text[r.start[k]] != '0' && !(r.plus && k <= 2) {
			return true
		}
	}
	return false
}

// isNANP reports whether d, ten digits or eleven with a leading 1, may be a North American phone
// number.
func isNANP(d string) bool {
	if len(d) == 11 && d[0] == '1' {
		d = d[1:]
	}
	return len(d) == 10 && d[0] >= '2' && d[3] >= '2' && !(d[1] == '1' && d[2] == '1')
}

// isTrunk reports whether the groups are a phone number as dialled within a country: a 0, the area
// code, and the rest.
func (r *digitRun) isTrunk(d string, n int) bool {
	if first := r.end[0] - r.start[0]; n == 2 && r.separatorBefore(1) == "." || first < 2 || first > 5 ||
		len(d) < 9 || len(d) > 12 {
		return false
	}
	for k := 1; k < n; k++ {
		if r.end[k]-r.start[k] < 2 {
			return false
		}
	}
	return true
}
