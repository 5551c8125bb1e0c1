package execution

import "testing"

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{
		"one":                         "one",
		"wrong arguments for a.b:":    "wrong arguments for a.b",
		"wrong for a.b:\n- id: no\n-": "wrong for a.b: id: no",
		"one\ntwo":                    "one",
	} {
		if got := firstLine(in); got != want {
			t.Errorf("firstLine(%q) is %q, want %q", in, got, want)
		}
	}
}
