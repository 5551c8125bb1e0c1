package daemon_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// writeTools writes the files of a folder "tools" in dir.
func writeTools(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, "tools", name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatalf("create a folder: %v", err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatalf("write a tool: %v", err)
		}
	}
}

// caught makes a tool that returns what an expression comes to, or its error.
func caught(name, expression string) string {
	return "export async function " + name + "() {\n  try { return await " + expression +
		"; } catch (e) { return e.kind + \": \" + e.message; }\n}\n"
}

// TestFolderNetwork checks that tools of a folder reach the hosts that the configuration grants to
// it, and no others, whatever programs may reach.
func TestFolderNetwork(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	get := func(at string) string { return `(await fetch("` + at + `")).status` }
	tools := map[string]string{
		"granted.ts": caught("granted", get(url+"/json")),
		"other.ts":   caught("other", get(strings.Replace(url, "127.0.0.1", "127.0.0.2", 1)+"/json")),
		"python.py":  "async def python() -> int:\n    return (await fetch(\"" + url + "/json\")).status\n",
		"loading.ts": `const x = fetch("` + url + `").catch(() => {}); export function loading() { return x; }`,
	}
	const programs = `permit (principal, action in [Action::"execute", Action::"call"], resource);`
	for _, c := range []struct{ name, policies, granted, other, direct string }{
		{"the grant alone", programs, "200", "127.0.0.2", "is denied by policy none"},
		{"programs may connect", programs + `permit (principal, action == Action::"connect", resource);`, "200",
			"the configuration doesn't grant 127.0.0.2: add it to ", "200"},
		{"a forbid", programs +
			`@id("never") forbid (principal, action == Action::"connect", resource == Host::"127.0.0.1");`,
			"denied by policy never", "127.0.0.2", "denied by policy never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := withPolicies(t, c.policies)
			writeTools(t, dir, tools)
			d, _ := run(t, dir, around+"folders: { local: { path: ./tools, network: [127.0.0.1] } }\n")
			for code, want := range map[string]string{
				"return await local.granted()": c.granted, "return await local.other()": c.other,
				`return await fetch("` + url + `/json").then(r => r.status, e => e.message)`: c.direct,
			} {
				x := execute(t, d.Client(), code)
				if x.Error != nil || !strings.Contains(string(x.Value), want) {
					t.Errorf("%s: got %s, %+v, want %s", code, x.Value, x.Error, want)
				}
			}
			args := json.RawMessage(`{"url": "` + url + `/json"}`)
			for from, want := range map[string]string{"local": c.granted, "": c.direct} {
				x, err := d.Client().Policies().Explain(t.Context(), api.PolicyQuestion{Tool: "biplane.fetch",
					Arguments: args, Program: true, Upstream: from})
				if err != nil || (x.Effect == "allow") != (want == "200") {
					t.Errorf("from %q: explained as %+v, %v, want %s", from, x, err, want)
				}
			}
			before := hits.Load()
			x := execute(t, d.Client(), "return await local.python()")
			if ok := x.Error == nil && string(x.Value) == "200"; ok != (c.granted == "200") ||
				ok != (hits.Load() == before+1) {
				t.Errorf("fetch in Python: got %s, %+v", x.Value, x.Error)
			}
		})
	}
}

// TestFolderDepth checks how tools of folders may call each other.
func TestFolderDepth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	next := func(name, other string) string {
		return "export async function " + name + "() { return [\"" + name + "\", await local." + other + "()]; }\n"
	}
	writeTools(t, dir, map[string]string{
		"a.ts": next("a", "b"), "b.ts": next("b", "c"), "c.ts": next("c", "d"), "d.ts": next("d", "e"),
		"e.ts":    "export function e() { return \"e\"; }",
		"ping.ts": next("ping", "pong"), "pong.ts": next("pong", "ping"),
		"secret.ts": "export function secret() { return \"s\"; }", "reads.ts": next("reads", "secret"),
	})
	d, _ := run(t, dir, "policy: open\nfolders: { local: { path: ./tools } }\n"+
		"tools: { local.secret: { labels: [confidential] } }\n")
	for code, want := range map[string]string{
		"return await local.b()": `["b",["c",["d","e"]]]`,
		"return await local.a()": "at most 4 tools of folders can call each other: local.a calls local.b calls " +
			"local.c calls local.d calls local.e",
		"return await local.ping()": "local.ping calls itself: local.ping calls local.pong calls local.ping",
		"return await Promise.all(Array.from({ length: 30 }, () => local.b())).then(l => l.length)": "30",
	} {
		x := execute(t, d.Client(), code)
		got := string(x.Value)
		if x.Error != nil {
			got = x.Error.Message
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
	x, err := d.Client().Run(t.Context(), api.RunRequest{Code: "return await local.reads()"})
	if err != nil || x.Error != nil {
		t.Fatalf("a tool that reads: %+v, %v", x, err)
	}
	e, err := d.Client().Execution(t.Context(), x.ID)
	if err != nil || strings.Join(e.Labels, " ") != "confidential" {
		t.Errorf("labels of what a tool read: got %+v, %v, want confidential", e, err)
	}
}

// TestFolderTier checks that files never run at a weaker tier than the configuration says.
func TestFolderTier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTools(t, dir, map[string]string{"a.ts": "export function a() {}"})
	d, _ := run(t, dir, "policy: open\nfolders: { local: { path: ./tools, tier: gvisor } }\n")
	_ = execute(t, d.Client(), "return Object.keys(tools.local)")
	all, err := d.Client().Upstreams(t.Context())
	if err != nil || len(all) != 1 || all[0].Tools != 0 || len(all[0].Broken) != 1 ||
		!strings.Contains(all[0].Broken[0].Reason, "gvisor") {
		t.Errorf("a tier that this build lacks: %+v, %v", all, err)
	}
}

