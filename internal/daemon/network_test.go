package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// web returns a server that programs can fetch from.
func web(t *testing.T) (url string, hits *atomic.Int64) {
	hits = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"n": 41}`)
		case "/bytes":
			w.Write([]byte{0xff, 0, 1})
		case "/moved":
			http.Redirect(w, r, "/json", http.StatusMovedPermanently)
		case "/away":
			http.Redirect(w, r, "http://localhost:"+r.URL.Query().Get("port")+"/json", http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Content-Type"), body)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, hits
}

func withPolicies(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "policies"), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policies", "own.cedar"), []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return dir
}

const around = "policy: ./policies\nnetwork: { private: [127.0.0.0/8] }\n"

func TestProgramsReachPermittedHosts(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	port := url[strings.LastIndexByte(url, ':')+1:]
	dir := withPolicies(t, `
		permit (principal, action == Action::"execute", resource);
		@id("web") permit (principal, action == Action::"connect", resource == Host::"127.0.0.1") unless { context.method == "DELETE" };`)
	d, _ := run(t, dir, around)
	for _, c := range []struct{ code, want string }{
		{`const r = await fetch("` + url +
			`/json"); return [r.ok, r.status, r.headers.get("Content-Type"), (await r.json()).n]`,
			`[true,200,"application/json",41]`},
		{`return [...await (await fetch(new URL("/bytes", "` + url + `"))).bytes()]`, `[255,0,1]`},
		{`const r = await fetch("` + url +
			`/gone"); return [r.ok, r.status, await r.text(), await r.text().catch(e => e.name)]`,
			`[false,404,"","TypeError"]`},
		{`return await (await fetch("` + url +
			`/x", { method: "post", headers: { "Content-Type": "a/b" }, body: "hello" })).text()`, `"POST a/b hello"`},
		{`return await (await fetch("` + url + `/x", { method: "PUT", body: new Uint8Array([104, 105]) })).text()`,
			`"PUT  hi"`},
		{`const r = await fetch("` + url +
			`/moved"); return [r.redirected, r.url.endsWith("/json"), (await r.json()).n]`, `[true,true,41]`},
		{`return (await fetch("` + url + `/moved", { redirect: "manual" })).status`, `301`},
		{`return (await Promise.all([1, 2, 3].map(() => fetch("` + url + `/json")))).length`, `3`},
		{`return await fetch("` + url + `/away?port=` + port + `").catch(e => e.kind + ": " + e.message)`,
			`denied: biplane.fetch is denied by policy none`},
		{`return await fetch("` + url + `/x", { method: "DELETE" }).catch(e => e.message)`, `is denied by policy none`},
		{`return await fetch("http://[::1]:` + port + `/").catch(e => e.message)`, `is denied by policy none`},
		{`return await fetch("` + url + `/x", { headers: { Host: "a" } }).catch(e => e.message)`,
			`can't be set by a program`},
		{`return await fetch("x").catch(e => e.message)`, `is not an HTTP URL`},
		{`return await callTool("biplane.fetch", { url: "` + url + `/x", method: "DELETE" }).catch(e => e.kind)`,
			`"invalid"`},
	} {
		x := execute(t, d.Client(), c.code)
		if x.Error != nil || !strings.Contains(string(x.Value), c.want) {
			t.Errorf("%s\ngave %s, %+v\nwant %s", c.code, x.Value, x.Error, c.want)
		}
	}
	before := hits.Load()
	x := execute(t, d.Client(), "const a = 1;\nawait fetch('"+url+"/json');\nconst b = null;\nb.x")
	if x.Error == nil || x.Error.Line != 4 || hits.Load() != before+1 {
		t.Errorf("an error behind a fetch: %+v", x.Error)
	}
	fetched, err := d.Client().Run(t.Context(),
		api.RunRequest{Language: "python", Code: `r = await fetch("` + url + `/json")
[r.status, r.ok, r.json()]`})
	if err != nil || fetched.Error != nil || !strings.HasPrefix(string(fetched.Value), "[200,true,") {
		t.Errorf("fetch in Python: %+v, %v", fetched, err)
	}
	python, err := d.Client().Run(t.Context(),
		api.RunRequest{Language: "python", Code: `(await call_tool("biplane.fetch", url="` + url + `/json"))["text"]`})
	if err != nil || !strings.Contains(string(python.Value), "41") {
		t.Errorf("python: %+v, %v", python, err)
	}
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	seen := map[string]int{}
	for _, r := range records {
		seen[r.Tool+" "+r.Effect]++
	}
	if seen["biplane.fetch allow"] == 0 || seen["biplane.send allow"] != 2 || seen["biplane.send deny"] != 1 ||
		seen["biplane.fetch deny"] == 0 {
		t.Errorf("on record: %v", seen)
	}
}

