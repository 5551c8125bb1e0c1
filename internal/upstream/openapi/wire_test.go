package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// A seen is a request as the server received it.
type seen struct {
	line   string // method and request target, byte for byte
	header http.Header
	body   string
}

// recordRequests returns a server that sends each request to the channel and answers with answer.
func recordRequests(t *testing.T, answer http.HandlerFunc) (*httptest.Server, chan seen) {
	got := make(chan seen, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method + " " + r.RequestURI, r.Header, string(b)}
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	t.Cleanup(s.Close)
	return s, got
}

// writeSpec writes a document with one server into a folder of its own.
func writeSpec(t testing.TB, server, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "api.yaml")
	text = "openapi: 3.1.0\ninfo: {title: T, version: '1'}\nservers: [{url: '" + server + "'}]\n" + text
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return name
}

func start(t *testing.T, cfg openapi.Config) *upstreamtest.Running {
	t.Helper()
	cfg.Name = "api"
	r := upstreamtest.Start(t, func(t testing.TB, onChange func()) upstream.Upstream {
		cfg.OnChange = onChange
		u, err := openapi.New(cfg)
		if err != nil {
			t.Fatalf("openapi.New: %v", err)
		}
		return u
	})
	return r
}

// A result is what a program receives.
type result struct {
	Status     int
	Headers    map[string]string
	Body, Next json.RawMessage
	Retryable  *bool
	RetryAfter int `json:"retry_after"`
}

