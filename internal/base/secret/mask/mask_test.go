package mask_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
)

func of(values ...string) *mask.Masker {
	m := mask.New(mask.Shape{Prefix: "bp_", Length: 20})
	m.Add(values...)
	return m
}

func TestJSON(t *testing.T) {
	m := of("hush-hush", "hush-hush-more", "true,false", "tiny", `a"b\c d&e`, "12345678", "nsecret1", `ends-in\`)
	for _, tt := range []struct{ in, want string }{
		{`plain`, `plain`},
		{`a hush-hush-more, b hush-hush`, `a [redacted], b [redacted]`},
		{`{"hush-hush":["hush-hush-more",1e2,true,null]}`, `{"[redacted]":["[redacted]",1e2,true,null]}`},
		{`[true,false]`, `[true,false]`},
		{`{"a":{"b":[[],{}]},"c":"tiny"}`, `{"a":{"b":[[],{}]},"c":"tiny"}`},
		{`{"x":"a\"b\\c d&e","y":{}}`, `{"x":"[redacted]","y":{}}`},
		{`{"x":"a\u0022b\\c d\u0026e"}`, `{"x":"[redacted]"}`},
		{`{"x":"\u0068ush-hush","y":"{\"z\":\"hus\\u0068-hush\"}"}`, `{"x":"[redacted]","y":"{\"z\":\"[redacted]\"}"}`},
		{`q=a%22b%5Cc+d%26e or a%22b%5Cc%20d&e`, `q=[redacted] or [redacted]`},
		{`?q=%68us%68-hush&n=100%`, `?q=[redacted]&n=100%`},
		{`{"cut":"hush-hush`, `{"cut":"[redacted]`},
		{`{"n":12345678,"m":-1123456780.5,"k":1234567}`, `{"n":"[redacted]","m":"[redacted]","k":1234567}`},
		{`{"n":1.50, "x" : "hush-hush" , "big":123456789012345679}`,
			`{"n":1.50, "x" : "[redacted]" , "big":"[redacted]"}`},
		{`["a\nsecret1b"]`, `["a[redacted]b"]`},
		{`["ends-in\\","ends-in\\\""]`, `["[redacted]","[redacted]\""]`},
		{`key bp_abcdefghijklmnop2, not bp_abcdefghijklmnop23 or bp_abcdefghijklmn-p`,
			`key [redacted], not bp_abcdefghijklmnop23 or bp_abcdefghijklmn-p`},
	} {
		got := string(m.MaskJSON([]byte(tt.in)))
		if got != tt.want {
			t.Errorf("%s is %s, want %s", tt.in, got, tt.want)
		}
	}
	var none *mask.Masker
	if string(none.MaskJSON([]byte("hush-hush"))) != "hush-hush" || none.Text("hush-hush") != "hush-hush" ||
		none.Longest() != 0 {
		t.Error("the nil Masker masks")
	}
	if got := mask.New().Text("nothing is known"); got != "nothing is known" {
		t.Errorf("Text(%q) = %q, want %q", "nothing is known", got, "nothing is known")
	}
}

// A value is found in every encoding, at any position in the encoded text.
func TestEncodings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`[!-~]{8,40}`).Draw(t, "value")
		m := of(v)
		before, after := rapid.StringMatching(`[a-z: ]{0,7}`).Draw(t, "before"),
			rapid.StringMatching(`[a-z: ]{0,7}`).Draw(t, "after")
		doc := before + v + after
		quoted, _ := json.Marshal(doc)
		twice, _ := json.Marshal(string(quoted))
		codes := ""
		for _, c := range []byte(doc) {
			codes += fmt.Sprintf(`%%%02x`, c)
		}
		for name, text := range map[string]string{
			"plain": doc, "JSON": string(quoted), "JSON in JSON": string(twice), "query": url.QueryEscape(doc),
			"path": url.PathEscape(doc), "all percent": codes,
			"base64":         base64.StdEncoding.EncodeToString([]byte(doc)),
			"base64 raw":     base64.RawStdEncoding.EncodeToString([]byte(doc)),
			"base64 url":     base64.URLEncoding.EncodeToString([]byte(doc)),
			"base64 url raw": base64.RawURLEncoding.EncodeToString([]byte(doc)),
			"hex":            hex.EncodeToString([]byte(doc)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(doc))),
		} {
			got := m.Text(text)
			for _, decode := range []func(string) string{
				func(s string) string { return s },
				func(s string) string { u, _ := url.QueryUnescape(s); return u },
				func(s string) string { u, _ := url.PathUnescape(s); return u },
				func(s string) string { var u string; _ = json.Unmarshal([]byte(s), &u); return u },
				func(s string) string {
					b, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
					return string(b)
				},
				func(s string) string {
					b, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
					return string(b)
				},
				func(s string) string { b, _ := hex.DecodeString(s); return string(b) },
			} {
				if strings.Contains(decode(got), v) {
					t.Fatalf("%s: %q is in %q, of %q", name, v, got, text)
				}
			}
			if got == text {
				t.Fatalf("%s: %q is as it was", name, text)
			}
			if strings.HasPrefix(name, "base64") && len(before) > 2 && len(after) > 2 {
				if _, err := base64.RawStdEncoding.DecodeString(
					strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(got, "="))); err != nil {
					t.Fatalf("%s: %q can't be decoded any more: %v", name, got, err)
				}
			}
		}
	})
}

// JSON stays valid, and none of the values remains in its strings.
func FuzzJSON(f *testing.F) {
	m := of("12345678", `q"q"q"q"`, "ññññññññ", "a/b/c/d/e")
	f.Add([]byte(`{"a":12345678,"b":"q\"q\"q\"q\""}`))
	f.Add([]byte(`["\u00f1ñññññññ",{"12345678":[]}]`))
	f.Add([]byte(`["\u12345678","x\\u0031\u0032345678","a\/b\/c/d\/e"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := m.MaskJSON(data)
		if json.Valid(data) && !json.Valid(got) {
			t.Errorf("%q became %q", data, got)
		}
		if bytes.Contains(got, []byte("12345678")) {
			t.Errorf("a value is in %q, of %q", got, data)
		}
		if bytes.Equal(data, got) && json.Valid(data) {
			var s string
			if json.Unmarshal(data, &s) == nil &&
				(strings.Contains(s, "a/b/c/d/e") || strings.Contains(s, "ññññññññ")) {
				t.Errorf("a value is in %q", got)
			}
		}
	})
}

func TestParts(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE " +
		"KEY-----\n"
	m := of("Bearer tok-4711", "Basic "+base64.StdEncoding.EncodeToString([]byte("ann:s3same")),
		"postgres://ann:pa55word@db.example.com/x", pem)
	for _, s := range []string{"it is tok-4711", "s3same", "password pa55word", "line MIIEvQIBADANBgkqhkiG9w0B",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("bob:s3same"))} {
		if got := m.Text(s); got == s {
			t.Errorf("%s stays", s)
		}
	}
	for _, s := range []string{"-----BEGIN PRIVATE KEY-----", "ann", "db.example.com"} {
		if got := m.Text(s); got != s {
			t.Errorf("%s is masked", s)
		}
	}
}

