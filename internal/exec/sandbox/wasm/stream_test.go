package wasm

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzInbox checks that lines pass through an inbox unchanged, regardless of how the reads split
// them. A line that is too long must cause an error.
func FuzzInbox(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nlast"), 100)
	f.Add([]byte("\n\n\n"), 1)
	f.Add(bytes.Repeat([]byte("x"), 70000), 100000)
	f.Add([]byte("too long\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, max int) {
		if max < 0 || len(b) > 1<<18 {
			return
		}
		want := strings.Split(string(b), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		r := bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(b)), 16)
		for i := 0; ; i++ {
			line, err := readLine(r, max)
			switch {
			case err == io.EOF && i == len(want):
				return
			case err == errLine:
				if i >= len(want) || len(want[i]) < max-1 {
					t.Fatalf("line %d of %q is too long for %d", i, b, max)
				}
				return
			case err != nil || i >= len(want) || line != want[i]:
				t.Fatalf("line %d of %q is %q (%v)", i, b, line, err)
			}
		}
	})
}

// FuzzGuest sends an arbitrary line to the real prelude. The run must succeed, or report that the
// guest's runtime failed.
func FuzzGuest(f *testing.F) {
	d, err := New(Config{})
	if err != nil {
		f.Fatalf("New: %v", err)
	}
	f.Cleanup(func() { _ = d.Close() })
	if _, err := d.Probe(f.Context()); err != nil {
		f.Skip(err)
	}
	for _, s := range []string{`{"run":{"code":"() => 1","name":"x.js","namespaces":{"a":["b"]}}}`,
		`{"answer":{"id":1,"value":[1]}}`, `{"run":null}`, `[]`, `{"__proto__":{"run":{"code":"1"}}}`, "\xff",
		`{"answer":{"id":12345678901234567890}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if err := runLines(t, d, line, `{"run":{"code":"() => 1","name":"x.js"}}`); err != nil &&
			!strings.Contains(err.Error(), "the guest's runtime failed") {
			t.Errorf("line = %q, err = %v, want err == nil || strings.Contains(err.Error(), \"the "+
				"guest's runtime failed\")", line, err)
		}
	})
}
