//go:build linux

package network_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/probe"
)

// TestShellPrograms runs curl, with and without the proxy, against permitted and other hosts.
func TestShellPrograms(t *testing.T) {
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET", path: "/open"}, rule{host: "plain.test"},
		rule{host: "private.test"}, rule{host: "metadata.test"}, rule{host: "mapped.test"})
	for _, c := range []struct{ name, code, want, seen string }{
		{"TLS through the proxy", `curl -sS https://a.test:SECURE/x`, "hello from a.test", "a.test GET /x"},
		{"TLS without a proxy", `curl -sS --noproxy '*' https://a.test:SECURE/x`, "hello from a.test", "a.test GET /x"},
		{"HTTP through the proxy", `curl -sS http://plain.test:PLAIN/x?y=1`, "hello from plain.test",
			"plain.test GET /x?y=1"},
		{"HTTP without a proxy", `curl -sS --noproxy '*' http://plain.test:PLAIN/x`, "hello from plain.test",
			"plain.test GET /x"},
		{"opened TLS", `curl -sS https://b.test:SECURE/open/x`, "hello from b.test", "b.test GET /open/x"},
		{"opened TLS without a proxy", `curl -sS --noproxy '*' https://b.test:SECURE/open`, "hello from b.test",
			"b.test GET /open"},
		{"another path", `curl -sS https://b.test:SECURE/closed`, "biplane: biplane.fetch to b.test is denied", ""},
		{"another method", `curl -sS -d x https://b.test:SECURE/open`, "biplane: biplane.send to b.test is denied", ""},
		{"an unknown host", `curl -sS https://c.test/ 2>&1; true`, "CONNECT tunnel failed, response 403", ""},
		{"an unknown host without a proxy", `curl -sS --noproxy '*' https://c.test/ 2>&1; true`,
			"Could not resolve host: c.test", ""},
		{"an address that may not be reached", `curl -sS http://private.test/x`, "has no public address", ""},
		{"the metadata service", `curl -sS http://metadata.test/x`, "has no public address", ""},
		{"a mapped address", `curl -sS http://mapped.test/x`, "has no public address", ""},
	} {
		o := r.run("bash", c.code)
		_, seen, notes := r.recorded()
		if !o.Done || !strings.Contains(string(o.Value), c.want) || strings.Join(seen, "; ") != c.seen {
			t.Errorf("%s: value %s, %+v, %v; the servers saw %q, notes %q; want %q, seen %q", c.name, o.Value, o.Fail,
				o.Err, seen, notes, c.want, c.seen)
		}
	}
}

// TestClients runs ordinary clients of other languages.
func TestClients(t *testing.T) {
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET"})
	for _, c := range []struct{ name, runtime, code, want string }{
		{"Python", "python", `import urllib.request
"".join(urllib.request.urlopen("https://%s.test:SECURE/" % s).read().decode() for s in "ab")`,
			`"hello from a.testhello from b.test"`},
		{"Python without a proxy", "python", `import urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open("https://b.test:SECURE/").read().decode()`,
			`"hello from b.test"`},
		{"fetch of Node.js in a child", "bash",
			`node -e 'fetch("https://b.test:SECURE/").then(r => r.text()).then(console.log)'`,
			"hello from b.test"},
		{"https of Node.js", "js", `const https = require("https");
(async () => await new Promise((resolve, reject) => https.get("https://b.test:SECURE/", (r) => {
	let s = ""; r.on("data", (d) => s += d); r.on("end", () => resolve(s)); }).on("error", reject)))`,
			`"hello from b.test"`},
	} {
		o := r.run(c.runtime, c.code)
		calls, _, notes := r.recorded()
		if !o.Done || !strings.Contains(string(o.Value), c.want) {
			t.Errorf("%s: value %s, %+v, %v, notes %q, decisions %q; want %s", c.name, o.Value, o.Fail, o.Err, notes,
				calls, c.want)
		}
	}
}

// TestRecord checks that each connection and each refused name is decided on, once.
func TestRecord(t *testing.T) {
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET"})
	o := r.run("bash", `curl -sS https://a.test:SECURE/x https://a.test:SECURE/y
curl -sS https://b.test:SECURE/z
getent hosts c.test; getent hosts c.test; true`)
	calls, _, _ := r.recorded()
	want := []string{
		fmt.Sprintf("allow CONNECT https://a.test:%d/", r.secure),
		fmt.Sprintf("allow GET https://b.test:%d/z", r.secure),
		"deny CONNECT https://c.test:443/"}
	if !o.Done || !slices.Equal(calls, want) {
		t.Errorf("decisions %q, %+v; want %q", calls, o, want)
	}
}

// TestEscapes runs the programs that try to get out of a sandbox, in one with a network.
func TestEscapes(t *testing.T) {
	r := newRig(t, rule{host: "a.test"})
	o := r.run("python", probe.Escapes)
	if !o.Done || string(o.Value) != "[]" {
		t.Errorf("Python: value %s, %+v, %v; want []", o.Value, o.Fail, o.Err)
	}
	_, seen, _ := r.recorded()
	if len(seen) > 0 {
		t.Errorf("the servers saw %q, want nothing", seen)
	}
}