// The oldest of the recent values are dropped. Values that never change stay masked.
func TestRecent(t *testing.T) {
	m := of("always-here")
	for i := range 600 {
		m.AddRecent(fmt.Sprintf("token-%04d", i))
	}
	if got := m.Text("always-here token-0000 token-0599"); got != "[redacted] token-0000 [redacted]" {
		t.Errorf("Text(%q) = %q, want %q", "always-here token-0000 token-0599", got, "[redacted] token-0000 [redacted]")
	}
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name, value        string
		literal, ofVarible bool
	}{
		{"GITHUB_TOKEN", "production", true, true},
		{"DB_PASSWORD", "correcthorse", true, true},
		{"DB_PASSWORD", "sesame", true, true},
		{"UPTOK", "hunter2-value", true, true},
		{"TOK", "s3cr3t", true, true},
		{"TOKEN", "short", false, false},
		{"PIN", "123456", false, false},
		{"PIN", "12345678", true, true},
		{"STRIPE", "rk-9f27Aq01", true, true},
		{"THING", "northwind", false, true},
		{"THING", "hunter2-value", false, true},
		{"GREETING", "Say hello to all users", false, true},
		{"HOOK", "https://hooks.example.com/services/T0/B1/xY9zA8bC7dE6", true, true},
		{"API_URL", "https://ann:pa55word@api.example.com/", false, true},
		{"API", "https://api.example.com/v1/", false, false},
		{"HOME", "/home/ann/data", false, false},
		{"KEY_FILE", "/home/ann/.ssh/id_ed25519", false, false},
		{"STAGE", "production", false, false},
		{"REGION", "eu-central-1", false, false},
		{"HOST", "db.internal.example.com:5432", false, false},
		{"SERVER", "db.internal.example.com:5432", false, false},
		{"PACKAGE", "@modelcontextprotocol/server-filesystem@2025.1.0", false, false},
		{"MAIL", "ann@example.com", false, false},
		{"VERBOSE", "true", false, false},
		{"PORT", "8080", false, false},
		{"OPTIONS", "atexit_sleep_ms=0", false, true},
		{"AUTH_TYPE", "oauth2-device", false, false},
		{"ACCOUNT_ID", "acme-corp-main", false, false},
		{"User-Agent", "Mozilla/5.0 something", false, false},
		{"Authorization", "Bearer abc", true, true},
	} {
		if got := mask.IsSecret(tt.name, tt.value); got != tt.literal {
			t.Errorf("literal %s=%s: %t", tt.name, tt.value, got)
		}
		if got := mask.IsSecretVariable(tt.name, tt.value); got != tt.ofVarible {
			t.Errorf("variable %s=%s: %t", tt.name, tt.value, got)
		}
	}
}

