package mask

import "testing"

func TestEscapeStopsAtFirst(t *testing.T) {
	tab := newTable([]string{"abc/defghij"})
	for _, c := range []struct {
		text string
		want int
	}{
		{`none \n \" here`, -1}, {`a\u0041 \/`, 1}, {`a\/ \u0041`, 1}, {`\u2028 x \u0041`, 9}, {`\\u0041`, 1},
		{`\`, -1}, {`\u00`, -1},
	} {
		if got := tab.findEscape([]byte(c.text)); got != c.want {
			t.Errorf("%s: %d, want %d", c.text, got, c.want)
		}
	}
}

// BenchmarkFarEscapes masks a text in which each escape is far from the next. Its time must be
// linear in the length of the text.
func BenchmarkFarEscapes(b *testing.B) {
	m := New()
	m.Add("abc/defghij")
	text := make([]byte, 0, 8<<20)
	for len(text) < 8<<20 {
		text = append(text, `\u0041`...)
		for range 400 {
			text = append(text, 'x')
		}
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.MaskJSON(text)
	}
}
