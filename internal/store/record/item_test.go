package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

// readItems returns the items of a pack.
func readItems(data []byte) (out []retention.Kept, err error) {
	err = eachItem(data, func(digest string, data []byte) error {
		out = append(out, retention.Kept{Digest: digest, Data: bytes.Clone(data)})
		return nil
	})
	return out, err
}

// TestItems checks that the items of packs are read as they were written, also by an older version.
func TestItems(t *testing.T) {
	digests := rapid.OneOf(rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) string {
		return fmt.Sprintf("hmac-sha256:%x", b)
	}), rapid.SampledFrom([]string{"", "hmac-sha256:", "hmac-sha256:" + strings.Repeat("AB", 32), "sha256:00", "\x01"}))
	rapid.Check(t, func(t *rapid.T) {
		var want []retention.Kept
		var items, old []byte
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			k := retention.Kept{Digest: digests.Draw(t, "digest"), Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")}
			items = appendItem(items, k)
			if len(old) == 0 && k.Digest == "" {
				k.Digest = "old" // the first byte of an old pack isn't 0
			}
			old = binary.AppendUvarint(binary.AppendUvarint(old, uint64(len(k.Digest))), uint64(len(k.Data)))
			old = append(append(old, k.Digest...), k.Data...)
			want = append(want, k)
		}
		got, err := readItems(encodeItems(items))
		for i := range got {
			if i == 0 && got[0].Digest == "" {
				got[0].Digest = "old"
			}
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
		if got, err = readItems(old); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("of an older version: %v, %v, want %v", got, err, want)
		}
	})
}

// FuzzItems checks that malformed packs are refused.
func FuzzItems(f *testing.F) {
	one := appendItem(nil, retention.Kept{Digest: "hmac-sha256:" + strings.Repeat("ab", 32), Data: []byte(`{"x":1}`)})
	f.Add(encodeItems(one))
	f.Add(encodeItems(one[:len(one)-1]))
	f.Add(encodeItems(one[:20]))
	f.Add(encodeItems([]byte{0x80}))
	f.Add(encodeItems([]byte{4, 0xff, 0xff, 0xff, 0xff, 0x7f}))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte("\x04\x01abcdx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readItems(data)
		if err != nil && !errors.Is(err, secret.ErrUnseal) {
			t.Fatalf("err = %v, want secret.ErrUnseal", err)
		}
		size := 0
		for _, k := range got {
			size += len(k.Data)
		}
		if size > maxItems && len(data) < maxItems {
			t.Fatalf("%d bytes of %d", size, len(data))
		}
	})
}

// BenchmarkKeepItem keeps the arguments and results of calls, in packs of a typical size.
func BenchmarkKeepItem(b *testing.B) {
	var items []byte
	n, packs, size := 0, 0, 0
	for b.Loop() {
		n++
		data := fmt.Appendf(nil, `{"owner":"acme","repo":"site","number":%d}`, n)
		digest := fmt.Sprintf("hmac-sha256:%x", sha256.Sum256(data))
		items = appendItem(items, retention.Kept{Digest: digest, Data: data})
		if encoded := encodeItems(items); len(encoded) > tailBytes {
			packs, size, items = packs+1, size+len(encoded), items[:0]
		}
	}
	b.ReportMetric(float64(size+len(encodeItems(items)))/float64(n), "B/item")
}
