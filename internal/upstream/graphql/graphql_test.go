package graphql_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/graphql"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

func start(t *testing.T, cfg graphql.Config) *upstreamtest.Running {
	t.Helper()
	return upstreamtest.Start(t, func(t testing.TB, onChange func()) upstream.Upstream {
		cfg.Name, cfg.OnChange = "shop", onChange
		u, err := graphql.New(cfg)
		if err != nil {
			t.Fatalf("make the upstream: %v", err)
		}
		return u
	})
}

// TestUpstream runs the suite of all kinds of upstreams.
func TestUpstream(t *testing.T) {
	var peer *server
	started := make(chan struct{}, 100)
	upstreamtest.Run(t, upstreamtest.Peer{
		New: func(t testing.TB, onChange func()) upstream.Upstream {
			resolvers := shopResolvers()
			slow := resolvers["slow"]
			resolvers["slow"] = func(r *http.Request, args map[string]any) (any, error) {
				select {
				case started <- struct{}{}:
				default:
				}
				return slow(r, args)
			}
			peer = newServer(t, shopSDL, resolvers)
			u, err := graphql.New(graphql.Config{Name: "shop", URL: peer.URL, OnChange: onChange})
			if err != nil {
				t.Fatalf("make the upstream: %v", err)
			}
			return u
		},
		Echo: func(i int) upstreamtest.Case {
			return upstreamtest.Case{Tool: "echo", Args: fmt.Sprintf(`{"i":%d}`, i),
				Text: fmt.Sprintf(`\"echo\":%d}`, i)}
		},
		Fails: &upstreamtest.Case{Tool: "fail", Args: `{}`},
		Slow:  &upstreamtest.Case{Tool: "slow", Args: `{}`},
		Kill: func(t testing.TB, u upstream.Upstream) {
			for len(started) > 1 {
				<-started
			}
			<-started
			address := peer.Listener.Addr().String()
			peer.CloseClientConnections()
			peer.Close()
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatalf("listen again: %v", err)
			}
			peer.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: peer}}
			peer.Start()
		},
	})
}

func find(t *testing.T, s upstream.Snapshot, name string) *tool.Tool {
	t.Helper()
	for _, x := range s.Tools {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("there is no tool %s among %d, broken %v", name, len(s.Tools), s.Broken)
	return nil
}

// sources returns configurations that read the shop's schema by introspection, and from a file.
func sources(t *testing.T, peer *server) map[string]graphql.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.graphql")
	text := shopSDL + "\nextend type Query @key(fields: \"x\") { more: Int @cost(weight: 7) more: Int }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write the schema: %v", err)
	}
	return map[string]graphql.Config{"introspection": {URL: peer.URL}, "file": {URL: peer.URL, Schema: file}}
}

func TestTools(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	for name, cfg := range sources(t, peer) {
		t.Run(name, func(t *testing.T) {
			s := start(t, cfg).Ready(t)
			var names []string
			for _, x := range s.Tools {
				names = append(names, x.Name)
			}
			all := strings.Join(names, " ")
			if all = strings.Replace(all, " more", "", 1); all != "product products search node echo fail slow "+
				"query_query same rename mutation_same query" {
				t.Errorf("the tools are %s", all)
			}
			x := find(t, s, "products")
			const input = `{"type":"object","properties":{` +
				`"filter":{"anyOf":[{"$ref":"#/$defs/Filter"},{"type":"null"}]},` +
				`"first":{"type":"integer","description":"(default: 10)"}},"additionalProperties":false,` +
				`"$defs":{"Filter":{"type":"object","properties":{"text":{"type":["string","null"],` +
				`"description":"(default: \"x\")"},"sizes":{"type":["array","null"],"items":{"$ref":"#/$defs/Size"}},` +
				`"and":{"type":["array","null"],"items":{"$ref":"#/$defs/Filter"}},` +
				`"min":{"type":"integer"}},"required":["min"],"additionalProperties":false},` +
				`"Size":{"type":"string","enum":["SMALL","LARGE"]}}}`
			if got := string(x.InputSchema); got != input {
				t.Errorf("the arguments are\n%s\nwant\n%s", got, input)
			}
			if x.Annotations.ReadOnly == nil || !*x.Annotations.ReadOnly || find(t, s, "rename").Annotations.Reads() ||
				find(t, s, "query").Annotations.Reads() {
				t.Error("a query is not read-only, or a mutation is")
			}
			const output = `{"type":"object","properties":{"product":{"type":["object","null"],"properties":{` +
				`"id":{"type":"string"},"name":{"type":"string"}`
			if got := string(find(t, s, "product").OutputSchema); !strings.HasPrefix(got, output) {
				t.Errorf("the result is\n%s\nwant\n%s...", got, output)
			}
			if got := find(t, s, "product").Description; got != "One product.\n\nGraphQL query product: Product" {
				t.Errorf("the description is %q", got)
			}
		})
	}
}

