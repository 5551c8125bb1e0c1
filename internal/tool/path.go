package tool

import "strings"

// IsPath reports whether p is a path of fields of JSON, like customer.email, items.*.price or **.ssn: names with dots between, * for
// any one, ** for any number of them, but not twice in a row. Lists are gone through.
func IsPath(p string) bool {
	for part := range strings.SplitSeq(p, ".") {
		if part != "*" && part != "**" && (part == "" || strings.ContainsAny(part, "*, \t\n\f\r")) {
			return false
		}
	}
	return !strings.Contains(p, "**.**")
}

// Paths are paths of fields, in their parts. What they name is walked to from the top, field by field, with Below.
type Paths [][]string

// ParsePaths gives the parts of paths for which IsPath holds.
func ParsePaths(all []string) Paths {
	out := make(Paths, len(all))
	for i, p := range all {
		out[i] = strings.Split(p, ".")
	}
	return out
}

// Below gives what the paths say of what is below a field, and whether one names the field itself. Names are the same in upper and
// lower case.
func (ps Paths) Below(name string) (below Paths, named bool) {
	for _, p := range ps {
		if p[0] == "**" {
			below = append(below, p)
			if p = p[1:]; len(p) == 0 {
				return nil, true
			}
		}
		if p[0] != "*" && !strings.EqualFold(p[0], name) {
			continue
		}
		if len(p) == 1 {
			return nil, true
		}
		below = append(below, p[1:])
	}
	return below, false
}
