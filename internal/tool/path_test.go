package tool

import (
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		paths, field string
		want         bool
	}{
		{"email", "email", true}, {"email", "Email", true}, {"email", "a.email", false},
		{"a.*.price", "a.b.price", true}, {"a.*.price", "a.price", false}, {"a.*", "a.b", true}, {"a.*", "a", false},
		{"**.ssn", "ssn", true}, {"**.ssn", "a.b.ssn", true}, {"**.ssn", "a.b", false}, {"a.**", "a.b.c", true},
		{"**.a.b", "x.a.a.b", true}, {"x,a.b", "a.b", true},
	} {
		left, named := ParsePaths(strings.Split(c.paths, ",")), false
		for _, f := range strings.Split(c.field, ".") {
			if left, named = left.Below(f); named {
				break
			}
		}
		if named != c.want {
			t.Errorf("%s names %s: %v", c.paths, c.field, named)
		}
	}
}

func TestIsPath(t *testing.T) {
	for _, p := range []string{"a", "a.b", "*", "**", "a.*.b", "**.ssn"} {
		if !IsPath(p) {
			t.Errorf("%q is no path", p)
		}
	}
	for _, p := range []string{"", ".", "a.", ".a", "a..b", "a b", "a,b", "a*", "**.**"} {
		if IsPath(p) {
			t.Errorf("%q is a path", p)
		}
	}
}
