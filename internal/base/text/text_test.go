package text

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Group(0), "0"}, {Group(999), "999"}, {Group(1000), "1,000"}, {Group(-100), "-100"},
		{Group(int64(-1234567)), "-1,234,567"},
		{Count(1, "call"), "1 call"}, {Count(0, "call"), "0 calls"}, {Count(1200, "call"), "1,200 calls"},
		{Size(999), "999 B"}, {Size(1500), "1.5 KB"}, {Size(int64(12_345_678)), "12.3 MB"},
		{Duration(12 * time.Millisecond), "12 ms"}, {Duration(1500 * time.Millisecond), "1.5 s"},
		{Duration(61 * time.Second), "1m1s"},
		{Span(time.Hour), "1 hour"}, {Span(90 * time.Minute), "90 minutes"}, {Span(1500 * time.Millisecond), "1.5s"},
		{Setting(30 * 24 * time.Hour), "30d"}, {Setting(10 * time.Minute), "10m"}, {Setting(2 * time.Hour), "2h"},
		{Setting(90 * time.Second), "1m30s"}, {Setting(0), "0s"},
		{Cut("short", 5), "short"}, {Cut("längst", 2), "l…"}, {Clip("längst", 2), "lä…"}, {Clip("längst", 6), "längst"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
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
