package privacy

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// Checks that distinguish numbers of a kind from other numbers. Digits are ASCII, without
// separators.

// isLuhn reports whether the last digit of d is the check digit of ISO/IEC 7812-1, annex B.
func isLuhn(d string) bool {
	sum := 0
	for i := range len(d) {
		n := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// isCardNetwork reports whether d begins with the prefix of a card network, and has a length that
// the network issues.
func isCardNetwork(d string) bool {
	n := len(d)
	head := func(k int) int { return parseDigits(d[:k]) }
	if n < 13 || n > 19 {
		return false
	}
	two, three, four := head(2), head(3), head(4)
	switch {
	case d[0] == '4': // Visa
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720: // Mastercard
		return n == 16
	case two == 34, two == 37: // American Express
		return n == 15
	case three >= 300 && three <= 305, two == 36, two == 38, two == 39: // Diners
		return n == 14
	case four == 6011, three >= 644 && three <= 649, two == 65, two == 62: // Discover, UnionPay
		return n >= 16
	case four >= 3528 && four <= 3589: // JCB
		return n == 16
	case four == 5018, four == 5020, four == 5038, four == 5893, four == 6304, four == 6759, four >= 6761 &&
		four <= 6763:
		// Maestro
		return n >= 16
	}
	return false
}

// parseDigits returns the value of a few digits.
func parseDigits(d string) (n int) {
	for i := range len(d) {
		n = n*10 + int(d[i]-'0')
	}
	return n
}

// mod97 returns the remainder modulo 97 of a number with letters, as in ISO 7064 and ISO 13616: A
// is 10, Z is 35.
func mod97(s string) (n int) {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			n = (n*10 + int(c-'0')) % 97
		default:
			n = (n*100 + int(c-'A') + 10) % 97
		}
	}
	return n
}

// ibanLength is the length of a country's IBANs (SWIFT IBAN registry).
var ibanLength = lazily.Value[map[string]int]{Make: func() map[string]int {
	return map[string]int{
		"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
		"CH": 21, "CR": 22, "CY": 28, "CZ": 24,
		"DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22,
		"GI": 23, "GL": 18, "GR": 27, "GT": 28,
		"HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
		"LC": 32, "LI": 21, "LT": 20, "LU": 20,
		"LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15,
		"PK": 24, "PL": 28, "PS": 29, "PT": 25,
		"QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28,
		"TL": 23, "TN": 24, "TR": 26, "UA": 29,
		"VA": 22, "VG": 24, "XK": 20,
	}
}}

// isIBAN reports whether s, in upper case and without spaces, is an IBAN (ISO 13616).
func isIBAN(s string) bool {
	return len(s) > 4 && ibanLength.Get()[s[:2]] == len(s) && mod97(s[4:]+s[:4]) == 1
}

// isSSN reports whether d may be a US social security number.
func isSSN(d string) bool {
	return len(d) == 9 && d[:3] != "000" && d[:3] != "666" && d[0] != '9' && d[3:5] != "00" && d[5:] != "0000"
}

