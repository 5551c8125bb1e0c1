package tokens

import (
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"
)

func TestCount(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("tokenizer.Get: %v", err)
	}
	c := &Counter{}
	line := `{"id":4711,"name":"Ada Lovelace","note":"called on Monday – wants an offer"},` + "\n"
	long := strings.Repeat(line, 500)
	for _, s := range []string{"", "a", "hello world", long[:3000]} {
		want, _ := codec.Count(s)
		if got, err := c.Count(s, 0); err != nil || got != want {
			t.Errorf("%d bytes: %d tokens, want %d, %v", len(s), got, want, err)
		}
	}
	want, _ := codec.Count(line)
	want *= 500
	if got, err := c.Count(long, 0); err != nil || got < want || got > want+len(long)/piece+1 {
		t.Errorf("in pieces: %d tokens, want about %d, %v", got, want, err)
	}
	if got, err := c.Count(long, 100); err != nil || got <= 100 || got > 100+piece {
		t.Errorf("it stopped at %d, %v", got, err)
	}
	if got, exact, err := c.Sample(long, 1<<20); err != nil || !exact || got < want {
		t.Errorf("a large sample: %d, %t, %v", got, exact, err)
	}
	if got, exact, err := c.Sample(long, 8<<10); err != nil || exact || got < want*9/10 || got > want*11/10 {
		t.Errorf("a sample: %d of %d, %t, %v", got, want, exact, err)
	}
}

// TestWords compares the counts of ASCII texts with those of the library.
func TestWords(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("load the vocabulary: %v", err)
	}
	c := &Counter{}
	part := rapid.SampledFrom([]string{
		"the", "Name", "JSON", "fooBAR", "x", "'s", "'LL", "'Re", "'v", "'",
		"12", "3456", " ", "  ", "\t", "\r\n", "\n", "\v", "\f", "/", "//",
		"{\"", "\":", "_", "$", "\x00", "\x1c", "\x7f", ",",
	})
	rapid.Check(t, func(t *rapid.T) {
		var s string
		if rapid.Bool().Draw(t, "by part") {
			s = strings.Join(rapid.SliceOf(part).Draw(t, "parts"), "")
		} else {
			s = rapid.StringMatching(`[\x00-\x7f]{0,60}`).Draw(t, "text")
		}
		want, err := codec.Count(s)
		if err != nil {
			t.Fatalf("count %q with the library: %v", s, err)
		}
		if got, err := c.Count(s, 0); err != nil || got != want {
			t.Fatalf("Count(%q) = %d, %v, want %d", s, got, err, want)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	s := strings.Repeat(`{"id":4711,"name":"Ada Lovelace","note":"called on Monday, wants an offer"},`+"\n", 50)
	c := &Counter{}
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		if _, err := c.Count(s, 0); err != nil {
			b.Fatalf("count the tokens: %v", err)
		}
	}
}
