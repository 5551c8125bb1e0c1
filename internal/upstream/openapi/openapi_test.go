package openapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// suite has the operations of the suite of all upstreams. The slow one is a POST: net/http sends
// a GET again when a reused connection is lost, so a GET would not fail when the server is killed.
const suite = `
paths:
  /echo: {get: {operationId: echo, parameters: [{name: i, in: query, schema: {type: integer}}]}}
  /fail: {get: {operationId: fail}}
  /slow: {post: {operationId: slow}}
`

// A suitePeer is the server of one test of the suite.
type suitePeer struct {
	server  *httptest.Server
	started chan struct{} // receives a value when a slow request is being answered
}

func (p *suitePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slow":
		select {
		case p.started <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	case "/fail":
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"i":%s}`, r.URL.Query().Get("i"))
	}
}

// TestUpstream runs the suite of all kinds of upstreams.
func TestUpstream(t *testing.T) {
	var peer *suitePeer
	upstreamtest.Run(t, upstreamtest.Peer{
		New: func(t testing.TB, onChange func()) upstream.Upstream {
			p := &suitePeer{started: make(chan struct{}, 1)}
			p.server = httptest.NewServer(p)
			t.Cleanup(func() { p.server.Close() })
			peer = p
			u, err := openapi.New(openapi.Config{Name: "api", OnChange: onChange,
				Spec: writeSpec(t, p.server.URL, suite)})
			if err != nil {
				t.Fatalf("openapi.New: %v", err)
			}
			return u
		},
		Echo: func(i int) upstreamtest.Case {
			return upstreamtest.Case{Tool: "echo", Args: fmt.Sprintf(`{"i":%d}`, i),
				Text: fmt.Sprintf(`\"body\":{\"i\":%d}`, i)}
		},
		Fails: &upstreamtest.Case{Tool: "fail", Args: `{}`},
		Slow:  &upstreamtest.Case{Tool: "slow", Args: `{}`},
		Kill: func(t testing.TB, u upstream.Upstream) {
			<-peer.started
			address := peer.server.Listener.Addr().String()
			peer.server.CloseClientConnections()
			peer.server.Close()
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatalf("net.Listen: %v", err)
			}
			peer.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: peer}}
			peer.server.Start()
		},
	})
}

// readSpec loads a document and returns the upstream when it is ready.
func readSpec(t *testing.T, text string) (*upstreamtest.Running, upstream.Snapshot) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "api.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	r := start(t, openapi.Config{Spec: name})
	return r, r.Ready(t)
}

// wantDown checks that a document is rejected with a reason.
func wantDown(t *testing.T, cfg openapi.Config, reason string) {
	t.Helper()
	r := start(t, cfg)
	defer r.Close(t)
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State != tool.Connecting })
	if s.Health.State != tool.Down || !strings.Contains(s.Health.Reason, reason) {
		t.Errorf("it is %+v, want down because of %q", s.Health, reason)
	}
}