func call(t *testing.T, r *upstreamtest.Running, name, args string) (result, *tool.Result) {
	t.Helper()
	res, err := r.Do(context.Background(), name, args)
	if err != nil {
		t.Fatalf("%s, args = %s, err = %v, want nil", name, args, err)
	}
	var v result
	if err := json.Unmarshal(res.Structured, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return v, res
}

// TestParameterStyles compares every style with the table of the specification (OpenAPI 3.1, Style
// Examples).
func TestParameterStyles(t *testing.T) {
	const empty, text, list, object = `""`, `"blue"`, `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	for _, c := range []struct{ in, style, explode, value, want string }{
		{"path", "simple", "false", text, "/p/blue"},
		{"path", "simple", "false", list, "/p/blue,black,brown"},
		{"path", "simple", "false", object, "/p/R,100,G,200,B,150"},
		{"path", "simple", "true", list, "/p/blue,black,brown"},
		{"path", "simple", "true", object, "/p/R=100,G=200,B=150"},
		{"path", "label", "false", text, "/p/.blue"},
		{"path", "label", "false", list, "/p/.blue,black,brown"},
		{"path", "label", "false", object, "/p/.R,100,G,200,B,150"},
		{"path", "label", "true", list, "/p/.blue.black.brown"},
		{"path", "label", "true", object, "/p/.R=100.G=200.B=150"},
		{"path", "matrix", "false", text, "/p/;color=blue"},
		{"path", "matrix", "false", list, "/p/;color=blue,black,brown"},
		{"path", "matrix", "false", object, "/p/;color=R,100,G,200,B,150"},
		{"path", "matrix", "true", list, "/p/;color=blue;color=black;color=brown"},
		{"path", "matrix", "true", object, "/p/;R=100;G=200;B=150"},
		{"query", "form", "false", text, "/p?color=blue"},
		{"query", "form", "false", empty, "/p?color="},
		{"query", "form", "false", list, "/p?color=blue,black,brown"},
		{"query", "form", "false", object, "/p?color=R,100,G,200,B,150"},
		{"query", "form", "true", list, "/p?color=blue&color=black&color=brown"},
		{"query", "form", "true", object, "/p?R=100&G=200&B=150"},
		{"query", "spaceDelimited", "false", list, "/p?color=blue%20black%20brown"},
		{"query", "spaceDelimited", "false", object, "/p?color=R%20100%20G%20200%20B%20150"},
		{"query", "pipeDelimited", "false", list, "/p?color=blue%7Cblack%7Cbrown"},
		{"query", "pipeDelimited", "false", object, "/p?color=R%7C100%7CG%7C200%7CB%7C150"},
		{"query", "deepObject", "true", object, "/p?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
		{"path", "simple", "true", text, "/p/blue"},
		{"path", "label", "true", text, "/p/.blue"},
		{"path", "matrix", "true", text, "/p/;color=blue"},
		{"query", "form", "true", text, "/p?color=blue"},
		{"query", "form", "true", empty, "/p?color="},
		{"header", "simple", "false", text, "blue"},
		{"header", "simple", "false", list, "blue,black,brown"},
		{"header", "simple", "true", list, "blue,black,brown"},
		{"header", "simple", "false", object, "R,100,G,200,B,150"},
		{"header", "simple", "true", object, "R=100,G=200,B=150"},
		{"cookie", "form", "false", text, "color=blue"},
		{"cookie", "form", "false", list, "color=blue,black,brown"},
		{"cookie", "form", "false", object, "color=R,100,G,200,B,150"},
		{"cookie", "form", "true", text, "color=blue"},
	} {
		t.Run(strings.Join([]string{c.in, c.style, c.explode, c.value}, " "), func(t *testing.T) {
			server, got := recordRequests(t, nil)
			path := "/p"
			if c.in == "path" {
				path = "/p/{color}"
			}
			r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, fmt.Sprintf(
				"paths: {'%s': {get: {operationId: op, parameters: [{name: color, in: %s, style: %s, explode: %s, "+
					"required: true, schema: {}}]}}}", path, c.in, c.style, c.explode))})
			call(t, r, "op", `{"color":`+c.value+`}`)
			s := <-got
			have := map[string]string{"path": s.line, "query": s.line, "header": "GET " + s.header.Get("color"),
				"cookie": "GET " + s.header.Get("Cookie")}[c.in]
			if have != "GET "+c.want {
				t.Errorf("the server received %q, want %q", have, "GET "+c.want)
			}
		})
	}
}

func TestEscapes(t *testing.T) {
	server, got := recordRequests(t, nil)
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, `
paths:
  /p/{id}:
    get:
      operationId: op
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: q, in: query, schema: {type: string}}
        - {name: free, in: query, allowReserved: true, schema: {type: string}}
        - {name: filter, in: query, content: {application/json: {schema: {type: object}}}}
`)})
	call(t, r, "op", `{"id":"a/b?c#d","q":"x&y=z é","free":"a/b:c&d","filter":{"n":12345678901234567890}}`)
	want := "GET /p/a%2Fb%3Fc%23d?q=x%26y%3Dz%20%C3%A9&free=a/b:c%26d&filter=%7B%22n%22%3A12345678901234567890%7D"
	if s := <-got; s.line != want {
		t.Errorf("the server received %s, want %s", s.line, want)
	}
	for _, id := range []string{`".."`, `"."`, `""`} {
		if _, err := r.Do(t.Context(), "op", `{"id":`+id+`}`); tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("id %s: got %v, want kind invalid", id, err)
		}
	}
}

const bodies = `
paths:
  /json:  {post: {operationId: json, requestBody: {content: {application/json: {schema: {type: object}}}}}}
  /form:  {post: {operationId: form,
        requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object}}}}}}
  /parts: {post: {operationId: parts, requestBody: {content: {multipart/form-data: {schema: {type: object,
        properties: {file: {type: string, format: binary}}}}}}}}
  /text:  {post: {operationId: text, requestBody: {content: {text/plain: {schema: {type: string}}}}}}
  /bytes: {post: {operationId: bytes, requestBody: {content: {application/octet-stream: {}}}}}
  /two:   {post: {operationId: two, requestBody: {content: {text/plain: {schema: {type: string}},
        application/json: {schema: {type: object}}}}}}