func TestNobodyReachesTheNetworkByDefault(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	for _, text := range []string{"policy: ask-for-writes\nnetwork: { private: [127.0.0.0/8] }\n",
		"policy: read-only\nnetwork: { private: [127.0.0.0/8] }\n", "policy: open\n"} {
		d, _ := run(t, t.TempDir(), text)
		x := execute(t, d.Client(), `return await fetch("`+url+`/json").catch(e => e.kind)`)
		if string(x.Value) != `"denied"` || hits.Load() != 0 {
			t.Errorf("%s: %s, %d requests", text, x.Value, hits.Load())
		}
	}
}

// TestConnectionsAreSourcesAndWaysOut checks that data from a host is untrusted and a request is a
// way out: after reading private data it needs approval.
func TestConnectionsAreSourcesAndWaysOut(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "policy: open\nnetwork: { private: [127.0.0.0/8] }\nmcpServers: { peer: { url: '"+p.URL+
		"', labels: [pii] } }")
	x := execute(t, d.Client(), `await fetch("`+url+`/json"); await fetch("`+url+
		`/json"); await callTool("peer.echo", { n: 1 }); await fetch("`+url+`/json"); return 1`)
	if x.State != api.StateWaiting || hits.Load() != 2 {
		t.Errorf("%s, %d requests", x.State, hits.Load())
	}
	all, err := d.Client().Approvals().ListFor(t.Context(), x.ID, false)
	if err != nil || len(all) != 1 || strings.Join(all[0].Labels, " ") != "pii untrusted" {
		t.Errorf("all = %+v, err = %v, want err == nil && len(all) == 1 && strings.Join(all[0].Labels, "+
			"\" \") == \"pii untrusted\"", all, err)
	}
}

func TestAPersonDecidesOnAConnection(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	dir := withPolicies(t, `
		permit (principal, action == Action::"execute", resource);
		@ask("approvers") permit (principal, action == Action::"connect", resource);`)
	d, _ := run(t, dir, around)
	x := execute(t, d.Client(), `return await (await fetch("`+url+`/x", { method: "POST", body: "pay" })).text()`)
	if x.State != api.StateWaiting {
		t.Fatalf("x = %+v, want x.State == api.StateWaiting", x)
	}
	all, err := d.Client().Approvals().ListFor(t.Context(), x.ID, false)
	if err != nil || len(all) != 1 || all[0].Tool != "biplane.send" ||
		!strings.Contains(string(all[0].Arguments), "pay") || hits.Load() != 0 {
		t.Fatalf("all = %+v, err = %v", all, err)
	}
	if _, err := d.Client().Approvals().Decide(t.Context(), all[0].ID,
		api.Decision{Approve: true, Digest: all[0].Digest}); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	j, err := d.Client().Journal(t.Context(), x.ID)
	for err == nil && (j.State == api.StateWaiting || j.State == api.StateRunning) {
		j, err = d.Client().Watch(t.Context(), x.ID, j.Version)
	}
	if err != nil || !strings.Contains(string(j.Value), "POST text/plain;charset=UTF-8 pay") || hits.Load() != 1 {
		t.Errorf("%+v, %v, %d requests", j, err, hits.Load())
	}
	r, err := d.Client().Replay(t.Context(), x.ID, api.ReplayRequest{})
	if err != nil || !r.Same || hits.Load() != 1 {
		t.Errorf("replay: %+v, %v, %d requests", r, err, hits.Load())
	}
}
