package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// TestAPIsBehindTheDoor checks that policy judges documents of GraphQL by what they do, before they
// are sent, and that programs see the status of failed requests.
func TestAPIsBehindTheDoor(t *testing.T) {
	t.Parallel()
	var mutations atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"title":"slow down"}`)
			return
		}
		var in struct{ Query string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		switch {
		case strings.HasPrefix(in.Query, "mutation"):
			mutations.Add(1)
			fmt.Fprint(w, `{"data":{"sell":true}}`)
		case strings.Contains(in.Query, "fail"):
			fmt.Fprint(w, `{"data":{"fail":null,"stock":7},"errors":[{"message":"no tea","path":["fail"]}]}`)
		default:
			fmt.Fprint(w, `{"data":{"stock":7}}`)
		}
	}))
	t.Cleanup(s.Close)
	dir := withPolicies(t, `
		permit (principal, action == Action::"execute", resource);
		@id("reads") permit (principal, action == Action::"call", resource) when { resource.readOnly };`)
	for name, text := range map[string]string{
		"shop.graphql": "type Query { stock: Int fail: Int } type Mutation { sell: Boolean }",
		"api.yaml": "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nservers: [{url: '" + s.URL +
			"'}]\npaths: {/busy: {get: {operationId: busy}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
	}
	d, _ := run(t, dir, "policy: ./policies\ngraphql: { shop: { url: '"+s.URL+"', schema: ./shop.graphql } }\n"+
		"openapi: { web: { spec: ./api.yaml } }\ntools: { shop.query: { read_only: true } }\n")
	for _, c := range []struct{ language, code, want string }{
		{"", `return await shop.stock()`, `{"stock":7}`},
		{"", `return await shop.query({ query: "{ stock }" })`, `{"stock":7}`},
		{"", `return await shop.query({ query: "mutation { sell }" }).catch((e) => e.kind)`, `"denied"`},
		{"", `return await shop.query({ query: "{ stock }", ["query"]: "mutation { sell }" }).catch((e) => e.kind)`,
			`"denied"`},
		{"", `return await callTool("shop.sell", {}).catch((e) => e.kind)`, `"denied"`},
		{"", `return await shop.query({ query: "{ fail stock }" }).catch((e) => [e.kind, e.message, e.status, ` +
			`e.retryable, e.data.data.stock])`, `["failed","no tea (at fail); other fields have data",200,false,7]`},
		{"", `return await shop.query({ query: "{ nothing }" }).catch((e) => e.kind)`, `"invalid"`},
		{"", `return await web.busy().catch((e) => [e.kind, e.status, e.retryable, e.retryAfter, ` +
			`e.data.body.title])`,
			`["failed",429,true,7,"slow down"]`},
		{"python", "try:\n    await web.busy()\nexcept ToolError as e:\n" +
			"    r = [e.status, e.retryable, e.retry_after]\nr",
			`[429,true,7]`},
	} {
		x, err := d.Client().Run(t.Context(), api.RunRequest{Language: c.language, Code: c.code})
		if err != nil || x.Error != nil || string(x.Value) != c.want {
			t.Errorf("%s\nreturned %s, error %+v, %v, want %s", c.code, x.Value, x.Error, err, c.want)
		}
	}
	if n := mutations.Load(); n != 0 {
		t.Errorf("%d mutations were sent, want none", n)
	}
}

// TestExplainGraphQL checks that the explanation of a GraphQL call is what the door decides by its
// document. Renamed fields are denied where policy removes fields.
func TestExplainGraphQL(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":{"stock":7}}`)
	}))
	t.Cleanup(s.Close)
	dir := withPolicies(t, `
		permit (principal, action == Action::"execute", resource);
		@id("reads") @redact("price") permit (principal, action == Action::"call", resource)
		when { resource.readOnly };`)
	if err := os.WriteFile(filepath.Join(dir, "shop.graphql"),
		[]byte("type Query { stock: Int price: Int } type Mutation { sell: Boolean }"), 0o600); err != nil {
		t.Fatalf("write the schema: %v", err)
	}
	d, _ := run(t, dir, "policy: ./policies\ngraphql: { shop: { url: '"+s.URL+"', schema: ./shop.graphql } }\n")
	for document, want := range map[string]struct{ effect, reason, change string }{
		"{ stock }":         {"allow", "", ""},
		"{ cost: price }":   {"deny", "use no aliases", "it would be permitted if the call renamed no fields"},
		"mutation { sell }": {"deny", "", ""},
	} {
		args, err := json.Marshal(map[string]string{"query": document})
		if err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		x, err := d.Client().Policies().Explain(t.Context(), api.PolicyQuestion{Tool: "shop.query", Arguments: args})
		if err != nil || x.Effect != want.effect || !strings.Contains(x.Reason, want.reason) || !x.Shown ||
			!strings.Contains(x.Change, want.change) {
			t.Errorf("%s is explained as %+v, %v, want %+v", document, x, err, want)
		}
		code := fmt.Sprintf("return await shop.query(%s).then(() => 'allow', (e) => e.kind)", args)
		e, err := d.Client().Run(t.Context(), api.RunRequest{Code: code})
		got := map[string]string{`"allow"`: "allow", `"denied"`: "deny"}
		if err != nil || got[string(e.Value)] != want.effect {
			t.Errorf("%s: the door decides %s, %v, want %s", document, e.Value, err, want.effect)
		}
	}
	since := time.Now().Add(-time.Hour)
	r, err := d.Client().Policies().Replay(t.Context(), api.PolicyReplayRequest{Since: since})
	if err != nil || len(r.Changed) != 0 {
		t.Errorf("the same policies would change %+v, %v, want nothing", r, err)
	}
}
