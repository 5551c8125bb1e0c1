package shape

import "strings"

// maxDigits is the maximum number of digits in the name of a field. Names with more are probably
// ids, dates or phone numbers.
const maxDigits = 4

// minMap is the number of similar members from which an object is a map.
const minMap = 4

// hasDataName reports whether the name of one of the fields is probably data.
func hasDataName(fields map[string]*Field) bool {
	for name := range fields {
		if !isFieldName(name) {
			return true
		}
	}
	return false
}

// isFieldName reports whether a member's name is probably chosen by the author of a tool: a short
// identifier in ASCII, with few digits. "created_at", "Content-Type" and "@odata.context" are;
// "ann@example.com", "2026-01-31", "README.md" and "Ann Smith" are not.
func isFieldName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	rest, annotation := strings.CutPrefix(name, "@")
	digits, groups := 0, 0
	for i := range len(rest) {
		c := rest[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '$':
		case c == '-' && i > 0, (c == '.' || c == ':') && i > 0 && annotation:
		case '0' <= c && c <= '9' && i > 0:
			if digits++; rest[i-1] < '0' || rest[i-1] > '9' {
				groups++
			}
		default:
			return false
		}
	}
	return rest != "" && digits <= maxDigits && groups <= 2
}

// isMap reports whether objects with these fields are probably maps from data to similar values:
// from names of people to numbers, for example. Fields of a map are all optional, or all of them
// are objects with the same fields.
func isMap(fields map[string]*Field) bool {
	if len(fields) < minMap {
		return false
	}
	optional, objects := true, true
	var first *Field
	for _, f := range fields {
		if first == nil {
			first = f
		}
		optional = optional && f.Optional && f.Kinds == first.Kinds
		objects = objects && f.Kinds == Object && len(f.Fields) > 0 && sameNames(f.Fields, first.Fields)
	}
	return optional || objects
}

func sameNames(a, b map[string]*Field) bool {
	for name := range a {
		if b[name] == nil {
			return false
		}
	}
	return len(a) == len(b)
}
