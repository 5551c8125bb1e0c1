package program

import "strings"

// The engine ignores a string that is spread into an object: {..."ab"} is {}. By ECMA-262 it is
// {"0":"a","1":"b"}, since CopyDataProperties converts its source to an object.

// spreadObject converts primitives with own properties, which are only strings, to objects.
const spreadObject = `((v) => typeof v === "string" ? Object(v) : v)`

// A nesting is code with the enclosing bracket of each token.
type nesting struct {
	reader
	around []int32 // the index of the enclosing bracket of a token, -1 for none
}

// newNesting finds the enclosing bracket of each token in one pass: a search for each spread would
// be quadratic.
func newNesting(r reader) nesting {
	n := nesting{reader: r, around: make([]int32, len(r.list))}
	var stack []int32
	for i := range r.list {
		if r.list[i].kind == shut && len(stack) > 0 {
			stack = stack[:len(stack)-1]
		}
		n.around[i] = -1
		if len(stack) > 0 {
			n.around[i] = stack[len(stack)-1]
		}
		if r.list[i].kind == open {
			stack = append(stack, int32(i))
		}
	}
	return n
}

// objectSpreads returns edits that convert the operands of spreads in object literals to objects.
func objectSpreads(in reader, body [2]int) (edits []edit) {
	if !strings.Contains(in.s, "...") {
		return nil
	}
	r := newNesting(in)
	for i := body[0]; i < body[1]; i++ {
		if !r.is(i, "...") {
			continue
		}
		brace := int(r.around[i])
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

// isLiteral reports whether the brace at token i certainly opens an object literal and not a
// destructuring pattern.
func (r nesting) isLiteral(i int) bool {
	end := r.after(i)
	if r.is(end, "=") || r.is(end, "=>") || r.is(end, "of") || r.is(end, "in") ||
		r.is(i-1, "const") || r.is(i-1, "let") || r.is(i-1, "var") {
		return false
	}
	around := int(r.around[i])
	if around < 0 || r.is(i-1, "=") || r.is(i-1, "return") {
		return true
	}
	switch {
	case r.is(around, "("): // parameters, including that of a catch
		next := r.after(around)
		return !r.is(next, "=>") && !r.is(next, "{")
	case r.is(around, "["), r.is(around, "{") && (r.is(i-1, ":") || r.is(i-1, ",")):
		return !r.isPattern(around)
	}
	return true
}

// isPattern reports whether the bracket at token i may open a pattern.
func (r nesting) isPattern(i int) bool {
	if r.is(i, "{") && !(r.is(i-1, "(") || r.is(i-1, ",") || r.is(i-1, ":") || r.is(i-1, "=") || r.is(i-1, "return") ||
		r.is(i-1, "[") ||
		r.is(i-1, "const") || r.is(i-1, "let") || r.is(i-1, "var")) {
		return false // a block
	}
	return !r.isLiteral(i)
}
