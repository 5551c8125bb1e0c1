package tool

import "strings"

// IsPath reports whether p is a path of JSON fields, like customer.email, items.*.price or **.ssn.
// Names are separated by dots. * matches any one name and ** any number of them, but ** can't be
// repeated. Paths skip over lists.
func IsPath(p string) bool {
	for part := range strings.SplitSeq(p, ".") {
		if part != "*" && part != "**" && (part == "" || strings.ContainsAny(part, "*, \t\n\f\r")) {
			return false
		}
	}
	return !strings.Contains(p, "**.**")
}

// Paths are parsed paths of fields. Below descends from the top, field by field.
type Paths [][]string

// ParsePaths parses paths for which IsPath is true.
func ParsePaths(all []string) Paths {
	out := make(Paths, len(all))
	for i, p := range all {
		out[i] = strings.Split(p, ".")
	}
	return out
}

// Below returns the remaining paths below a field, and reports whether a path names the field
// itself. Names are case-insensitive.
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
