package policy_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// redact returns the redacted structured content, and the same content redacted as text.
func redact(t interface{ Fatalf(string, ...any) }, paths string, structured any) string {
	doc, err := json.Marshal(structured)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	raw, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(doc)}},
		"structuredContent": json.RawMessage(doc)})
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	r, err := tool.ParseResult(raw)
	if err != nil {
		t.Fatalf("tool.ParseResult: %v", err)
	}
	return string(policy.Redact(r, strings.Split(paths, ", ")).Raw)
}

const ssn = "078-05-1120"

// TestRedactInsideStrings checks that JSON in strings is redacted too, and that anything unreadable
// is removed.
func TestRedactInsideStrings(t *testing.T) {
	doc := `{"name":"Ann","ssn":"` + ssn + `"}`
	nested := doc
	for range 5 {
		raw, _ := json.Marshal(map[string]string{"result": nested})
		nested = string(raw)
	}
	deep := doc
	for range 20 {
		raw, _ := json.Marshal([]string{deep})
		deep = string(raw[:min(len(raw), 1<<20)])
		if len(deep) > 1<<18 {
			break
		}
	}
	double, _ := json.Marshal(doc)
	for name, text := range map[string]string{
		"plain": doc, "list": "[" + doc + "]", "nested": nested, "deeper than is read": deep,
		"a string of JSON": string(double),
		"white space":      "\r\n\t " + doc + " \n", "byte order mark": "\ufeff" + doc,
		"fence":      "```json\n" + doc + "\n```",
		"bare fence": "```\n" + doc + "```",
		"lines":      doc + "\n" + doc, "lines, one broken": doc + "\n{\"ssn\":\"" + ssn,
		"escaped key":  `{"s\u0073n":"` + ssn + `"}`,
		"another case": `{"SSN":"` + ssn + `"}`, "twice": `{"ssn":1,"ssn":"` + ssn + `"}`,
		"twice, first":           `{"ssn":"` + ssn + `","ssn":1}`,
		"hidden by a second key": `{"a":` + doc + `,"a":1}`, "in a key": `{` + string(double) + `:1}`,
		"prose around": "Here you are: " + doc + ". Done.",
		"broken":       `{"ssn":"` + ssn + `",`, "comments": "{/* */ \"ssn\": \"" + ssn + "\"}",
		"Python": `{'ssn': '` + ssn + `'}`, "YAML": "name: Ann\nssn: " + ssn,
		"CSV": "name,ssn\nAnn," + ssn, "CSV, first": "ssn;name\n" + ssn + ";Ann", "XML": "<ssn>" + ssn + "</ssn>",
		"Markdown": "| name | ssn |\n|-|-|\n| Ann | " + ssn + " |",
		"URL":      "a=1&ssn=" + ssn, "percent": url.PathEscape(doc), "query": url.QueryEscape(doc),
		"entities": strings.ReplaceAll(doc, `"`, "&quot;"),
		"base64":   base64.StdEncoding.EncodeToString([]byte(doc)),
		"base64 of base64": base64.StdEncoding.EncodeToString(
			[]byte(`{"v":"` + base64.StdEncoding.EncodeToString([]byte(doc)) + `"}`)),
		"base64 of YAML": base64.StdEncoding.EncodeToString([]byte("name: Ann\nssn: " + ssn)),
		"base64 of CSV, in lines": base64.StdEncoding.EncodeToString([]byte("name,ssn\n")) + "\n" +
			base64.StdEncoding.EncodeToString([]byte("Ann,"+ssn)),
		"data URL":          "data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(doc)),
		"base64 in prose":   "the file has (" + base64.URLEncoding.EncodeToString([]byte(doc)) + ").",
		"base64 amid words": "see " + base64.RawURLEncoding.EncodeToString([]byte(doc)) + " here",
		"percent, broken":   "100% of " + url.QueryEscape(doc),
		"token":             "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(doc)) + ".c2lnbmVk",
		"escapes in prose":  `see \u007b"s\u0073n":"` + ssn + `"}`,
		"sql":               "INSERT INTO p (name, ssn) VALUES ('Ann', '" + ssn + "')",
	} {
		for shape, v := range map[string]any{"field": map[string]any{"result": text, "id": 7},
			"result": map[string]any{"result": text}, "list": []any{"a", text}, "string": text} {
			got := redact(t, "**.ssn", v)
			if strings.Contains(got, ssn) || strings.HasPrefix(name, "base64") && !strings.Contains(got, "[redacted") ||
				strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(doc))[:20]) {
				t.Errorf("%s, shape = %s, got = %s, want !strings.Contains(got, ssn) && "+
					"!strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(doc))[:20])",
					name, shape, got)
			}
		}
	}
}

// TestRedactKeepsTheRest checks that texts without the fields are kept, as is everything around the
// fields.
func TestRedactKeepsTheRest(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"result":"{\"ssn\":\"1\",\"n\":12345678901234567890}"}`,
			`{"result":"{\"n\":12345678901234567890,\"ssn\":\"[redacted]\"}"}`},
		// the form in which frameworks wrap results
		{`{"result":{"customer":{"ssn":"1","n":2}}}`, `{"result":{"customer":{"n":2,"ssn":"[redacted]"}}}`},
		{`{"a":"{\"customer\":{\"ssn\":1}}\n{\"n\":1.0}"}`,
			`{"a":"{\"customer\":{\"ssn\":\"[redacted]\"}}\n{\"n\":1.0}"}`},
		{`{"a":"The ssn was checked [twice], 100% sure & done","b":"{name}","c":"YWJjZGVmZ2hpag==",` +
			`"d":"C:\\users\\ann"}`,
			`{"a":"The ssn was checked [twice], 100% sure & done","b":"{name}","c":"YWJjZGVmZ2hpag==",` +
				`"d":"C:\\users\\ann"}`},
	} {
		r, err := tool.ParseResult(json.RawMessage(`{"content":[],"structuredContent":` + c.in + `}`))
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		if got := string(policy.Redact(r, []string{"customer.ssn", "ssn"}).Structured); got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.in, got, c.want)
		}
	}
}

// TestNoSecretIsLeftInStrings checks that the field is removed however documents are nested in
// strings of documents.
func TestNoSecretIsLeftInStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{`"key"`, `"KEY"`, `"k\u0065y"`}).Draw(t, "key")
		text := fmt.Sprintf(`{%s:"SECRET","n":1}`, key)
		for range rapid.IntRange(1, 7).Draw(t, "levels") {
			raw, _ := json.Marshal(text)
			text = fmt.Sprintf(rapid.SampledFrom([]string{`{"a":%s}`, "[%s, 1]", " {\"b\":{\"c\":[%s]}}\n",
				"{\"a\":%s}\n{\"a\":2}", "```json\n[%s]\n```", "\ufeff[%s]", "so: [%s]", "%s"}).Draw(t, "shape"), raw)
		}
		if got := redact(t, "**.key", map[string]any{"result": text}); strings.Contains(got, "SECRET") {
			t.Fatalf("%s became %s", text, got)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	row, _ := json.Marshal(`{"name":"Ann","ssn":"078-05-1120","note":"a note of some length, as they are"}`)
	raw := `{"content":[],"structuredContent":{"rows":[` +
		strings.TrimSuffix(strings.Repeat(string(row)+",", 10000), ",") + `]}}`
	r, err := tool.ParseResult(json.RawMessage(raw))
	if err != nil {
		b.Fatalf("tool.ParseResult: %v", err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		policy.Redact(r, []string{"**.ssn"})
	}
}
