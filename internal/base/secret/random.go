package secret

// LooksRandom reports whether a part of an address, such as a path segment, looks randomly
// generated: like a key and not like words and numbers. It is a heuristic for display: a secret
// that looks like a word is not detected.
func LooksRandom(part string) bool {
	const unbroken = 24 // length of a run of letters and digits that no name has
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
		// except a capital followed by lower-case letters, as in a capitalized word
		if last != 0 && kind != last && !(last == 'A' && kind == 'a' && before != 'A') {
			turns++
		}
		before, last = last, kind
	}
	return len(part) >= 10 && turns >= 4 || len(part) >= 20 && turns == 3
}

// kindOf returns the class of a byte: 'a', 'A', '0', or 0 for a separator.
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