func call(t *testing.T, r *upstreamtest.Running, name, args string) *tool.Result {
	t.Helper()
	res, err := r.Do(t.Context(), name, args)
	if err != nil {
		t.Fatalf("call %s with %s: %v", name, args, err)
	}
	return res
}

// structure returns the structured content of a result.
func structure(t *testing.T, r *tool.Result) string {
	t.Helper()
	var out struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(r.Raw, &out); err != nil {
		t.Fatalf("parse the result: %v", err)
	}
	return string(out.Structured)
}

// TestSelections checks the documents that are sent, which the server validates and executes.
func TestSelections(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	r := start(t, graphql.Config{URL: peer.URL})
	const product = "id name price size owner { id name } " +
		"variants { sku stock { count place { name } } }"
	const inPage = "id name price size owner { id name } variants { sku stock { count } }"
	for _, c := range []struct{ name, args, query, result string }{
		{"product", `{"id":1}`, "query($id: ID!) { product(id: $id) { " + product + " } }",
			`{"product":{"id":"1","name":"Tea","owner":{"id":"2","name":"Ann"},"price":"4.20","size":"SMALL",` +
				`"variants":[{"sku":"t-1","stock":{"count":7,"place":{"name":"Shelf"}}}]}}`},
		{"product", `{"id":"none"}`, "query($id: ID!) { product(id: $id) { " + product + " } }", `{"product":null}`},
		{"products", `{"filter":{"min":1,"and":[{"min":2}]}}`, "query($filter: Filter, $first: Int) " +
			"{ products(filter: $filter, first: $first) { nodes { " + inPage +
			" } pageInfo { endCursor hasNextPage } } }",
			`{"products":{"nodes":[{`},
		{"search", `{"text":"t"}`, "query($text: String!) { search(text: $text) { __typename ... on Person " +
			"{ id favourite { id name price size variants { sku stock { count } } } } ... on Product { id name " +
			"price size owner { id name } variants { sku stock { count place { name } } } } } }",
			`{"search":[{"__typename":"Product","id":"1","name":"Tea",`},
		{"mutation_same", `{}`, "mutation { same }", `{"same":7}`},
		{"rename", `{"id":"1","name":"Chai"}`, "mutation($id: ID!, $name: String!) { rename(id: $id, name: $name) { " +
			product + " } }", `{"rename":{"id":"1","name":"Chai"`},
	} {
		res := call(t, r, c.name, c.args)
		got := <-peer.got
		if got.Query != c.query {
			t.Errorf("%s sent\n%s\nwant\n%s", c.name, got.Query, c.query)
		}
		if s := structure(t, res); res.IsError || !strings.HasPrefix(s, c.result) {
			t.Errorf("%s: got %s, want %s", c.name, s, c.result)
		}
	}
}