`

func TestBodies(t *testing.T) {
	server, got := recordRequests(t, nil)
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, bodies)})
	for _, c := range []struct{ name, args, typ, body string }{
		{"json", `{"body":{"n":12345678901234567890,"s":"é<"}}`, "application/json",
			`{"n":12345678901234567890,"s":"é<"}`},
		{"form", `{"body":{"a":"x y","b":[1,2],"c":{"d":true}}}`, "application/x-www-form-urlencoded",
			"a=x%20y&b=1&b=2&c=%7B%22d%22%3Atrue%7D"},
		{"text", `{"body":"hello"}`, "text/plain", "hello"},
		{"bytes", `{"body":{"base64":"AAH/"}}`, "application/octet-stream", "\x00\x01\xff"},
		{"two", `{"body":{"a":1}}`, "application/json", `{"a":1}`},
		{"two", `{"body":"t","content_type":"text/plain"}`, "text/plain", "t"},
	} {
		call(t, r, c.name, c.args)
		if s := <-got; s.header.Get("Content-Type") != c.typ || s.body != c.body {
			t.Errorf("%s %s: the server received %s %q, want %s %q", c.name, c.args, s.header.Get("Content-Type"),
				s.body,
				c.typ, c.body)
		}
	}
	call(t, r, "parts",
		`{"body":{"note":"n","file":{"base64":"AAH/","filename":"a.bin"},"meta":{"x":1},"l":["1","2"]}}`)
	s := <-got
	_, params, err := mime.ParseMediaType(s.header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("mime.ParseMediaType: %v", err)
	}
	var parts []string
	for m := multipart.NewReader(strings.NewReader(s.body), params["boundary"]); ; {
		p, err := m.NextPart()
		if err != nil {
			break
		}
		b, _ := io.ReadAll(p)
		parts = append(parts, fmt.Sprintf("%s|%s|%s|%q", p.FormName(), p.FileName(), p.Header.Get("Content-Type"), b))
	}
	want := `note|||"n" file|a.bin|application/octet-stream|"\x00\x01\xff" ` +
		`meta||application/json|"{\"x\":1}" l|||"1" l|||"2"`
	if have := strings.Join(parts, " "); have != want {
		t.Errorf("the parts are %s, want %s", have, want)
	}
}

// TestEncodings checks the fields of forms for which the document says how they are encoded.
func TestEncodings(t *testing.T) {
	server, got := recordRequests(t, nil)
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, `
paths:
  /form: {post: {operationId: form, requestBody: {content: {application/x-www-form-urlencoded: {
        schema: {type: object}, encoding: {a: {style: form, explode: false}, b: {style: spaceDelimited},
        c: {style: deepObject}, d: {contentType: application/json}}}}}}}
  /parts: {post: {operationId: parts, requestBody: {content: {multipart/form-data: {schema: {type: object},
        encoding: {x: {contentType: text/csv}}}}}}}
`)})
	call(t, r, "form", `{"body":{"a":["1","2"],"b":["3","4"],"c":{"e":5},"d":["6"],"n":null}}`)
	if s := <-got; s.body != "a=1,2&b=3%204&c%5Be%5D=5&d=%5B%226%22%5D" {
		t.Errorf("the server received the form %q", s.body)
	}
	call(t, r, "parts", `{"body":{"x":"1;2"}}`)
	if s := <-got; !strings.Contains(s.body, "Content-Type: text/csv\r\n\r\n1;2\r\n") {
		t.Errorf("the server received the parts %q", s.body)
	}
}

// TestNegotiation checks which media types a request asks for: JSON first, then the others that the
// document has for successful answers.
func TestNegotiation(t *testing.T) {
	server, got := recordRequests(t, nil)
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, `
paths:
  /some: {get: {operationId: some, responses: {'200': {content: {text/csv: {}, application/json: {}}},
        '404': {content: {text/html: {}}}}}}
  /image: {get: {operationId: image, responses: {'200': {content: {image/png: {}}}}}}
  /none: {get: {operationId: none}}
`)})
	for name, want := range map[string]string{"some": "application/json, text/csv;q=0.8", "image": "image/png",
		"none": "application/json, */*;q=0.5"} {
		call(t, r, name, `{}`)
		if s := <-got; s.header.Get("Accept") != want {
			t.Errorf("%s: the server received Accept: %s, want %s", name, s.header.Get("Accept"), want)
		}
	}
}

func TestSecurity(t *testing.T) {
	server, got := recordRequests(t, nil)
	const document = `