func TestHandler(t *testing.T) {
	var out bytes.Buffer
	m := of("hush-hush", `two "words"`)
	log := slog.New(m.Handler(slog.NewJSONHandler(&out, nil))).With("with", "hush-hush").WithGroup("g")
	log.Info("it is hush-hush", "err", errors.New("no hush-hush"), "list", []string{"hush-hush"},
		slog.Group("in", "a", `two "words"`), "n", 12, "b", []byte("fine"))
	if s := out.String(); strings.Contains(s, "hush") || strings.Contains(s, "words") ||
		strings.Count(s, "[redacted]") != 5 || !strings.Contains(s, `"n":12`) {
		t.Errorf("s = %v", s)
	}
}

func BenchmarkJSON(b *testing.B) {
	row := `{"id":12,"name":"a name of a thing","tags":["one","two"],"text":"{\"nested\":\"value\"}"},`
	large := []byte(`{"items":[` + strings.Repeat(row, 1<<20/len(row)) + `{}]}`)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 10, 100} {
		m := mask.New(mask.Shape{Prefix: "bp_", Length: 65})
		for range n {
			var v [24]byte
			for i := range v {
				v[i] = byte('a' + r.IntN(26))
			}
			m.Add("sk-" + string(v[:]))
		}
		for name, data := range map[string][]byte{"1MB": large, "1kB": large[:1<<10],
			"escapes": bytes.ReplaceAll(large, []byte("thing"), []byte(`th\u0069ng`))} {
			b.Run(fmt.Sprintf("%d values/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					m.MaskJSON(data)
				}
			})
		}
	}
}

