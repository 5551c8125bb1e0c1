package retention_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// keptOf returns what is kept of arguments under a retention, and their payload.
func keptOf(t *testing.T, r retention.Policy, args string) (kept string, p retention.Payload) {
	t.Helper()
	l := audit.New(audit.Config{Store: audittest.NewMemory(), Retention: r})
	e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b", Arguments: []byte(args)}, audit.Decision{Effect: "allow"})
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	record, err := l.Record(t.Context(), e.Record())
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	b, err := l.Kept(t.Context(), record.Seq, record.Arguments.Kept)
	if err != nil {
		t.Fatalf("Kept: %v", err)
	}
	if report, err := l.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("report = %+v, err = %v, want err == nil && report.OK()", report, err)
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
		{`"` + strings.Repeat("x", retention.KeptBytes) + `"`, ``},
	} {
		got, p := keptOf(t, retention.Policy{Secrets: []string{"x_tenant"}}, tt.args)
		if got != tt.want {
			t.Errorf("%.200s is kept as %.200s, want %.200s", tt.args, got, tt.want)
		}
		if p.Size != int64(len(tt.args)) || !strings.HasPrefix(p.Digest, "hmac-sha256:") ||
			(p.Kept == p.Digest) != (tt.want == tt.args) || (p.Kept == "") != (tt.want == "") {
			t.Errorf("tt.args = %.200s, p = %+v", tt.args, p)
		}
	}
}

// Values that the configuration read from the environment are never kept.
func TestHiddenValuesAreNotKept(t *testing.T) {
	values := []string{`s3cr"t<val>`, "wörd-wörd", "12345678", "short"}
	for _, keep := range []retention.Keep{retention.KeepRedacted, retention.KeepFull} {
		for _, tt := range []struct{ args, want string }{
			{`{"a":"x s3cr\"t<val> y","b":"short"}`, `{"a":"x [redacted] y","b":"short"}`},
			{`{"a":"s3cr\"t\u003cval\u003e","w\u00f6rd-w\u00f6rd":1}`, `{"a":"[redacted]","[redacted]":1}`},
			{`{"n":123456789,"m":1234567}`, `{"n":"[redacted]","m":1234567}`},
			{`{"text":"{\"in\":\"s3cr\\\"t<val>\"}"}`, `{"text":"{\"in\":\"[redacted]\"}"}`},
			{`{"url":"/x?y=s3cr%22t%3Cval%3E"}`, `{"url":"/x?y=[redacted]"}`},
			{`{"none":"\u00e9"}`,
				map[retention.Keep]string{retention.KeepFull: `{"none":"\u00e9"}`,
					retention.KeepRedacted: `{"none":"é"}`}[keep]},
		} {
			got, _ := keptOf(t, retention.Policy{Arguments: keep, Mask: masker(values...)}, tt.args)
			if got != tt.want {
				t.Errorf("%s: %s is kept as %s, want %s", keep, tt.args, got, tt.want)
			}
		}
	}
	// Not even a part of one remains at the point where the data is cut.
	for at := range 12 {
		args := `"` + strings.Repeat("s3cr\\\"t<val>", 9) + strings.Repeat("x", retention.KeptBytes-120-at) +
			strings.Repeat("12345678", 20) + `"`
		if got, _ := keptOf(t, retention.Policy{Arguments: retention.KeepFull, Mask: masker(values...)},
			args); strings.Contains(got, "1234") || strings.Contains(got, "s3cr") || len(got) > retention.KeptBytes {
			t.Fatalf("a part of a value is kept: %q", got[len(got)-40:])
		}
	}
}

func TestRetention(t *testing.T) {
	const args = `{"password":"x"}`
	for keep, want := range map[retention.Keep]string{retention.KeepFull: args,
		retention.KeepRedacted: `{"password":"[redacted]"}`,
		retention.KeepDigest:   "", retention.KeepNone: "", "": `{"password":"[redacted]"}`} {
		if got, p := keptOf(t, retention.Policy{Arguments: keep}, args); got != want || p.Digest == "" ||
			p.Size != int64(len(args)) {
			t.Errorf("%q keeps %q, %+v", keep, got, p)
		}
	}
	long := strings.Repeat("x", retention.KeptBytes+1)
	if got, p := keptOf(t, retention.Policy{Arguments: retention.KeepFull}, long); len(got) != retention.KeptBytes ||
		p.Kept == p.Digest || p.Size != int64(len(long)) {
		t.Errorf("of %d bytes %d are kept: %+v", len(long), len(got), p)
	}
}

// Results and error texts are kept as retention says, and are never in a leaf.
func TestEndsAreKept(t *testing.T) {
	for _, tt := range []struct {
		results       retention.Keep
		result, error string
	}{{retention.KeepFull, `{"content":[{"type":"text","text":"the answer"}]}`, "no such thing"},
		{retention.KeepDigest, "", "no such thing"}, {retention.KeepNone, "", ""}} {
		l := audit.New(audit.Config{Store: audittest.NewMemory(), Retention: retention.Policy{Results: tt.results}})
		var ids []string
		for _, fail := range []bool{false, true} {
			e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, audit.Decision{Effect: "allow"})
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			if fail {
				err = e.End(t.Context(), nil, tool.Errorf(tool.NotFound, "no such thing"))
			} else {
				err = e.End(t.Context(), tool.Text(false, "the answer"), nil)
			}
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
			ids = append(ids, e.Record())
		}
		for i, want := range []string{tt.result, tt.error} {
			r, err := l.Record(t.Context(), ids[i])
			if err != nil {
				t.Fatalf("Record: %v", err)
			}
			p := []retention.Payload{r.End.Result, r.End.Error}[i]
			if got, err := l.Kept(t.Context(), r.End.Seq, p.Kept); err != nil || string(got) != want || p.Digest == "" {
				t.Errorf("%s keeps %q, %v, want %q: %+v", tt.results, got, err, want, p)
			}
			leaves, err := l.Leaves(t.Context(), ids[i])
			if err != nil || len(leaves) != 2 || strings.Contains(string(leaves[1].Data), "answer") ||
				strings.Contains(string(leaves[1].Data), "such") {
				t.Errorf("leaves[1].Data = %s, err = %v", leaves[1].Data, err)
			}
		}
	}
}

// The digest of a short secret can't be guessed without the key.
func TestDigestsAreKeyed(t *testing.T) {
	one, _ := secret.NewKey(make([]byte, secret.KeySize))
	again, _ := secret.NewKey(make([]byte, secret.KeySize))
	two, _ := secret.NewKey([]byte(strings.Repeat("x", secret.KeySize)))
	if retention.Digest(one, []byte("1234")) == retention.Digest(two, []byte("1234")) ||
		retention.Digest(one, []byte("1234")) != retention.Digest(again, []byte("1234")) {
		t.Error("the digests of one text differ with equal keys, or are equal with different keys")
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
		if plain, want := retention.Redact(retention.Policy{}, []byte(text)); plain && string(want) != text {
			t.Errorf("%q seems to have nothing to redact, and is %q", text, want)
		}
		keptOf(t, retention.Policy{}, text)
	})
}

// masker returns a Masker with values.
func masker(values ...string) *mask.Masker {
	m := mask.New()
	m.Add(values...)
	return m
}