// TestQuery checks that documents are validated before they are sent.
func TestQuery(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	r := start(t, graphql.Config{URL: peer.URL})
	res := call(t, r, "query", `{"query":"query($i: ID!) { p: product(id: $i) { ...F } __typename } `+
		`fragment F on Product { name }","variables":{"i":"1"}}`)
	if got := structure(t, res); got != `{"__typename":"Query","p":{"name":"Tea"}}` {
		t.Errorf("got %s", got)
	}
	<-peer.got
	many := strings.Repeat("a: same ", 3) + strings.Repeat("b: same ", 2000)
	deep := "{ product(id: 1) { " + strings.Repeat("variants { product { ", 20) + "id" +
		strings.Repeat(" } }", 20) + " } }"
	bomb := "{ ...F0 } "
	for i := range 20 {
		bomb += fmt.Sprintf("fragment F%d on Query { %s } ", i, strings.Repeat(fmt.Sprintf("...F%d ", i+1), 10))
	}
	bomb += "fragment F20 on Query { same }"
	for _, c := range []struct{ query, variables, reason string }{
		{"{ nothing }", `{}`, `Cannot query field "nothing" on type "Query"`},
		{"{ product { id } }", `{}`, `argument "id" of type "ID!" is required`},
		{"query($i: Int!) { echo(i: $i) }", `{}`, "must be defined"},
		{"query($i: Int!) { echo(i: $i) }", `{"i":"x"}`, "cannot use string as Int"},
		{"query($i: Int!) { echo(i: $i) }", `[]`, "variables must be an object"},
		{"subscription { changed { id } }", `{}`, "subscriptions are not supported"},
		{"query A { same } mutation B { same }", `{}`, "it has 2 operations"},
		{"fragment F on Query { same }", `{}`, "it has 0 operations"},
		{"{ same", `{}`, "Expected Name"},
		{"", `{}`, "it has 0 operations"},
		{"{ " + many + " }", `{}`, "more than 1000 fields"},
		{deep, `{}`, "levels deep"},
		{bomb, `{}`, "more than 1000 fields"},
		{"{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", `{}`, "contains itself"},
		{"{ same } fragment A on Query { ...A }", `{}`, "contains itself"},
		{strings.Repeat("{", 50_000), `{}`, "Expected Name"},
		{"{ same(a: " + strings.Repeat("[", 8000) + " ) }", `{}`, "nesting depth"},
		{"{ same " + strings.Repeat("@a(b:1)", 5000) + "}", `{}`, "token limit"},
		{strings.Repeat(" ", 65<<10), `{}`, "at most 64 KiB"},
	} {
		text, _ := json.Marshal(c.query)
		args := fmt.Sprintf(`{"query":%s,"variables":%s}`, text, c.variables)
		_, err := r.Do(t.Context(), "query", args)
		if e := tool.AsError(err); e == nil || e.Kind != tool.Invalid || !e.Unsent ||
			!strings.Contains(e.Msg, c.reason) {
			t.Errorf("%.80s: got %v, want it refused: %s", c.query, err, c.reason)
		}
	}
	if len(peer.got) != 0 {
		t.Errorf("the server received %v", <-peer.got)
	}
}

// TestJudge checks which calls of the tool query count as reads.
func TestJudge(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	x := find(t, start(t, graphql.Config{URL: peer.URL}).Ready(t), "query")
	for _, c := range []struct {
		args  string
		reads bool
	}{
		{`{"query":"{ same }"}`, true},
		{`{"query":"query A { same }"}`, true},
		{`{"query":"mutation { same }"}`, false},
		{`{"query":"# query\n mutation A { same }"}`, false},
		{`{"query":"query A { same } mutation B { same }"}`, false},
		{`{"query":"subscription { changed { id } }"}`, false},
		{`{"query":"{ same }","query":"mutation { same }"}`, false},
		{`{"query":"{"}`, false},
		{`{"query":7}`, false},
		{`{}`, false},
		{``, false},
	} {
		if got := x.ForCall(json.RawMessage(c.args)).Annotations.Reads(); got != c.reads {
			t.Errorf("%s reads: %t, want %t", c.args, got, c.reads)
		}
	}
}

