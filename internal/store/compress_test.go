package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
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
		switch rapid.IntRange(0, 7).Draw(t, "form") {
		case 1:
			data = append(bytes.Clone(zstdMagic), data...)
		case 2:
			data = bytes.Repeat(data, 50)
		case 3:
			data = append([]byte{packedSmall}, data...)
		case 4:
			data = append(data, make([]byte, minFramed)...)
		case 5:
			data = append([]byte{packedFolded}, data...)
		case 6:
			digests := fmt.Sprintf("%x%x", sha256.Sum256(data), sha256.Sum256(nil))
			data = append(data, digests[:rapid.IntRange(60, 128).Draw(t, "digits")]+"0A\xff\xfe"...)
		case 7:
			data = append(data, bytes.Repeat([]byte{foldMark}, minFramed-1)...)
		}
		got, err := expandData(compressData(data))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("expandData(compressData(%q)) = %q, %v, want the same data", data, got, err)
		}
	})
	before := encoder.Get().EncodeAll(long, nil)
	if got, err := expandData(before); err != nil || !bytes.Equal(got, long) {
		t.Errorf("a frame of an older version: %q, %v, want the same data", got, err)
	}
	small := text[:len(text)-1]
	before = append([]byte{packedSmall}, journalDict.Get().Encode(make([]byte, s2.MaxEncodedLen(len(small))), small)...)
	if got, err := expandData(before); err != nil || !bytes.Equal(got, small) {
		t.Errorf("a journal of an older version: %q, %v, want the same data", got, err)
	}
	if got, err := expandData([]byte{packedSmall, 0x80, 0x80, 0x80, 0x08, 0}); err == nil {
		t.Errorf("a small frame that claims 16 MB expands to %d bytes, want an error", len(got))
	}
	if got, err := expandData([]byte{packedFolded, 2, 4, 'a', foldMark}); err == nil {
		t.Errorf("a digest that is cut off expands to %q, want an error", got)
	}
	frame := compressData(long)
	for n := len(zstdMagic); n < len(frame); n++ {
		if got, err := expandData(frame[:n]); err == nil {
			t.Fatalf("the first %d bytes of a frame of %d expand to %q, want an error", n, len(frame), got)
		}
	}
}

// BenchmarkCompress compresses the beginning of the journal of a program with three calls.
func BenchmarkCompress(b *testing.B) {
	var journal []byte
	journal = append(journal, `b{"source":"for (const n of [1,2,3]) await shop.order({n})","timeout":60000000000,`+
		`"principal":{"ID":"key:ci","Name":"ci","Person":"","Agent":"ci","Client":"codex/2.1","Profile":"",`+
		`"Roles":["user"],"Groups":null,"Scopes":null,"Tools":null,"Chain":null,"Until":"0001-01-01T00:00:00Z"}}`...)
	for i := range 3 {
		journal = fmt.Appendf(journal, `i{"n":%[1]d,"id":%[1]d,"tool":"shop.order","arguments":{"n":%[1]d},"digest":`+
			`"%[2]x","decision":"allow","at":17957691022%[1]d}oc{"n":%[1]d,"id":%[1]d,"tool":"","digest":"",`+
			`"at":17957691029%[1]d,"value":{"ok":true},"ms":3,"bytes":57}`, i+1, sha256.Sum256([]byte{byte(i)}))
	}
	size := 0
	for b.Loop() {
		size = len(compressData(journal))
	}
	b.ReportMetric(float64(size)/float64(len(journal)), "size")
}