components:
  securitySchemes:
    inHeader: {type: apiKey, in: header, name: X-Key}
    inQuery: {type: apiKey, in: query, name: key}
    inCookie: {type: apiKey, in: cookie, name: sid}
    basic: {type: http, scheme: basic}
    bearer: {type: http, scheme: bearer}
    other: {type: http, scheme: Token}
    openid: {type: openIdConnect, openIdConnectUrl: 'https://x/.well-known/openid-configuration'}
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: 'https://x/a', tokenUrl: 'https://x/t',
          scopes: {}}}}
paths:
  /h: {get: {operationId: h, security: [{inHeader: []}]}}
  /q: {get: {operationId: q, security: [{inQuery: []}]}}
  /c: {get: {operationId: c, security: [{inCookie: []}]}}
  /b: {get: {operationId: b, security: [{basic: []}]}}
  /t: {get: {operationId: t, security: [{bearer: []}]}}
  /o: {get: {operationId: o, security: [{oauth: []}]}}
  /x: {get: {operationId: x, security: [{other: []}]}}
  /i: {get: {operationId: i, security: [{openid: []}]}}
  /and: {get: {operationId: and, security: [{nothing: []}, {inHeader: [], inQuery: []}]}}
  /none: {get: {operationId: none, security: []}}
`
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, document), Auth: map[string]openapi.Credential{
		"inHeader": {Value: "key-in-header"}, "inQuery": {Value: "key in query"}, "inCookie": {Value: "key-in-cookie"},
		"basic": {Username: "ann", Password: "pass-word"}, "bearer": {Value: "token-1234"},
		"oauth": {Value: "token-5678"}, "other": {Value: "token-9"}, "openid": {Value: "token-10"},
	}})
	for _, c := range []struct{ name, want string }{
		{"h", "GET /h key:key-in-header cookie: auth:"},
		{"q", "GET /q?key=key%20in%20query key: cookie: auth:"},
		{"c", "GET /c key: cookie:sid=key-in-cookie auth:"},
		{"b", "GET /b key: cookie: auth:Basic YW5uOnBhc3Mtd29yZA=="},
		{"t", "GET /t key: cookie: auth:Bearer token-1234"},
		{"o", "GET /o key: cookie: auth:Bearer token-5678"},
		{"x", "GET /x key: cookie: auth:Token token-9"},
		{"i", "GET /i key: cookie: auth:Bearer token-10"},
		{"and", "GET /and?key=key%20in%20query key:key-in-header cookie: auth:"},
		{"none", "GET /none key: cookie: auth:"},
	} {
		call(t, r, c.name, `{}`)
		s := <-got
		have := fmt.Sprintf("%s key:%s cookie:%s auth:%s", s.line, s.header.Get("X-Key"), s.header.Get("Cookie"),
			s.header.Get("Authorization"))
		if have != c.want {
			t.Errorf("%s: the server received %q, want %q", c.name, have, c.want)
		}
	}
}

// TestClientCredentials checks that a token is requested once, and once more when it is refused.
func TestClientCredentials(t *testing.T) {
	tokens := 0
	server, got := recordRequests(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token":
			tokens++
			_, _ = fmt.Fprintf(w, `{"access_token":"secret-token-%d","token_type":"Bearer","expires_in":3600}`, tokens)
		case r.Header.Get("Authorization") == "Bearer secret-token-1" && r.URL.Path == "/refuse":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = fmt.Fprintf(w, `{"echo":%q}`, r.Header.Get("Authorization"))
		}
	})
	r := start(t, openapi.Config{Auth: map[string]openapi.Credential{"o": {ClientID: "me",
		ClientSecret: "very-secret"}},
		Spec: writeSpec(t, server.URL, `