func names(s upstream.Snapshot) string {
	var out []string
	for _, t := range s.Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

const head = "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nservers: [{url: 'https://api.example.com'}]\n"

// TestBrokenOperation checks that a broken operation costs only itself.
func TestBrokenOperation(t *testing.T) {
	_, s := readSpec(t, head+`
paths:
  /good: {get: {operationId: good}}
  /ref: {get: {operationId: ref, parameters: [{$ref: '#/components/parameters/none'}]}}
  /style: {get: {operationId: style, parameters: [{name: a, in: query, style: matrix, schema: {}}]}}
  /type: {get: {operationId: type, parameters: [{name: a, in: query, schema: {type: number1}}]}}
  /path/{id}: {get: {operationId: path}}
  /list: {get: [1]}
  /cycle: {get: {operationId: cycle, parameters: [{$ref: '#/components/parameters/a'}]}}
  /outside: {post: {operationId: outside, requestBody: {$ref: '../../../etc/passwd'}}}
  /answer: {get: {operationId: answer, responses: {'200': {$ref: '#/nothing'}}}}
components:
  parameters:
    a: {$ref: '#/components/parameters/b'}
    b: {$ref: '#/components/parameters/a'}
`)
	if got := names(s); got != "good answer request" {
		t.Errorf("the tools are %q", got)
	}
	var broken []string
	for _, b := range s.Broken {
		broken = append(broken, b.Tool+": "+b.Reason)
	}
	all := strings.Join(broken, "\n")
	for _, want := range []string{"ref: GET /ref: the reference", "style: GET /style: ", `unknown type "number1"`,
		"its path has {id}", "get_list: GET /list: the operation is not a map", "cycle",
		"leaves the document's folder"} {
		if !strings.Contains(all, want) {
			t.Errorf("no reason has %q:\n%s", want, all)
		}
	}
	if len(broken) != 7 {
		t.Errorf("%d operations are broken, want 7:\n%s", len(broken), all)
	}
}

func TestNamesAndAnnotations(t *testing.T) {
	_, s := readSpec(t, head+`
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, schema: {type: integer}}]
    get: {tags: [b], operationId: pets/get-one}
    delete: {tags: [a]}
    put: {tags: [a], operationId: twice}
    patch: {tags: [a], operationId: twice}
  /request: {post: {tags: [c], operationId: request}}
`)
	want := "delete_pets_id put_pets_id patch_pets_id pets_get-one post_request request"
	if got := names(s); got != want {
		t.Errorf("the tools are %q, want %q", got, want)
	}
	for name, hints := range map[string]string{
		"pets_get-one":   `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":true}`,
		"delete_pets_id": `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":true}`,
		"post_request":   `{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true}`,
		"request":        `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`,
	} {
		for _, x := range s.Tools {
			if got, _ := json.Marshal(x.Annotations); x.Name == name && string(got) != hints {
				t.Errorf("%s has the annotations %s, want %s", name, got, hints)
			}
		}
	}
}

func TestSchemas(t *testing.T) {
	_, s := readSpec(t, head+`
paths:
  /n:
    post:
      operationId: n
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}
      responses: {'200': {content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}}
components:
  schemas:
    Node:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, nullable: true, enum: [a, b], example: a}
        size: {type: number, minimum: 0, exclusiveMinimum: true}
        child: {$ref: '#/components/schemas/Node'}
`)
	const want = `{"type":"object","properties":{"body":{"$ref":"#/$defs/Node"}},"required":["body"],` +
		`"additionalProperties":false,"$defs":{"Node":{"type":"object","required":["name"],"properties":{` +
		`"id":{"type":"integer","readOnly":true},"name":{"type":["string","null"],"enum":["a","b",null]},` +
		`"size":{"type":"number","exclusiveMinimum":0},"child":{"$ref":"#/$defs/Node"}}}}}`
	if got := string(s.Tools[0].InputSchema); got != want {
		t.Errorf("the arguments are\n%s\nwant\n%s", got, want)
	}
	if got := string(s.Tools[0].OutputSchema); !strings.Contains(got, `"body":{"$ref":"#/$defs/Node"}`) ||
		!strings.Contains(got, `"required":["id","name"]`) {
		t.Errorf("the answer is %s", got)
	}
}

// TestSwagger loads Swagger 2.0, with a broken operation.
func TestSwagger(t *testing.T) {
	server, got := recordRequests(t, nil)
	name := filepath.Join(t.TempDir(), "swagger.json")
	text := `{"swagger":"2.0","info":{"title":"S","version":"1"},"host":"` + strings.TrimPrefix(server.URL, "http://") +
		`","basePath":"/v1","schemes":["http"],"paths":{"/a/{id}":{"get":{"operationId":"a","parameters":[` +
		`{"name":"id","in":"path","required":true,"type":"integer"},{"name":"tags","in":"query","type":"array",` +
		`"items":{"type":"string"},"collectionFormat":"multi"}],"responses":{"200":{"description":"ok"}}},` +
		`"post":{"operationId":"wrong","parameters":7,"responses":{}}},` +
		`"/null":null,"/b":{"post":{"operationId":"b","consumes":["application/json"],"parameters":[` +
		`{"name":"it","in":"body",` +
		`"schema":{"$ref":"#/definitions/B"}}],"responses":{"200":{"description":"ok"}}}}},` +
		`"definitions":{"B":{"type":"object","properties":{"x":{"type":"integer"}}}}}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	r := start(t, openapi.Config{Spec: name})
	s := r.Ready(t)
	if names(s) != "a b request" || len(s.Broken) != 2 ||
		s.Broken[1].Reason != "GET /null: the path item is not a map" ||
		!strings.HasPrefix(s.Broken[0].Reason, "POST /a/{id}: ") {
		t.Fatalf("the tools are %q, broken %v", names(s), s.Broken)
	}
	call(t, r, "a", `{"id":7,"tags":["x","y"]}`)
	if s := <-got; s.line != "GET /v1/a/7?tags=x&tags=y" {
		t.Errorf("the server received %s", s.line)
	}
	call(t, r, "b", `{"body":{"x":1}}`)
	if s := <-got; s.line != "POST /v1/b" || s.body != `{"x":1}` {
		t.Errorf("the server received %s %s", s.line, s.body)
	}
}

// TestFiles follows references to other files inside the document's folder, and to none outside.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	write("secret.yaml", "Secret: {type: string, description: top secret}\n")
	write("api/parts/common.yaml", "Pet: {type: object, properties: {owner: {$ref: '../people.yaml#/Person'}}}\n")
	write("api/people.yaml", "Person: {type: string, enum: [ann]}\n")
	if err := os.Symlink("../secret.yaml", filepath.Join(dir, "api", "link.yaml")); err != nil {
		t.Fatalf("os.Symlink: %v", err)
	}
	write("api/api.yaml", head+`
paths:
  /good: {post: {operationId: good,
        requestBody: {content: {application/json: {schema: {$ref: './parts/common.yaml#/Pet'}}}}}}
  /out: {post: {operationId: out,
        requestBody: {content: {application/json: {schema: {$ref: '../secret.yaml#/Secret'}}}}}}
  /link: {post: {operationId: link, requestBody: {content: {application/json: {schema: {$ref: 'link.yaml#/Secret'}}}}}}
`)
	r := start(t, openapi.Config{Spec: filepath.Join(dir, "api", "api.yaml")})
	s := r.Ready(t)
	if names(s) != "good request" || len(s.Broken) != 2 {
		t.Errorf("the tools are %q, broken %v", names(s), s.Broken)
	}
	if in := string(s.Tools[0].InputSchema); !strings.Contains(in, `"Person":{"type":"string","enum":["ann"]}`) {
		t.Errorf("the arguments are %s", in)
	}
}

// TestServers replaces variables, and resolves servers relative to the document.
func TestServers(t *testing.T) {
	server, got := recordRequests(t, nil)
	host := strings.TrimPrefix(server.URL, "http://")
	r := start(t, openapi.Config{Variables: map[string]string{"v": "v2"}, Spec: writeSpec(t, "http://{host}/{v}", `
x-unused: true
paths: {/a: {get: {operationId: a}}}
`)})
	r.Wait(t, "down", func(s upstream.Snapshot) bool {
		return strings.Contains(s.Health.Reason, `the server's variable "host" has no value`)
	})
	r.Close(t)
	r2 := start(t, openapi.Config{Variables: map[string]string{"v": "v2", "host": host},
		Spec: writeSpec(t, "http://{host}/{v}", "paths: {/a: {get: {operationId: a}}}\n")})
	call(t, r2, "a", `{}`)
	if s := <-got; s.line != "GET /v2/a" {
		t.Errorf("the server received %s", s.line)
	}
}

