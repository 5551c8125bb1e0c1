package tokens

import (
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/base/text"
)

func TestCount(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("load the library's vocabulary: %v", err)
	}
	c := &Counter{}
	line := `{"id":4711,"name":"Ada Lovelace","note":"called on Monday – wants an offer"},` + "\n"
	long := strings.Repeat(line, 500)
	for _, s := range []string{"", "a", "hello world", long, strings.Repeat("a", 5000), strings.Repeat("ab", 300)} {
		want, err := codec.Count(s)
		if err != nil {
			t.Fatalf("count with the library: %v", err)
		}
		if got := c.Count(s, 0); got != want {
			t.Errorf("%d bytes: %d tokens, want %d", len(s), got, want)
		}
	}
	want := c.Count(long, 0)
	if got := c.Count(long, 100); got <= 100 || got > 110 {
		t.Errorf("it stopped at %d, want soon after 100", got)
	}
	if got, exact := c.Sample(long, 1<<20); !exact || got != want {
		t.Errorf("a large sample: %d, %t, want %d, true", got, exact, want)
	}
	if got, exact := c.Sample(long, 8<<10); exact || got < want*9/10 || got > want*11/10 {
		t.Errorf("a sample: %d, %t, want about %d, false", got, exact, want)
	}
	if got := c.Count(c.Fit(long, 50, text.Head), 0); got > 50 || got < 40 {
		t.Errorf("what fits in 50 tokens has %d", got)
	}
}

// TestWords compares the counts of texts with those of the library.
func TestWords(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("load the library's vocabulary: %v", err)
	}
	c := &Counter{}
	part := rapid.SampledFrom([]string{
		"the", "Name", "JSON", "fooBAR", "x", "'s", "'LL", "'Re", "'v", "'",
		"12", "3456", " ", "  ", "\t", "\r\n", "\n", "\v", "\f", "/", "//",
		"{\"", "\":", "_", "$", "\x00", "\x1c", ",",
		"é", "É", "ǅ", "ʰ", "漢字", "かな", "ة", "\u0301", "\u0903", "٣", "Ⅷ", "½", "\u00a0", "\u2028", "\u3000", "\u0085",
		"😀", "👩‍👩‍👧", "\ufeff", "\u200b", "ſ", "K", "ß", "–", "\xff", "\xc3", "ªº",
	})
	rapid.Check(t, func(t *rapid.T) {
		var s string
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			s = strings.Join(rapid.SliceOf(part).Draw(t, "parts"), "")
		case 1:
			s = rapid.StringMatching(`[\x00-\x7e]{0,60}`).Draw(t, "text")
		default:
			s = rapid.String().Draw(t, "any text")
		}
		if strings.Contains(s, "\x7f") {
			t.Skip("the library ignores DEL")
		}
		want, err := codec.Count(s)
		if err != nil {
			t.Fatalf("count %q with the library: %v", s, err)
		}
		if got := c.Count(s, 0); got != want {
			t.Fatalf("Count(%q) = %d, want %d", s, got, want)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	s := strings.Repeat(`{"id":4711,"name":"Ada Lovelace","note":"called on Monday, wants an offer"},`+"\n", 50)
	b.Run("known", func(b *testing.B) {
		c := &Counter{}
		b.SetBytes(int64(len(s)))
		b.ReportAllocs()
		for b.Loop() {
			c.Count(s, 0)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.SetBytes(int64(len(s)))
		b.ReportAllocs()
		for b.Loop() {
			new(Counter).Count(s, 0)
		}
	})
	b.Run("long word", func(b *testing.B) {
		s := strings.Repeat("ab", len(s)/2)
		b.SetBytes(int64(len(s)))
		for b.Loop() {
			new(Counter).Count(s, 0)
		}
	})
}
