package program

// The engine takes nothing of a string that is spread into an object: {..."ab"} is {} there, and {"0":"a","1":"b"} by
// ECMA-262 (CopyDataProperties converts its source to an object).

// spreadObject makes an object of a primitive that has properties of its own; only strings do.
const spreadObject = `((v) => typeof v === "string" ? Object(v) : v)`

// objectSpreads returns the edits that make objects of what object literals spread.
func objectSpreads(r reader, body [2]int) (edits []edit) {
	for i := body[0]; i < body[1]; i++ {
		if !r.is(i, "...") {
			continue
		}
		brace := r.enclosing(i)
		if brace < 0 || !r.is(brace, "{") || !r.isLiteral(brace) || r.is(i+1, "{") || r.is(i+1, "[") {
			continue
		}
		end := i + 1
		for end < len(r.list) && !r.is(end, ",") && r.list[end].kind != shut && r.list[end].kind != between {
			if r.list[end].kind == open {
				end = r.after(end)
			} else {
				end++
			}
		}
		if end > i+1 && end < len(r.list) {
			from, to := r.list[i+1].start, r.list[end-1].end
			edits = append(edits, edit{from, from, spreadObject + "("}, edit{to, to, ")"})
		}
	}
	return edits
}

// enclosing returns the index of the bracket around token i, -1 for none.
func (r reader) enclosing(i int) int {
	for k := i - 1; k >= 0; k-- {
		if r.list[k].kind == shut && r.list[k].match >= 0 {
			k = int(r.list[k].match)
		} else if r.list[k].kind == open {
			return k
		}
	}
	return -1
}

// isLiteral reports whether the brace at token i surely opens an object literal and no pattern that takes an object apart.
func (r reader) isLiteral(i int) bool {
	end := r.after(i)
	if r.is(end, "=") || r.is(end, "=>") || r.is(end, "of") || r.is(end, "in") ||
		r.is(i-1, "const") || r.is(i-1, "let") || r.is(i-1, "var") {
		return false
	}
	around := r.enclosing(i)
	if around < 0 || r.is(i-1, "=") || r.is(i-1, "return") {
		return true
	}
	switch {
	case r.is(around, "("): // parameters, of a catch too
		next := r.after(around)
		return !r.is(next, "=>") && !r.is(next, "{")
	case r.is(around, "["), r.is(around, "{") && (r.is(i-1, ":") || r.is(i-1, ",")):
		return !r.isPattern(around)
	}
	return true
}

// isPattern reports whether the bracket at token i may open a pattern.
func (r reader) isPattern(i int) bool {
	if r.is(i, "{") && !(r.is(i-1, "(") || r.is(i-1, ",") || r.is(i-1, ":") || r.is(i-1, "=") || r.is(i-1, "return") || r.is(i-1, "[") ||
		r.is(i-1, "const") || r.is(i-1, "let") || r.is(i-1, "var")) {
		return false // a block
	}
	return !r.isLiteral(i)
}
