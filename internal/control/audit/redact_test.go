package audit_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// keptOf returns what is kept of arguments under a retention, and their payload.
func keptOf(t *testing.T, r audit.Retention, args string) (kept string, p audit.Payload) {
	t.Helper()
	l := audit.New(audit.Config{Retention: r})
	e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b", Arguments: []byte(args)}, allow)
	if err != nil {
		t.Fatal(err)
	}
	record, err := l.Record(t.Context(), e.Record())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Kept(t.Context(), record.Seq, record.Arguments.Kept)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := l.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
	return string(b), record.Arguments
}

func TestRedacted(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`{}`, `{}`},
		{`{"a": 9007199254740993, "b":[1.50,true,null,"<é💥>"]}`, `{"a":9007199254740993,"b":[1.50,true,null,"<é💥>"]}`},
		{`{"password":"x","PassWord":"x","db_password":"x","user":"ann"}`,
			`{"password":"[redacted]","PassWord":"[redacted]","db_password":"[redacted]","user":"ann"}`},
		{`{"auth":{"Authorization":{"deep":["x"]}},"api-key":["x"]}`,
			`{"auth":{"Authorization":"[redacted]"},"api-key":"[redacted]"}`},
		{`{"max_tokens":100,"tokens":5,"next_page_token":"x","token":null,"pin":1234,"opinion":"yes"}`,
			`{"max_tokens":100,"tokens":5,"next_page_token":"[redacted]","token":null,"pin":"[redacted]",` +
				`"opinion":"yes"}`},
		{`{"X-Tenant":"x","tenant":"y"}`, `{"X-Tenant":"[redacted]","tenant":"y"}`},
		{`{"text":"{\"secret\":\"x\",\"n\":1}"}`, `{"text":"{\"secret\":\"[redacted]\",\"n\":1}"}`},
		{`{"header":"Bearer abcdefgh.12345678"}`, `{"header":"[redacted]"}`},
		{`{"code":"fetch('https://ann:hunter2@example.com/x')"}`, `{"code":"fetch('https[redacted]example.com/x')"}`},
		{`{"env":"GH=ghp_0123456789012345678901234567890123456"}`, `{"env":"GH=[redacted]"}`},
		{`{"pem":"a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b"}`,
			`{"pem":"a [redacted] b"}`},
		{`{"url":"https://x.org/a?page=2&token=hunter22&n=1#access_token=abc"}`,
			`{"url":"https://x.org/a?page=2&token=[redacted]&n=1#access_token=[redacted]"}`},
		{`{"url":"https://x.org/a?api_key=k1&X-Amz-Signature=9f&key=AB&monkey=1&max_tokens=7"}`,
			`{"url":"https://x.org/a?api_key=[redacted]&X-Amz-Signature=[redacted]&key=[redacted]&monkey=1&max_tokens=7"}`},
		{`{"body":"client_secret=abc&grant_type=x"}`, `{"body":"client_secret=[redacted]&grant_type=x"}`},
		{`{"text":"{'user': 'ann', 'password': 'it\\'s', 'api_key': \"k\", 'n': 1}"}`,
			`{"text":"{'user': 'ann', 'password': '[redacted]', 'api_key': '[redacted]', 'n': 1}"}`},
		{`{"text":"don't: it's a token, and a = b; passwords are 'long'"}`,
			`{"text":"don't: it's a token, and a = b; passwords are 'long'"}`},
		{`no JSON`, ``},
		{`{"a":1} {"b":2}`, ``},
		{strings.Repeat("[", 300) + strings.Repeat("]", 300), ``},
		{`"` + strings.Repeat("x", audit.KeptBytes) + `"`, ``},
	} {
		got, p := keptOf(t, audit.Retention{Secrets: []string{"x_tenant"}}, tt.args)
		if got != tt.want {
			t.Errorf("%.200s is kept as %.200s, want %.200s", tt.args, got, tt.want)
		}
		if p.Size != int64(len(tt.args)) || !strings.HasPrefix(p.Digest, "hmac-sha256:") ||
			(p.Kept == p.Digest) != (tt.want == tt.args) || (p.Kept == "") != (tt.want == "") {
			t.Errorf("%.200s: %+v", tt.args, p)
		}
	}
}