// TestRenamedFields checks that aliases are found wherever they are: a policy may remove fields by
// their names.
func TestRenamedFields(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	x := find(t, start(t, graphql.Config{URL: peer.URL}).Ready(t), "query")
	for query, want := range map[string]bool{
		"{ a { b } }":                     false,
		"{ a: a { b } }":                  false,
		"{ x: a }":                        true,
		"{ a { x: b } }":                  true,
		"{ ... on Query { a { x: b } } }": true,
		"{ ...f } fragment f on Query { a { ... { x: b } } }": true,
		"{ ...f } fragment f on Query { a { b } }":            false,
		"mutation { x: a }":                                   true,
		"{ a":                                                 false,
	} {
		args, err := json.Marshal(map[string]string{"query": query})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		if got := x.Judge.RenamesFields(args); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	r := start(t, graphql.Config{URL: peer.URL})
	for _, c := range []struct{ name, args, structure, text string }{
		{"fail", `{}`, `"retryable":false`, "out of tea (at fail)"},
		{"query", `{"query":"{ fail same }"}`, `"errors":[{"message":"out of tea","path":["fail"]}],` +
			`"data":{"fail":null,"same":7}`, "out of tea (at fail); other fields have data"},
		{"rename", `{"id":"1","name":""}`, `"retryable":true`, "code THROTTLED (at rename); it may be retried"},
	} {
		res := call(t, r, c.name, c.args)
		var block tool.TextBlock
		if err := json.Unmarshal(res.Content[0], &block); err != nil {
			t.Fatalf("parse the content: %v", err)
		}
		if s := structure(t, res); !res.IsError || !strings.Contains(s, c.structure) || block.Text != c.text {
			t.Errorf("%s: got %q and %s, want %q and %s", c.name, block.Text, s, c.text, c.structure)
		}
	}
	for _, c := range []struct {
		status       int
		header, body string
		name, want   string
	}{
		{429, "7", `{"errors":[{"message":"slow down"}]}`, "rename", `{"status":429,"retryable":true,"retry_after":7,`},
		{502, "", `bad gateway`, "same", `{"status":502,"retryable":true,`},
		{502, "", `bad gateway`, "mutation_same", `{"status":502,"retryable":false,`},
		{200, "", `<html>`, "same", `{"status":200,"retryable":false,`},
		{200, "", `{"data":null}`, "same", `{"status":200,"retryable":false,`},
		{302, "", ``, "same", `{"status":302,"retryable":false,`},
	} {
		peer.handle = func(w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.Header().Set("Location", "/other")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}
		args := map[string]string{"rename": `{"id":"1","name":"x"}`}[c.name]
		if res := call(t, r, c.name, args); !res.IsError || !strings.HasPrefix(structure(t, res), c.want) {
			t.Errorf("%d %s: got %s, want %s", c.status, c.body, structure(t, res), c.want)
		}
	}
}

// TestCredentials checks what each form of auth sends, and that a refused token is renewed once.
func TestCredentials(t *testing.T) {
	tokens := 0
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tokens++
		writeJSON(w, map[string]any{"access_token": fmt.Sprintf("secret-token-%d", tokens), "token_type": "bearer"})
	}))
	t.Cleanup(issuer.Close)
	for _, c := range []struct {
		auth web.Credential
		want string
	}{
		{web.Credential{Value: "token-1234"}, "Bearer token-1234"},
		{web.Credential{Username: "ann", Password: "pass-word"}, "Basic YW5uOnBhc3Mtd29yZA=="},
		{web.Credential{ClientID: "me", ClientSecret: "very-secret", TokenURL: issuer.URL}, "Bearer secret-token-2"},
	} {
		peer := newServer(t, shopSDL, shopResolvers())
		file := sources(t, peer)["file"]
		r := start(t, graphql.Config{URL: peer.URL, Schema: file.Schema, Auth: c.auth,
			Headers: map[string]string{"X-Key": "key-of-shop"}})
		r.Ready(t)
		peer.handle = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer secret-token-1" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			writeJSON(w, map[string]any{"data": map[string]any{"query": "you sent " + r.Header.Get("Authorization")}})
		}
		res := call(t, r, "query_query", `{}`)
		var last received
		for len(peer.got) > 0 {
			last = <-peer.got
		}
		if last.header.Get("Authorization") != c.want || last.header.Get("X-Key") != "key-of-shop" {
			t.Errorf("the server received %v, want %s", last.header, c.want)
		}
		if secret := strings.Fields(c.want)[1]; strings.Contains(string(res.Raw), secret) {
			t.Errorf("the answer repeats the credential: %s", res.Raw)
		}
		r.Close(t)
	}
}

