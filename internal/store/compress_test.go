package store

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCompress(t *testing.T) {
	text := []byte(`{"call":{"id":1,"path":"srv.echo","args":{"x":7}}}`)
	if got := compressData(text); !bytes.Equal(got, text) {
		t.Errorf("a short text became %q, want it unchanged", got)
	}
	long := []byte(strings.Repeat(string(text), 40))
	if got := compressData(long); len(got) > len(long)/10 {
		t.Errorf("%d bytes of repeated text became %d, want a tenth at most", len(long), len(got))
	}
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 1:
			data = append(bytes.Clone(zstdMagic), data...)
		case 2:
			data = bytes.Repeat(data, 50)
		}
		got, err := expandData(compressData(data))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("expandData(compressData(%q)) = %q, %v, want the same data", data, got, err)
		}
	})
	frame := compressData(long)
	for n := len(zstdMagic); n < len(frame); n++ {
		if got, err := expandData(frame[:n]); err == nil {
			t.Fatalf("the first %d bytes of a frame of %d expand to %q, want an error", n, len(frame), got)
		}
	}
}
