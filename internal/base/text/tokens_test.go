package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

func TestCount(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	c := &TokenCounter{}
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

func FuzzHead(f *testing.F) {
	f.Add("aé漢😀\xff\xff\xff\xff\xff", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < utf8.UTFMax {
			return
		}
		h := Head(s, n)
		if len(h) > n || !strings.HasPrefix(s, h) || len(s) > 0 && h == "" ||
			utf8.ValidString(s) && !utf8.ValidString(h) {
			t.Errorf("head %d of %q: %q", n, s, h)
		}
	})
}