components: {securitySchemes: {o: {type: oauth2, flows: {clientCredentials: {tokenUrl: '`+server.URL+`/token',
      scopes: {}}}}}}
security: [{o: [read]}]
paths: {/a: {get: {operationId: a}}, /refuse: {get: {operationId: refuse}}}
`)})
	v, _ := call(t, r, "a", `{}`)
	if strings.Contains(string(v.Body), "secret-token-1") {
		t.Errorf("the answer repeats the token: %s", v.Body)
	}
	call(t, r, "a", `{}`)
	call(t, r, "refuse", `{}`)
	var lines []string
	for range 6 {
		s := <-got
		lines = append(lines, s.line+" "+s.header.Get("Authorization")+" "+s.body)
	}
	const token = "POST /token Basic bWU6dmVyeS1zZWNyZXQ= grant_type=client_credentials&scope=read"
	want := strings.Join([]string{token, "GET /a Bearer secret-token-1 ", "GET /a Bearer secret-token-1 ",
		"GET /refuse Bearer secret-token-1 ", token, "GET /refuse Bearer secret-token-2 "}, "\n")
	if have := strings.Join(lines, "\n"); have != want {
		t.Errorf("the server received\n%s\nwant\n%s", have, want)
	}
}

func TestAnswers(t *testing.T) {
	server, _ := recordRequests(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/list":
			h.Set("Content-Type", "application/json")
			h.Set("Link", `</list?page=1>; rel="prev", </list?per=2&page=3>; rel="next"`)
			_, _ = io.WriteString(w, `[1]`)
		case "/text":
			h.Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "hi")
		case "/bytes":
			h.Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte{0, 1, 255})
		case "/image":
			h.Set("Content-Type", "image/png")
			_, _ = w.Write([]byte{1})
		case "/limited":
			h.Set("Retry-After", "7")
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"title":"Slow down","detail":"7 seconds"}`)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	r := start(t, openapi.Config{Spec: writeSpec(t, server.URL, `
paths:
  /list: {get: {operationId: list, parameters: [{name: page, in: query, schema: {type: integer}}, {name: per,
        in: query, schema: {type: integer}}]}}
  /text: {get: {operationId: text}}
  /bytes: {get: {operationId: bytes}}
  /image: {get: {operationId: image}}
  /limited: {post: {operationId: limited}}
  /broken: {get: {operationId: broken}, post: {operationId: brokenPost}}
`)})
	if v, _ := call(t, r, "list", `{"per":2}`); string(v.Body) != "[1]" || string(v.Next) != `{"page":3,"per":2}` {
		t.Errorf("list: body %s, next %s", v.Body, v.Next)
	}
	if v, _ := call(t, r, "text", `{}`); string(v.Body) != `"hi"` || v.Headers["content-type"] != "text/plain" {
		t.Errorf("text: %+v", v)
	}
	if v, _ := call(t, r, "bytes", `{}`); !strings.Contains(string(v.Body), `"base64":"AAH/"`) {
		t.Errorf("bytes: %s", v.Body)
	}
	if _, res := call(t, r, "image", `{}`); !strings.Contains(string(res.Raw),
		`{"type":"image","data":"AQ==","mimeType":"image/png"}`) {
		t.Errorf("image: %s", res.Raw)
	}
	v, res := call(t, r, "limited", `{}`)
	if !res.IsError || v.Status != 429 || v.Retryable == nil || !*v.Retryable || v.RetryAfter != 7 ||
		v.Headers["x-ratelimit-remaining"] != "0" || !strings.Contains(string(res.Raw),
		"Slow down: 7 seconds; retry after 7 s") {
		t.Errorf("limited: %s", res.Raw)
	}
	if v, _ := call(t, r, "broken", `{}`); v.Retryable == nil || !*v.Retryable {
		t.Errorf("a GET that failed with 502 may be retried: %+v", v)
	}
	if v, _ := call(t, r, "brokenPost", `{}`); v.Retryable == nil || *v.Retryable {
		t.Errorf("a POST that failed with 502 may have had its effect: %+v", v)
	}
}