// TestForeignServer checks that a document from the network can't send credentials to another host,
// nor reach private addresses there.
func TestForeignServer(t *testing.T) {
	victim, got := recordRequests(t, nil)
	documents := http.NewServeMux()
	documents.HandleFunc("/api.yaml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(head, "https://api.example.com", victim.URL, 1)+
			"paths: {/a: {get: {operationId: a}}}\n")
	})
	documents.HandleFunc("/moved.yaml", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, victim.URL+"/api.yaml", http.StatusFound)
	})
	host := httptest.NewServer(documents)
	t.Cleanup(host.Close)
	r := start(t, openapi.Config{Spec: host.URL + "/api.yaml", Headers: map[string]string{"Authorization": "Bearer x"}})
	_, err := r.Do(t.Context(), "a", `{}`)
	if e := tool.AsError(err); e.Kind != tool.Denied || !strings.Contains(e.Msg, "set server: "+victim.URL) {
		t.Errorf("with credentials: got %v, want kind denied and advice", err)
	}
	r.Close(t)
	r = start(t, openapi.Config{Spec: host.URL + "/api.yaml"})
	_, err = r.Do(t.Context(), "a", `{}`)
	if e := tool.AsError(err); e.Kind != tool.Denied || !strings.Contains(e.Msg, "no public address") {
		t.Errorf("without credentials: got %v, want kind denied: the address is private", err)
	}
	r.Close(t)
	wantDown(t, openapi.Config{Spec: host.URL + "/moved.yaml"}, "no public address")
	if len(got) != 0 {
		t.Errorf("the other host received %v", <-got)
	}
	r = start(t, openapi.Config{Spec: host.URL + "/api.yaml", Server: victim.URL,
		Headers: map[string]string{"Authorization": "Bearer x"}})
	call(t, r, "a", `{}`)
	if s := <-got; s.header.Get("Authorization") != "Bearer x" {
		t.Errorf("the configured server received %v", s.header)
	}
}