// A value is found in base64 that is broken into lines, however the breaks are written, and JSON
// stays valid.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`[!-~]{8,60}`).Draw(t, "value")
		m := of(v)
		doc := rapid.StringMatching(`[a-z: ]{0,90}`).Draw(t, "before") + v +
			rapid.StringMatching(`[a-z: ]{0,90}`).Draw(t, "after")
		code := base64.StdEncoding.EncodeToString([]byte(doc))
		width := rapid.SampledFrom([]int{16, 60, 64, 72, 76}).Draw(t, "width")
		eol := rapid.SampledFrom([]string{"\n", "\r\n", "\n    ", "\r\n\t"}).Draw(t, "end of line")
		var lines []string
		for ; len(code) > width; code = code[width:] {
			lines = append(lines, code[:width])
		}
		text := strings.Join(append(lines, code), eol)
		once, _ := json.Marshal(map[string]string{"body": text})
		twice, _ := json.Marshal(string(once))
		unwrap := func(s string) string {
			s = strings.NewReplacer("\r", "", "\n", "", "\t", "", " ", "", "[redacted]", "").Replace(s)
			for len(s)%4 != 0 {
				s += "="
			}
			b, _ := base64.StdEncoding.DecodeString(s)
			return string(b)
		}
		field := func(s string) string {
			var x struct{ Body string }
			if err := json.Unmarshal([]byte(s), &x); err != nil {
				t.Fatalf("s = %q, err = %v, want nil", s, err)
			}
			return x.Body
		}
		inner := func(s string) string {
			var x string
			if err := json.Unmarshal([]byte(s), &x); err != nil {
				t.Fatalf("s = %q, err = %v, want nil", s, err)
			}
			return x
		}
		for name, got := range map[string]string{"text": m.Text(text), "JSON": field(string(m.MaskJSON(once))),
			"JSON in JSON": field(inner(string(m.MaskJSON(twice))))} {
			if got == text || strings.Contains(unwrap(got), v) {
				t.Fatalf("%s: %q is in %q", name, v, got)
			}
		}
	})
	m := of("hush-hush-hush-hush-hush")
	for _, s := range []string{"a line of words\nand another", "C:\\new\\names", "0123456789abcdef\n",
		"0123456789abcdef\\n", "0123456789abcdefghij\nklmnopqrst\n"} {
		if got := m.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := m.Text("x\nhush-hush-hush-hush-\n  hush y"); got != "x\n[redacted] y" {
		t.Errorf(`got = %q, want "x\n[redacted] y"`, got)
	}
}

// If values overlap, or are themselves JSON, nothing of them remains in any string or number.
func TestAcrossTokens(t *testing.T) {
	m := of("hush-hush", `sh-hush","b":"silence`, "silence-please", `{"type":"account","key":"s3same-open","n":42}`,
		`"quoted-one"`)
	for _, tt := range []struct{ in, want string }{
		{`{"a":"hush-hush","b":"silence-please","c":"x"}`, `{"a":"[redacted]","[redacted]":"[redacted]","c":"x"}`},
		{`{"a":"hush-hush","b":"silence"}`, `{"a":"[redacted]","[redacted]":"[redacted]"}`},
		{`["rush-hush","b",1]`, `["rush-hush","b",1]`},
		{`{"x":{"type":"account","key":"s3same-open","n":42},"y":42}`,
			`{"x":{"[redacted]":"[redacted]","[redacted]":"[redacted]","[redacted]":"[redacted]"},"y":42}`},
		{`["quoted-one","other"]`, `["[redacted]","other"]`},
		{`["a hush-hush b","","hush-hushsilence-please"]`, `["a [redacted] b","","[redacted][redacted]"]`},
	} {
		got := string(m.MaskJSON([]byte(tt.in)))
		if got != tt.want || !json.Valid([]byte(got)) {
			t.Errorf("%s is %s, want %s", tt.in, got, tt.want)
		}
	}
}

// Held values stay masked, however many others are added, until the holder has others.
func TestHold(t *testing.T) {
	m := of("always-here")
	m.Hold("crm", "crm-token", "crm-refresh", "")
	m.Hold("erp", "erp-token")
	for i := range 600 {
		m.AddRecent(fmt.Sprintf("token-%04d", i))
	}
	if got := m.Text("always-here crm-token crm-refresh erp-token"); got != "[redacted] [redacted] [redacted] "+
		"[redacted]" {
		t.Errorf(`got = %v, want got == "[redacted] [redacted] [redacted] "+ "[redacted]"`, got)
	}
	m.Hold("crm", "crm-other")
	if got := m.Text("always-here crm-token crm-other erp-token"); got != "[redacted] crm-token [redacted] [redacted]" {
		t.Errorf("Text(%q) = %q, want %q", "always-here crm-token crm-other erp-token", got,
			"[redacted] crm-token [redacted] [redacted]")
	}
	var none *mask.Masker
	none.Hold("crm", "crm-token")
}