// Values that the configuration read from the environment are never kept.
func TestHiddenValuesAreNotKept(t *testing.T) {
	values := []string{`s3cr"t<val>`, "wörd-wörd", "12345678", "short"}
	for _, keep := range []audit.Keep{audit.KeepRedacted, audit.KeepFull} {
		for _, tt := range []struct{ args, want string }{
			{`{"a":"x s3cr\"t<val> y","b":"short"}`, `{"a":"x [redacted] y","b":"short"}`},
			{`{"a":"s3cr\"t\u003cval\u003e","w\u00f6rd-w\u00f6rd":1}`, `{"a":"[redacted]","[redacted]":1}`},
			{`{"n":123456789,"m":1234567}`, `{"n":"[redacted]","m":1234567}`},
			{`{"text":"{\"in\":\"s3cr\\\"t<val>\"}"}`, `{"text":"{\"in\":\"[redacted]\"}"}`},
			{`{"url":"/x?y=s3cr%22t%3Cval%3E"}`, `{"url":"/x?y=[redacted]"}`},
			{`{"none":"\u00e9"}`,
				map[audit.Keep]string{audit.KeepFull: `{"none":"\u00e9"}`, audit.KeepRedacted: `{"none":"é"}`}[keep]},
		} {
			if got, _ := keptOf(t, audit.Retention{Arguments: keep, Mask: masker(values...)}, tt.args); got != tt.want {
				t.Errorf("%s: %s is kept as %s, want %s", keep, tt.args, got, tt.want)
			}
		}
	}
	// Not even a part of one remains at the point where the data is cut.
	for at := range 12 {
		args := `"` + strings.Repeat("s3cr\\\"t<val>", 9) + strings.Repeat("x", audit.KeptBytes-120-at) +
			strings.Repeat("12345678", 20) + `"`
		if got, _ := keptOf(t, audit.Retention{Arguments: audit.KeepFull, Mask: masker(values...)},
			args); strings.Contains(got, "1234") || strings.Contains(got, "s3cr") || len(got) > audit.KeptBytes {
			t.Fatalf("a part of a value is kept: %q", got[len(got)-40:])
		}
	}
}

func TestRetention(t *testing.T) {
	const args = `{"password":"x"}`
	for keep, want := range map[audit.Keep]string{audit.KeepFull: args, audit.KeepRedacted: `{"password":"[redacted]"}`,
		audit.KeepDigest: "", audit.KeepNone: "", "": `{"password":"[redacted]"}`} {
		if got, p := keptOf(t, audit.Retention{Arguments: keep}, args); got != want || p.Digest == "" ||
			p.Size != int64(len(args)) {
			t.Errorf("%q keeps %q, %+v", keep, got, p)
		}
	}
	long := strings.Repeat("x", audit.KeptBytes+1)
	if got, p := keptOf(t, audit.Retention{Arguments: audit.KeepFull}, long); len(got) != audit.KeptBytes ||
		p.Kept == p.Digest || p.Size != int64(len(long)) {
		t.Errorf("of %d bytes %d are kept: %+v", len(long), len(got), p)
	}
}

