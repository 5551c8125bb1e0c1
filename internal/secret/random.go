package secret

// Random reports whether a part of an address, such as a segment of its path, looks like one that
// was made to be guessed by nobody: what is like a key in it rather than like words and numbers. It
// is a guess, for what is shown: a secret that looks like a word is not found.
func Random(part string) bool {
	const unbroken = 24 // letters and digits without a break that no name has
	turns, run := 0, 0
	var last, before byte
	for i := range len(part) {
		kind := kindOf(part[i])
		if run++; kind == 0 {
			run, before = 0, 0
			continue
		}
		if run >= unbroken {
			return true
		}
		if last != 0 && kind != last && !(last == 'A' && kind == 'a' && before != 'A') { // as in a word with a capital
			turns++
		}
		before, last = last, kind
	}
	return len(part) >= 10 && turns >= 4 || len(part) >= 20 && turns == 3
}

// kindOf is what a byte is: 'a', 'A', '0', or 0 for all that parts words.
func kindOf(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z':
		return 'a'
	case 'A' <= c && c <= 'Z':
		return 'A'
	case '0' <= c && c <= '9':
		return '0'
	}
	return 0
}