// TestRedirects follows redirects within the origin only.
func TestRedirects(t *testing.T) {
	other, got := recordRequests(t, nil)
	server, _ := recordRequests(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, other.URL+"/stolen", http.StatusTemporaryRedirect)
		case "/in":
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	r := start(t, openapi.Config{Headers: map[string]string{"X-Key": "k"}, Spec: writeSpec(t, server.URL,
		"paths: {/out: {get: {operationId: out}}, /in: {get: {operationId: in}}}\n")})
	if v, _ := call(t, r, "out", `{}`); v.Status != 307 || v.Headers["location"] != other.URL+"/stolen" {
		t.Errorf("out: %+v", v)
	}
	if v, _ := call(t, r, "in", `{}`); v.Status != 200 {
		t.Errorf("in: %+v", v)
	}
	if len(got) != 0 {
		t.Errorf("the other server received %v", <-got)
	}
}

func TestRequest(t *testing.T) {
	server, got := recordRequests(t, nil)
	r := start(t, openapi.Config{Headers: map[string]string{"X-Key": "k"}, Spec: writeSpec(t, server.URL+"/v1",
		"paths: {/a: {get: {operationId: a}}}\n")})
	call(t, r, "request", `{"method":"POST","path":"/x/y","query":{"a":[1,2]},"headers":{"X-A":"b"},"body":{"c":1}}`)
	s := <-got
	if s.line != "POST /v1/x/y?a=1&a=2" || s.header.Get("X-A") != "b" || s.header.Get("X-Key") != "k" ||
		s.body != `{"c":1}` {
		t.Errorf("the server received %+v", s)
	}
	for _, args := range []string{
		`{"method":"GET","path":"/../admin"}`, `{"method":"GET","path":"/%2e%2e/admin"}`,
		`{"method":"GET","path":"@evil.example/"}`, `{"method":"GET","path":"https://evil.example/"}`,
		`{"method":"GET","path":"/a?b"}`, `{"method":"GET","path":"/a","server":"https://evil.example"}`,
		`{"method":"GET","path":"/a","headers":{"Host":"evil.example"}}`,
		`{"method":"GET","path":"/a","headers":{"Authorization":"x"}}`, `{"method":"CONNECT","path":"/a"}`,
	} {
		_, err := r.Do(t.Context(), "request", args)
		if e := tool.AsError(err); e == nil || e.Kind != tool.Invalid && e.Kind != tool.Denied || !e.Unsent {
			t.Errorf("%s: got %v, want it refused before it is sent", args, err)
		}
	}
	if len(got) != 0 {
		t.Errorf("the server received %v", <-got)
	}
}