// TestFolderExecutables runs executables that manifests describe, in process sandboxes.
func TestFolderExecutables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTools(t, dir, map[string]string{
		"db/count.tool.yaml": "description: Counts words.\nread_only: true\nparameters:\n  type: object\n" +
			"  properties: { text: { type: string } }\n  required: [text]\n",
		"db/count.sh":    "#!/bin/sh\nread -r line\necho \"$line $TOKEN $(cat a.csv) $(ls .tool)\"\n",
		"fail.tool.yaml": "args: [\"it's\", --x]\n", "fail.sh": "#!/bin/sh\necho \"no order $1 $2\" >&2\nexit 3\n",
		"big.tool.yaml": "title: big\n", "big.sh": "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\n",
		"nest.tool.yaml":  "title: n\n",
		"nest.sh":         "#!/bin/sh\necho '{\"nested\":'; tool local.db.count --text a; echo }\n",
		"reads.tool.yaml": "read_only: true\n", "reads.sh": "#!/bin/sh\ntool local.fail\n",
	})
	if err := os.WriteFile(filepath.Join(dir, "a.csv"), []byte("id,name"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	d, _ := run(t, dir, "policy: open\nfolders: { local: { path: ./tools, env: { TOKEN: \"it's 5\" }, "+
		"files: { a.csv: ./a.csv } } }\n")
	for _, c := range d.Sandboxes(t.Context()) {
		if c.Driver == "process" && c.Reason != "" {
			t.Skipf("process sandboxes can't run here: %s", c.Reason)
		}
	}
	for code, want := range map[string]string{
		`return await local.db.count("a b")`: `{\"text\":\"a b\"} `,
		`return await local.db.count({})`:    "text: missing",
		`return await local.fail()`:          "exit status 3; the last lines of standard error:\nno order it's --x",
		`return await local.big()`:           "its output has over 65.5 KB",
		`return (await local.nest()).nested`: `{\"text\":\"a\"} `,
		`return await local.reads()`:         "says that it is read-only, so it can't call local.fail",
	} {
		x := execute(t, d.Client(), code)
		got := string(x.Value)
		if x.Error != nil {
			got = x.Error.Message
		}
		if !strings.Contains(got, want) || strings.Contains(want, "text\\") && !strings.Contains(got, "id,name") {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}

// TestExplainKey checks that a decision on a call of an existing key is explained as it would be
// made: with the key's tools and groups, and as long as the key is valid.
func TestExplainKey(t *testing.T) {
	t.Parallel()
	dir := withPolicies(t, `permit (principal, action, resource);
		@id("team") forbid (principal in Group::"team", action, resource) when { resource.name == "two" };`)
	writeTools(t, dir, map[string]string{"one.ts": caught("one", "1"), "two.ts": caught("two", "2")})
	d, _ := run(t, dir, around+"folders: { local: { path: ./tools } }\n")
	for _, k := range []api.KeyRequest{{Name: "narrow", Tools: []string{"local.one"}},
		{Name: "team", Groups: []string{"team"}}, {Name: "gone"}} {
		if _, err := d.Client().Keys().Create(t.Context(), k); err != nil {
			t.Fatalf("create a key: %v", err)
		}
	}
	if _, err := d.Client().Keys().Revoke(t.Context(), "gone"); err != nil {
		t.Fatalf("revoke a key: %v", err)
	}
	for _, c := range []struct{ as, tool, effect, policy string }{
		{"key:narrow", "local.one", "allow", "own.cedar:1"}, {"key:narrow", "local.two", "deny", "credential"},
		{"key:narrow", "biplane.fetch", "deny", "credential"},
		{"key:narrow", "biplane.execute", "allow", "own.cedar:1"},
		{"key:team", "local.one", "allow", "own.cedar:1"}, {"key:team", "local.two", "deny", "team"},
		{"key:gone", "local.one", "deny", "credential"}, {"key:future", "local.two", "allow", "own.cedar:1"},
	} {
		q := api.PolicyQuestion{Tool: c.tool, Principal: api.PolicyPrincipal{ID: c.as}}
		if c.tool == "biplane.fetch" {
			q.Arguments = json.RawMessage(`{"url": "https://a.example/"}`)
		}
		x, err := d.Client().Policies().Explain(t.Context(), q)
		if err != nil || x.Effect != c.effect || x.Policy != c.policy || x.Shown != (x.Policy != "credential" &&
			x.Policy != "team") {
			t.Errorf("%s as %s is explained as %+v, %v, want %s by %s", c.tool, c.as, x, err, c.effect, c.policy)
		}
	}
}
