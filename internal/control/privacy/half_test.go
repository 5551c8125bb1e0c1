package privacy

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestWithoutHalves compares withoutHalves with an equivalent, but much slower, regular expression.
func TestWithoutHalves(t *testing.T) {
	halves := regexp.MustCompile(`(?:[^\s"'<>,;:@]{1,64}@[^\s"'<>,;@]{0,254}|\+?\(?[0-9][0-9 ()./-]{3,24})…`)
	lost := 0 // if one half follows another, the text in between may be removed, too
	check := func(text string) {
		t.Helper()
		want, got := halves.ReplaceAllString(text, ellipsis), withoutHalves(text)
		if !within(got, want) {
			t.Fatalf("of %q is left %q, not %q", text, got, want)
		}
		if lost += len(want) - len(got); text == want && got != want {
			t.Fatalf("of %q is left %q", text, got)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b.c", "@", "…", "…", "1", "23", " ", "+", "(", ")", "-", ",", ":", "é", "\xff", "\xe2\x80",
		"\uFFFD", "\n", strings.Repeat("x", 63), strings.Repeat("y", 253), strings.Repeat("4", 20)}
	all := 0
	for range 5_000 {
		var b strings.Builder
		for range rnd.IntN(12) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		check(b.String())
		all += b.Len()
	}
	if lost > all/200 {
		t.Errorf("%d of %d bytes are left out that need not be", lost, all)
	}
	for _, text := range []string{"", "…", "ann@exam…", "call +1 (212) 555 01…, or", "ann@ex…ample…",
		strings.Repeat("é", 70) + "@" + strings.Repeat("é", 254) + "…", "a@" + strings.Repeat("é", 255) + "…"} {
		check(text)
	}
}

// within reports whether part is of with some bytes removed.
func within(part, of string) bool {
	for _, c := range []byte(of) {
		if part != "" && part[0] == c {
			part = part[1:]
		}
	}
	return part == ""
}

// BenchmarkHalves reads digits with an ellipsis after each, and with one at the end.
func BenchmarkHalves(b *testing.B) {
	for name, text := range map[string]string{"many": strings.Repeat("1…", 1<<19),
		"one": strings.Repeat("1", 2<<20) + "…."} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				withoutHalves(text)
			}
		})
	}
}