func TestBombs(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, reason string }{
		"laughs": {func() string {
			s := "openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
			for i := range 9 {
				s += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,",
					i), 10), ","))
			}
			return s + "paths: {}\n"
		}(), "more than 2000000 values"},
		"flow":   {"openapi: 3.0.0\na: [" + strings.Repeat("1,", 1<<20) + "]\npaths: {}\n", "convert it to JSON"},
		"items":  {"openapi: 3.0.0\na:\n" + strings.Repeat("-\n", 1<<20) + "paths: {}\n", "convert it to JSON"},
		"keys":   {"openapi: 3.0.0\na:\n" + strings.Repeat("?\n", 1<<20) + "paths: {}\n", "convert it to JSON"},
		"breaks": {"openapi: 3.0.0\na:\n" + strings.Repeat("-\u0085", 1<<20) + "\npaths: {}\n", "convert it to JSON"},
		"utf16":  {"\xff\xfea\x00:\x00 \x001\x00", "it is not UTF-8"},
		"self":   {"openapi: 3.0.0\na: &a [*a]\npaths: {}\n", "contains itself"},
		"deep": {`{"openapi":"3.0.0","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) +
			`,"paths":{}}`, "levels deep"},
		"neither": {"hello: world\n", "not an OpenAPI document"},
		"empty":   {"", "it is empty"},
		"cut":     {`{"openapi":"3.0.0"`, "unexpected EOF"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		wantDown(t, openapi.Config{Spec: path}, c.reason)
	}
}

// TestEndlessAnswer and a slow one end within their limits.
func TestEndlessAnswer(t *testing.T) {
	server, _ := recordRequests(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
			if r.URL.Path == "/drip" {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}
	})
	r := start(t, openapi.Config{MaxAnswer: 1 << 20, Timeout: 2 * time.Second, Spec: writeSpec(t, server.URL,
		"paths: {/all: {get: {operationId: all}}, /drip: {get: {operationId: drip}}}\n")})
	if _, err := r.Do(t.Context(), "all", `{}`); tool.AsError(err).Kind != tool.Limit {
		t.Errorf("an endless answer: got %v, want kind limit", err)
	}
	if _, err := r.Do(t.Context(), "drip", `{}`); tool.AsError(err).Kind != tool.Timeout {
		t.Errorf("a slow answer: got %v, want kind timeout", err)
	}
}

// TestAuthThatFits reports credentials that the document has no use for.
func TestAuthThatFits(t *testing.T) {
	spec := writeSpec(t, "https://api.example.com", `
components: {securitySchemes: {o: {type: oauth2, flows: {authorizationCode: {authorizationUrl: 'https://x/a',
      tokenUrl: 'https://x/t', scopes: {}}}}}}
paths: {/a: {get: {operationId: a}}}
`)
	wantDown(t, openapi.Config{Spec: spec, Auth: map[string]openapi.Credential{"x": {Value: "v"}}},
		"auth.x: the document has no security scheme of this name; it has o")
	wantDown(t, openapi.Config{Spec: spec, Auth: map[string]openapi.Credential{"o": {ClientID: "c",
		ClientSecret: "s"}}},
		"needs client_id and sign_in: true, so that people sign in, or an access token as text")
}