// TestHostileSchemas checks that schemas and servers that can't be used end in a clear reason.
func TestHostileSchemas(t *testing.T) {
	fields := func(n int, typ string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "f%d: %s\n", i, typ)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ sdl, reason string }{
		"no query": {"type A { b: Int }", "no query type"},
		"unknown":  {"type Query { a: Nothing }", "Undefined type Nothing"},
		"syntax":   {"type Query {", "the schema is invalid"},
		"deep":     {"type Query { a: " + strings.Repeat("[", 5000) + "Int", "nesting depth"},
		"wide":     {"type Query { " + fields(40_000, "Int") + " }", "too complex: its type Query has 40000 fields"},
		"many types": {"type Query { a: Int } " + strings.Repeat("type T { a: Int } ", 20_001),
			"more than 20000 types"},
		"tokens": {"type Query { a: Int } " + strings.Repeat("type T { a: Int } ", 400_000), "token limit"},
		"large":  {strings.Repeat("#", 33<<20), "more than 32 MiB"},
		"empty":  {"", "no query type"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.graphql")
			if err := os.WriteFile(file, []byte(c.sdl), 0o600); err != nil {
				t.Fatalf("write the schema: %v", err)
			}
			wantDown(t, graphql.Config{URL: "https://shop.example/graphql", Schema: file}, c.reason)
		})
	}
	for name, c := range map[string]struct{ body, reason string }{
		"html":    {"<html>", "did not answer the introspection query (status 200)"},
		"refused": {`{"errors":[{"message":"introspection is disabled"}]}`, "introspection is disabled"},
		"other":   {`{"data":{"x":1}}`, "has no __schema"},
		"deep": {`{"data":{"__schema":{"types":[{"kind":"OBJECT","name":"Query","fields":[{"name":"a","type":` +
			strings.Repeat(`{"kind":"LIST","ofType":`, 100) + `null` + strings.Repeat("}", 100) + `}]}]}}}`,
			"nested too deeply"},
		"null": {`{"data":{"__schema":{"types":[{"kind":"OBJECT","name":"Query","fields":[{"name":"a"}]}]}}}`,
			"a type is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			wantDown(t, graphql.Config{URL: s.URL}, c.reason)
		})
	}
}

// wantDown checks that a schema is rejected with a reason.
func wantDown(t *testing.T, cfg graphql.Config, reason string) {
	t.Helper()
	r := start(t, cfg)
	defer r.Close(t)
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State != tool.Connecting })
	if s.Health.State != tool.Down || !strings.Contains(s.Health.Reason, reason) {
		t.Errorf("it is %+v, want down because of %q", s.Health, reason)
	}
}

// TestEndlessAnswers checks that answers and introspection without an end are cut.
func TestEndlessAnswers(t *testing.T) {
	peer := newServer(t, shopSDL, shopResolvers())
	r := start(t, graphql.Config{URL: peer.URL, MaxAnswer: 1 << 20})
	r.Ready(t)
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	peer.handle = endless
	if _, err := r.Do(t.Context(), "same", `{}`); err == nil || tool.AsError(err).Kind != tool.Limit {
		t.Errorf("got %v, want kind limit", err)
	}
	r.Close(t)
	s := httptest.NewServer(http.HandlerFunc(endless))
	defer s.Close()
	wantDown(t, graphql.Config{URL: s.URL}, "the server answered with over 32 MiB")
}