// Results and error texts are kept as retention says, and are never in a leaf.
func TestEndsAreKept(t *testing.T) {
	for _, tt := range []struct {
		results       audit.Keep
		result, error string
	}{{audit.KeepFull, `{"content":[{"type":"text","text":"the answer"}]}`, "no such thing"},
		{audit.KeepDigest, "", "no such thing"}, {audit.KeepNone, "", ""}} {
		l := audit.New(audit.Config{Retention: audit.Retention{Results: tt.results}})
		var ids []string
		for _, fail := range []bool{false, true} {
			e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, allow)
			if err != nil {
				t.Fatal(err)
			}
			if fail {
				err = e.End(t.Context(), nil, tool.Errorf(tool.NotFound, "no such thing"))
			} else {
				err = e.End(t.Context(), tool.Text(false, "the answer"), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.Record())
		}
		for i, want := range []string{tt.result, tt.error} {
			r, err := l.Record(t.Context(), ids[i])
			if err != nil {
				t.Fatal(err)
			}
			p := []audit.Payload{r.End.Result, r.End.Error}[i]
			if got, err := l.Kept(t.Context(), r.End.Seq, p.Kept); err != nil || string(got) != want || p.Digest == "" {
				t.Errorf("%s keeps %q, %v, want %q: %+v", tt.results, got, err, want, p)
			}
			leaves, err := l.Leaves(t.Context(), ids[i])
			if err != nil || len(leaves) != 2 || strings.Contains(string(leaves[1].Data), "answer") ||
				strings.Contains(string(leaves[1].Data), "such") {
				t.Errorf("%s, %v", leaves[1].Data, err)
			}
		}
	}
}

// The digest of a short secret can't be guessed without the key.
func TestDigestsAreKeyed(t *testing.T) {
	one, _ := secret.NewKey(make([]byte, secret.KeySize))
	again, _ := secret.NewKey(make([]byte, secret.KeySize))
	two, _ := secret.NewKey([]byte(strings.Repeat("x", secret.KeySize)))
	if audit.Digest(one, []byte("1234")) == audit.Digest(two, []byte("1234")) ||
		audit.Digest(one, []byte("1234")) != audit.Digest(again, []byte("1234")) {
		t.Error("digests are not those of a key")
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"password":"x","a":[1,{"b":"{\"c\":1}"}]}`)
	for _, s := range []string{"Bearer abcdefgh", "bAsIc  abcdefgh", "a eyJhbGciOi.x.y", "://a:b@",
		"sk-0123456789abcdef", "AKIA0123456789ABCDEF", "ghp_01234567890123456789", "-----BEGIN PRIVATE KEY-----",
		"[1]", "call 1"} {
		f.Add(`{"a":"` + s + `"}`)
		f.Add(`["` + s + `x",{"` + s + `":1}]`)
		f.Add(`"` + s + `"`)
		f.Add(`{"code":"a(\"` + s + `\")\n\t\\` + s + `"}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if plain, want := audit.Redact(audit.Retention{}, []byte(text)); plain && string(want) != text {
			t.Errorf("%q seems to have nothing to redact, and is %q", text, want)
		}
		keptOf(t, audit.Retention{}, text)
	})
}

func FuzzEncode(f *testing.F) {
	f.Add("crm.update", int64(7))
	f.Add("", int64(0))
	f.Add("\"\\<>\u2028é\x7f\n", int64(-1)<<53)
	f.Add("x", int64(1)<<60)
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if !utf8.ValidString(text) {
			t.Skip("no text of a leaf")
		}
		if ours, want := audit.Encodings(text, n); string(ours) != string(want) {
			t.Errorf("encoded as\n%s, want\n%s", ours, want)
		}
	})
}

// TestEncodingOfEachCharacter puts each ASCII character at each position of a text, because several
// are checked at once.
func TestEncodingOfEachCharacter(t *testing.T) {
	for c := range byte(utf8.RuneSelf) {
		for at := range 18 {
			text := []byte("an ordinary text ~")
			text[at] = c
			if ours, want := audit.Encodings(string(text), 7); string(ours) != string(want) {
				t.Errorf("%q is encoded as\n%s, want\n%s", text, ours, want)
			}
		}
	}
}

// masker returns a Masker with values.
func masker(values ...string) *mask.Masker {
	m := mask.New()
	m.Add(values...)
	return m
}