// isNINO reports whether s, in upper case and without spaces, may be a UK national insurance
// number.
func isNINO(s string) bool {
	if len(s) != 9 || strings.IndexByte("DFIQUV", s[0]) >= 0 || strings.IndexByte("DFIQUVO", s[1]) >= 0 ||
		s[8] < 'A' || s[8] > 'D' || !isDigits(s[2:8]) {
		return false
	}
	switch s[:2] {
	case "BG", "GB", "KN", "NK", "NT", "TN", "ZZ":
		return false
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// steuerID reports whether d is a German tax id of eleven digits. Exactly one of the first ten
// digits occurs two or three times, and the last is a check digit (ISO 7064, MOD 11,10).
func steuerID(d string) bool {
	if len(d) != 11 || d[0] == '0' {
		return false
	}
	var count [10]int
	for i := range 10 {
		count[d[i]-'0']++
	}
	repeated := 0
	for _, n := range count {
		if n > 3 {
			return false
		}
		if n > 1 {
			repeated++
		}
	}
	if repeated != 1 {
		return false
	}
	p := 10
	for i := range 10 {
		s := (int(d[i]-'0') + p) % 10
		if s == 0 {
			s = 10
		}
		p = s * 2 % 11
	}
	return (11-p)%10 == int(d[10]-'0')
}

// isNIR reports whether s, thirteen characters and a key of two, is a French social security
// number. Corsica has 2A and 2B.
func isNIR(s string) bool {
	if len(s) != 15 || s[0] != '1' && s[0] != '2' || !isDigits(s[:5]) || !isDigits(s[7:]) {
		return false
	}
	month := parseDigits(s[3:5])
	if month == 0 || month > 12 && month < 20 || month > 42 && month < 50 {
		return false
	}
	body := s[:13]
	switch s[5:7] {
	case "2A":
		body = s[:5] + "19" + s[7:13]
	case "2B":
		body = s[:5] + "18" + s[7:13]
	default:
		if !isDigits(s[5:7]) {
			return false
		}
	}
	return 97-mod97(body) == parseDigits(s[13:])
}

const dniLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

// isDNI reports whether s, in upper case and without separators, is a Spanish DNI (eight digits) or
// NIE (X, Y or Z and seven digits).
func isDNI(s string) bool {
	if len(s) != 9 {
		return false
	}
	body := s[:8]
	switch s[0] {
	case 'X', 'Y', 'Z':
		body = string('0'+s[0]-'X') + s[1:8]
	}
	return isDigits(body) && dniLetters[parseDigits(body)%23] == s[8]
}

// codiceOdd holds the values of characters in odd positions of a codice fiscale, for 0 to 9 and A
// to Z.
var codiceOdd = [36]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8,
	12, 14, 16, 10, 22, 25, 24, 23}

// codiceFiscale reports whether s, in upper case, is an Italian codice fiscale.
func codiceFiscale(s string) bool {
	if len(s) != 16 || strings.IndexByte("ABCDEHLMPRST", s[8]) < 0 {
		return false
	}
	sum := 0
	for i := range 15 {
		letter := s[i] >= 'A' && s[i] <= 'Z'
		switch i {
		// Digits, or the letters that replace them if two people would have the same code.
		case 6, 7, 9, 10, 12, 13, 14:
			if letter && strings.IndexByte("LMNPQRSTUV", s[i]) < 0 {
				return false
			}
		default:
			if !letter {
				return false
			}
		}
		n := int(s[i] - '0')
		if letter {
			n = int(s[i] - 'A')
		}
		if i%2 == 0 { // odd, counted from one
			if letter {
				n += 10
			}
			n = codiceOdd[n]
		}
		sum += n
	}
	return s[15] == byte('A'+sum%26)
}

// isBSN reports whether d is a Dutch BSN of nine digits (the test of eleven).
func isBSN(d string) bool {
	if len(d) != 9 || d == "000000000" {
		return false
	}
	sum := -int(d[8] - '0')
	for i := range 8 {
		sum += (9 - i) * int(d[i]-'0')
	}
	return sum%11 == 0
}

// isPESEL reports whether d is a Polish PESEL of eleven digits: a date and a check digit.
func isPESEL(d string) bool {
	if len(d) != 11 {
		return false
	}
	month, day := parseDigits(d[2:4])%20, parseDigits(d[4:6])
	if month < 1 || month > 12 || day < 1 || day > 31 {
		return false
	}
	sum := 0
	for i, w := range [10]int{1, 3, 7, 9, 1, 3, 7, 9, 1, 3} {
		sum += w * int(d[i]-'0')
	}
	return (10-sum%10)%10 == int(d[10]-'0')
}

var (
	verhoeffD = [10][10]byte{
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 0, 6, 7, 8, 9, 5}, {2, 3, 4, 0, 1, 7, 8, 9, 5, 6},
		{3, 4, 0, 1, 2, 8, 9, 5, 6, 7}, {4, 0, 1, 2, 3, 9, 5, 6, 7, 8},
		{5, 9, 8, 7, 6, 0, 4, 3, 2, 1}, {6, 5, 9, 8, 7, 1, 0, 4, 3, 2}, {7, 6, 5, 9, 8, 2, 1, 0, 4, 3},
		{8, 7, 6, 5, 9, 3, 2, 1, 0, 4}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
	}
	verhoeffP = [8][10]byte{
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 7, 6, 2, 8, 3, 0, 9, 4}, {5, 8, 0, 3, 7, 9, 6, 1, 4, 2},
		{8, 9, 1, 6, 0, 4, 3, 5, 2, 7},
		{9, 4, 5, 3, 1, 2, 6, 8, 7, 0}, {4, 2, 8, 6, 5, 7, 3, 9, 0, 1}, {2, 7, 9, 3, 8, 0, 6, 4, 1, 5},
		{7, 0, 4, 6, 9, 1, 3, 2, 5, 8},
	}
)

// isAadhaar reports whether d is an Indian Aadhaar number of twelve digits (Verhoeff's check).
func isAadhaar(d string) bool {
	if len(d) != 12 || d[0] < '2' {
		return false
	}
	var c byte
	for i := range len(d) {
		c = verhoeffD[c][verhoeffP[i%8][d[len(d)-1-i]-'0']]
	}
	return c == 0
}

// isCPF reports whether d is a Brazilian CPF of eleven digits.
func isCPF(d string) bool {
	if len(d) != 11 || strings.Count(d, d[:1]) == 11 {
		return false
	}
	for _, n := range []int{9, 10} {
		sum := 0
		for i := range n {
			sum += (n + 1 - i) * int(d[i]-'0')
		}
		if sum*10%11%10 != int(d[n]-'0') {
			return false
		}
	}
	return true
}

// callingCode returns the length of the country calling code at the start of d (ITU-T E.164), or 0
// if there is none.
func callingCode(d string) int {
	if len(d) < 4 {
		return 0
	}
	switch d[0] {
	case '1', '7':
		return 1
	}
	switch d[:2] {
	case "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48", "49",
		"51", "52", "53", "54", "55", "56", "57", "58",
		"60", "61", "62", "63", "64", "65", "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98":
		return 2
	case "21", "22", "23", "24", "25", "26", "29", "35", "37", "38", "42", "50", "59", "67", "68", "69", "80", "85",
		"87", "88", "96", "97", "99":
		return 3
	}
	return 0
}
