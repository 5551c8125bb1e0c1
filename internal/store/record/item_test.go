package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

func itemKey(t testing.TB) *secret.Key {
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("NewKey: %v", err)
	}
	return key
}

// readItems returns the items of a pack.
func readItems(data []byte, key *secret.Key) (out []retention.Kept, err error) {
	err = eachItem(data, func(digest string, data []byte) error {
		if digest == "" {
			digest = retention.Digest(key, data)
		}
		out = append(out, retention.Kept{Digest: digest, Data: bytes.Clone(data)})
		return nil
	})
	return out, err
}

// TestItems checks that the items of packs are read as they were written, also by older versions.
func TestItems(t *testing.T) {
	key := itemKey(t)
	rapid.Check(t, func(t *rapid.T) {
		var want []retention.Kept
		var items, older, oldest []byte
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
			raw := sha256.Sum256(data)
			digest := rapid.SampledFrom([]string{retention.Digest(key, data), fmt.Sprintf("hmac-sha256:%x", raw),
				"hmac-sha256:", "sha256:00", "\x01"}).Draw(t, "digest")
			k := retention.Kept{Digest: digest, Data: data}
			want = append(want, k)
			items = appendItem(items, key, k)
			if size := uint64(len(data)) << 1; strings.HasSuffix(digest, hex.EncodeToString(raw[:])) {
				older = append(binary.AppendUvarint(older, size|1), raw[:]...)
			} else {
				older = append(binary.AppendUvarint(binary.AppendUvarint(older, size), uint64(len(digest))), digest...)
			}
			older = append(older, data...)
			oldest = binary.AppendUvarint(binary.AppendUvarint(oldest, uint64(len(digest))), uint64(len(data)))
			oldest = append(append(oldest, digest...), data...)
		}
		for name, pack := range map[string][]byte{"items": encodeItems(items),
			"items of an older version": encodeItems(older), "items of the oldest version": oldest} {
			if got, err := readItems(pack, key); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: %v, %v, want %v", name, got, err, want)
			}
		}
	})
}

// FuzzItems checks that malformed packs are refused.
func FuzzItems(f *testing.F) {
	key := itemKey(f)
	digest := "hmac-sha256:" + strings.Repeat("ab", 32)
	one := appendItem(nil, key, retention.Kept{Digest: digest, Data: []byte(`{"x":1}`)})
	f.Add(encodeItems(appendItem(one, key, retention.Kept{Digest: retention.Digest(key, nil)})))
	f.Add(encodeItems(one))
	f.Add(encodeItems(one[:len(one)-1]))
	f.Add(encodeItems(one[:20]))
	f.Add(encodeItems([]byte{0x80}))
	f.Add(encodeItems([]byte{4, 0xff, 0xff, 0xff, 0xff, 0x7f}))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte("\x04\x01abcdx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readItems(data, key)
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
	key := itemKey(b)
	var items []byte
	n, packs, size := 0, 0, 0
	for b.Loop() {
		n++
		data := fmt.Appendf(nil, `{"owner":"acme","repo":"site","number":%d}`, n)
		items = appendItem(items, key, retention.Kept{Digest: retention.Digest(key, data), Data: data})
		if encoded := encodeItems(items); len(encoded) > tailBytes {
			packs, size, items = packs+1, size+len(encoded), items[:0]
		}
	}
	b.ReportMetric(float64(size+len(encodeItems(items)))/float64(n), "B/item")
}
