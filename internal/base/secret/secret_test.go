package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func testKey(t testing.TB, seed byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{seed}, KeySize))
	if err != nil {
		t.Fatalf("NewKey: %v", err)
	}
	return k
}

func TestSealOpens(t *testing.T) {
	k := testKey(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		prefix := rapid.SliceOf(rapid.Byte()).Draw(t, "prefix")
		bind := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "bind")
		purpose := rapid.String().Draw(t, "purpose")
		sealed := k.AppendSeal(bytes.Clone(prefix), purpose, plain, bind...)
		if !bytes.HasPrefix(sealed, prefix) || len(sealed) != len(prefix)+Overhead+len(plain) {
			t.Fatalf("sealed %d bytes after %d into %d", len(plain), len(prefix), len(sealed))
		}
		got, err := k.AppendUnseal(bytes.Clone(prefix), purpose, sealed[len(prefix):], bind...)
		if err != nil || !bytes.Equal(got, append(bytes.Clone(prefix), plain...)) {
			t.Fatalf("opened %x, %v", got, err)
		}
	})
}

// Only the same text, with the same key, purpose and place, can be unsealed.
func TestUnsealRefuses(t *testing.T) {
	k := testKey(t, 1)
	sealed := k.Seal("token", []byte("the text"), []byte("ab"), []byte("c"))
	refused := func(what string, k *Key, purpose string, sealed []byte, bind ...[]byte) {
		t.Helper()
		if got, err := k.Unseal(purpose, sealed, bind...); !errors.Is(err, ErrUnseal) || got != nil {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	ab, c := []byte("ab"), []byte("c")
	refused("another key", testKey(t, 2), "token", sealed, ab, c)
	refused("another purpose", k, "session", sealed, ab, c)
	refused("no place", k, "token", sealed)
	refused("another place", k, "token", sealed, ab, []byte("d"))
	refused("the same bytes, parted otherwise", k, "token", sealed, []byte("a"), []byte("bc"))
	refused("one part more", k, "token", sealed, ab, c, nil)
	for i := range sealed {
		for bit := range 8 {
			b := bytes.Clone(sealed)
			b[i] ^= 1 << bit
			refused(fmt.Sprintf("byte %d changed", i), k, "token", b, ab, c)
		}
		refused(fmt.Sprintf("cut after %d bytes", i), k, "token", sealed[:i], ab, c)
	}
	refused("one byte more", k, "token", append(bytes.Clone(sealed), 0), ab, c)
	if again := k.Seal("token", []byte("the text"), ab, c); bytes.Equal(again, sealed) {
		t.Error("two seals of one text are the same bytes")
	}
}

func FuzzUnseal(f *testing.F) {
	k := testKey(f, 1)
	f.Add(k.Seal("p", []byte("text"), []byte("b")), []byte("b"))
	f.Add([]byte{version}, []byte(nil))
	f.Fuzz(func(t *testing.T, sealed, bind []byte) {
		plain, err := k.Unseal("p", sealed, bind)
		if err == nil && len(plain)+Overhead != len(sealed) {
			t.Fatalf("opened %d bytes of %d", len(plain), len(sealed))
		}
		if err != nil && (plain != nil || !errors.Is(err, ErrUnseal)) {
			t.Fatalf("got %x, %v", plain, err)
		}
	})
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != KeySize {
		t.Fatalf("the file is %v, %v", fi, err)
	}
	second, err := Open(path)
	if err != nil || second.secret != first.secret {
		t.Fatalf("opened again: another key, or %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	refused := func(hint string) {
		t.Helper()
		_, err := Open(path)
		var e *KeyError
		if !errors.As(err, &e) || e.Path != path || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), hint) {
			t.Errorf("got %v, want one that says %q", err, hint)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o677} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		refused("chmod 600")
	}
	for _, size := range []int{0, KeySize - 1, KeySize + 1} {
		if err := os.Remove(path); err != nil {
			t.Fatalf("os.Remove: %v", err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		refused("32 bytes")
	}
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil { // a pipe without a writer
		path = filepath.Join(t.TempDir(), "key")
		if err := exec.Command(mkfifo, path).Run(); err != nil {
			t.Fatalf("Run: %v", err)
		}
		refused("not a regular file")
	}
	path = t.TempDir()
	refused("not a regular file")
	path = filepath.Join(path, "not", "there")
	refused("no such file")
}

// Concurrent callers get the same key.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]*Key, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := Open(path)
			if err != nil {
				t.Errorf("Open: %v", err)
			}
			keys[i] = k
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k == nil || k.secret != keys[0].secret {
			t.Fatal("two keys")
		}
	}
}

func TestParseKey(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb, 0xff}, KeySize/2)
	for _, text := range []string{
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)) + "\n",
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		k, err := ParseKey(text)
		if err != nil || !bytes.Equal(k.secret[:], raw) {
			t.Errorf("text = %q, err = %v, want err == nil && bytes.Equal(k.secret[:], raw)", text, err)
		}
	}
	for _, text := range []string{"", "secretsecret", hex.EncodeToString(raw[1:]), hex.EncodeToString(raw) + "00"} {
		var e *KeyError
		if _, err := ParseKey(text); !errors.As(err, &e) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("text = %q, err = %v, want errors.As(err, &e) && (text == \"\" || "+
				"!strings.Contains(err.Error(), text))", text, err)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	k, err := NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("NewKey: %v", err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k)
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %x %d", k, k, k, k, k, k), log.String()} {
		if strings.Contains(s, "0123") || strings.Contains(s, "30313233") || strings.Contains(s, "48 49") {
			t.Errorf("the key is in %q", s)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	k := testKey(b, 1)
	plain := make([]byte, 64<<20)
	dst := make([]byte, 0, Overhead+len(plain))
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		k.AppendSeal(dst, "session", plain)
	}
}
