package secret_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/secret"
)

func TestHide(t *testing.T) {
	h := secret.NewHidden([]string{"hush-hush", "hush-hush-more", "true,false", "tiny", `a"b\c d&e`})
	for _, tt := range []struct{ in, want string }{
		{`plain`, `plain`},
		{`a hush-hush-more, b hush-hush`, `a [redacted], b [redacted]`},
		{`{"hush-hush":["hush-hush-more",1e2,true,null]}`, `{"[redacted]":["[redacted]",1e2,true,null]}`},
		{`[true,false]`, `[true,false]`}, // JSON stays JSON
		{`{"a":{"b":[[],{}]},"c":"tiny"}`, `{"a":{"b":[[],{}]},"c":"tiny"}`},
		{`{"x":"a\"b\\c d&e","y":{}}`, `{"x":"[redacted]","y":{}}`},
		{`{"x":"a\u0022b\\c d\u0026e"}`, `{"x":"[redacted]"}`},
		{`q=a%22b%5Cc+d%26e or a%22b%5Cc%20d&e`, `q=[redacted] or [redacted]`},
		{`{"cut":"hush-hush`, `{"cut":"[redacted]`},
	} {
		if got := string(h.Hide([]byte(tt.in))); got != tt.want {
			t.Errorf("%s is %s, want %s", tt.in, got, tt.want)
		}
	}
	if none := secret.NewHidden([]string{"tiny"}); none != nil || string(none.Hide([]byte("tiny"))) != "tiny" || none.Longest() != 0 {
		t.Error("short values are looked for")
	}
}

func FuzzHide(f *testing.F) {
	h := secret.NewHidden([]string{"12345678", `q"q"q"q"`, "ññññññññ"})
	f.Add([]byte(`{"a":12345678,"b":"q\"q\"q\"q\""}`))
	f.Add([]byte(`["\u00f1ñññññññ",{"12345678":[]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := h.Hide(data)
		if json.Valid(data) && !json.Valid(got) {
			t.Errorf("%q became %q", data, got)
		}
		if bytes.Contains(got, []byte("12345678")) {
			t.Errorf("a value is in %q, of %q", got, data)
		}
	})
}

func BenchmarkHide(b *testing.B) {
	var values []string
	for _, c := range "abcdefghij" {
		values = append(values, "sk-"+strings.Repeat(string(c), 30))
	}
	h := secret.NewHidden(values)
	data := []byte(`{"items":[` + strings.Repeat(`{"id":12,"name":"a name of a thing","tags":["one","two"]},`, 20) + `{}]}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		h.Hide(data)
	}
}
