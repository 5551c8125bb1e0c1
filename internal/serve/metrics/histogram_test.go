package metrics

import (
	"strings"
	"testing"
)

func TestHistogram(t *testing.T) {
	h := newHistogram("h", "how long", "up", "b")
	for _, seconds := range []float64{1.0 / 1024, 1.0 / 512, 300, 300.5} {
		h.observeDuration("a\"\\\n\xff", seconds)
	}
	var out strings.Builder
	h.writeSeries(&out)
	text := out.String()
	if !strings.HasPrefix(text, "# HELP h how long\n# TYPE h histogram\n") {
		t.Errorf(`text = %v, want strings.HasPrefix(text, "# HELP h how long\n# TYPE h histogram\n")`, text)
	}
	name, last := `up="a\"\\\n`+"\uFFFD"+`"`, -1
	for _, line := range []string{ // in order; the counts are cumulative
		`h_bucket{` + name + `,le="0.001"} 1`, `h_bucket{` + name + `,le="0.0025"} 2`,
		`h_bucket{` + name + `,le="60"} 2`,
		`h_bucket{` + name + `,le="300"} 3`, `h_bucket{` + name + `,le="+Inf"} 4`, `h_sum{` + name + `} 600.5029296875`,
		`h_count{` + name + `} 4`,
		`h_bucket{up="b",le="0.001"} 0`, `h_count{up="b"} 0`,
	} {
		at := strings.Index(text, line+"\n")
		if at <= last {
			t.Errorf("%s at %d, after %d", line, at, last)
		}
		last = at
	}
	if t.Failed() {
		t.Log(text)
	}
}
