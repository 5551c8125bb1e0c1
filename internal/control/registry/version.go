package registry

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// A versionRange is a list of alternatives. Each is a list of bounds that all hold.
type versionRange [][]bound

// A bound compares a version with another one.
type bound struct{ sign, version string }

// anyVersion is the range of all versions, stated or not.
const anyVersion = "*"

// parseRange parses a range such as ">=1.2.0 <2.0.0", "^1.2.0", "~1.2.0", "1.2.3 || 1.2.5" or "*".
func parseRange(text string) (versionRange, error) {
	if strings.TrimSpace(text) == anyVersion {
		return versionRange{{}}, nil
	}
	var out versionRange
	for alternative := range strings.SplitSeq(text, "||") {
		var bounds []bound
		for word := range strings.FieldsSeq(alternative) {
			more, err := parseBounds(word)
			if err != nil {
				return nil, fmt.Errorf("versions: %q: %w", cleanText(text, 100), err)
			}
			bounds = append(bounds, more...)
		}
		if len(bounds) == 0 {
			return nil, fmt.Errorf("versions: %q: an alternative is empty", cleanText(text, 100))
		}
		out = append(out, bounds)
	}
	return out, nil
}

func parseBounds(word string) ([]bound, error) {
	digits := strings.TrimLeft(word, "<>=^~")
	sign := word[:len(word)-len(digits)]
	v := normalizeVersion(digits)
	if v == "" {
		return nil, fmt.Errorf("%q is not a version with three numbers, such as 1.2.3", cleanText(digits, 40))
	}
	switch sign {
	case "", "=":
		return []bound{{"=", v}}, nil
	case ">=", ">", "<=", "<":
		return []bound{{sign, v}}, nil
	case "^":
		for i := range 3 { // the first number that is not zero
			if numberAt(v, i) > 0 || i == 2 {
				return []bound{{">=", v}, {"<", nextVersion(v, i)}}, nil
			}
		}
	case "~":
		return []bound{{">=", v}, {"<", nextVersion(v, 1)}}, nil
	}
	return nil, fmt.Errorf("unknown comparison %q: use >=, >, <=, <, =, ^ or ~", cleanText(sign, 10))
}

// normalizeVersion returns a version as package semver needs it, or "" if it isn't one.
func normalizeVersion(v string) string {
	v = "v" + strings.TrimPrefix(v, "v")
	if !semver.IsValid(v) {
		return ""
	}
	return semver.Canonical(v)
}

// numberAt returns one of the three numbers of a version.
func numberAt(v string, i int) int {
	core, _, _ := strings.Cut(v[1:], "-")
	n, err := strconv.Atoi(strings.Split(core, ".")[i])
	if err != nil {
		return 1 << 30
	}
	return n
}

// nextVersion returns the first version with a higher number at place i.
func nextVersion(v string, i int) string {
	n := [3]int{}
	for j := 0; j <= i; j++ {
		n[j] = numberAt(v, j)
	}
	n[i]++
	return fmt.Sprintf("v%d.%d.%d", n[0], n[1], n[2])
}

// hasVersion reports whether a version is in the range. A prerelease is only if a bound names one
// of the same version.
func (r versionRange) hasVersion(text string) bool {
	v := normalizeVersion(text)
	for _, bounds := range r {
		if len(bounds) == 0 {
			return true
		}
		holds := v != ""
		named := semver.Prerelease(v) == ""
		for _, b := range bounds {
			named = named || semver.Prerelease(b.version) != "" &&
				strings.TrimSuffix(v, semver.Prerelease(v)) == strings.TrimSuffix(b.version,
					semver.Prerelease(b.version))
			c := 0
			if holds {
				c = semver.Compare(v, b.version)
			}
			switch b.sign {
			case "=":
				holds = holds && c == 0
			case ">=":
				holds = holds && c >= 0
			case ">":
				holds = holds && c > 0
			case "<=":
				holds = holds && c <= 0
			case "<":
				holds = holds && c < 0
			}
		}
		if holds && named {
			return true
		}
	}
	return false
}

// approvesVersion reports whether a version of a package is approved: the one that its description
// states, or one in the range.
func (e *Entry) approvesVersion(stated, version string) bool {
	if version != "" && !versionTexts.Get().MatchString(version) { // an address, a folder or another package
		return false
	}
	if e.Versions == "" {
		return stated != "" && version == stated
	}
	r, err := parseRange(e.Versions)
	return err == nil && (version != "" || strings.TrimSpace(e.Versions) == anyVersion) && r.hasVersion(version)
}

// describeVersions returns the approved versions of a package for messages.
func (e *Entry) describeVersions(stated string) string {
	switch {
	case e.Versions != "":
		return "versions " + e.Versions
	case stated != "":
		return "version " + stated
	}
	return "no version"
}
