//go:build linux

package network_test

import (
	"fmt"
	"net/http/cgi"
	"os/exec"
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

// TestUnreachable checks that a note says why a permitted connection ends at once.
func TestUnreachable(t *testing.T) {
	r := newRig(t, rule{host: "gone.test"})
	const want = `network: connect to gone.test:443: the host name "gone.test" is unknown`
	for _, code := range []string{`curl -sS https://gone.test/; true`,
		`curl -sS --noproxy '*' https://gone.test/; true`} {
		o := r.run("bash", code)
		if _, _, notes := r.recorded(); !o.Done || len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
			t.Errorf("%s: %v, notes %q, want one that begins with %q", code, o, notes, want)
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

// TestSecret checks that a program that holds a placeholder uses a secret, and sees none of it.
func TestSecret(t *testing.T) {
	r := newRig(t, rule{host: "*"})
	o := r.run("bash", `env; curl -sSi -H "Authorization: Bearer $TOKEN" https://b.test:SECURE/echo
curl -sSi --noproxy '*' -H "Authorization: Bearer $TOKEN" https://a.test:SECURE/echo | tail -20
curl -sS -H "Authorization: Bearer $TOKEN" https://b.test:SECURE/other`)
	_, seen, _ := r.recorded()
	value := string(o.Value)
	if !o.Done || !r.secret || strings.Contains(value, hidden) || !strings.Contains(value, "[redacted]") ||
		!strings.Contains(value, "is only sent to paths") || len(seen) != 2 {
		t.Errorf("value %s, %+v; the servers saw %q, with the secret: %v", o.Value, o.Fail, seen, r.secret)
	}
}

// TestGit clones a repository over HTTPS, with the smart protocol.
func TestGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skipf("git is not installed: %v", err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "r.git"}, {"-C", "r.git", "-c", "user.name=a", "-c",
		"user.email=a@b", "commit", "-q", "--allow-empty", "-m", "the first"}} {
		c := exec.CommandContext(t.Context(), git, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET"}, rule{host: "b.test", method: "POST",
		path: "/git/r.git/git-upload-pack"})
	r.git = &cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	for _, host := range []string{"a.test", "b.test"} {
		o := r.run("bash", "git clone -q https://"+host+":SECURE/git/r.git x && git -C x log --format=%s; rm -rf x")
		if !o.Done || !strings.Contains(string(o.Value), "the first") {
			calls, seen, notes := r.recorded()
			t.Errorf("%s: value %s, %+v; decisions %q, the servers saw %q, notes %q", host, o.Value, o.Fail, calls,
				seen, notes)
		}
	}
}

// TestAttacks makes connections that must not reach a server, to hosts that policy permits.
func TestAttacks(t *testing.T) {
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET"}, rule{host: "plain.test"})
	for _, c := range []struct{ name, code, want string }{
		{"another name in TLS",
			`curl -sSk --connect-to c.test:SECURE:a.test:SECURE https://c.test:SECURE/ 2>&1; true`, ""},
		{"another permitted name in TLS",
			`curl -sSk --connect-to b.test:SECURE:a.test:SECURE https://b.test:SECURE/ 2>&1; true`, ""},
		{"another Host in opened TLS", `curl -sS -H 'Host: a.test' https://b.test:SECURE/`, "both must be the same"},
		{"another Host", `curl -sS --noproxy '*' -H 'Host: c.test' http://plain.test:PLAIN/`, "both must be the same"},
		{"another Host, in pieces", `exec 3<>/dev/tcp/plain.test/PLAIN; printf G >&3
			printf 'ET / HTTP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, "both must be the same"},
		{"another Host, after an empty line", `exec 3<>/dev/tcp/plain.test/PLAIN
			printf '\r\nGET / HTTP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, ""},
		{"another Host, late", `exec 3<>/dev/tcp/plain.test/PLAIN; sleep 1
			printf 'GET / HTTP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, ""},
		{"another Host, with an unknown method, in pieces", `exec 3<>/dev/tcp/plain.test/PLAIN
			printf PUR >&3; sleep 0.2; printf 'GE / HT' >&3; sleep 0.2
			printf 'TP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, ""},
		{"another Host, with an unknown method, in pieces, late", `exec 3<>/dev/tcp/plain.test/PLAIN; sleep 1
			printf PUR >&3; sleep 0.2; printf 'GE / HTTP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, ""},
		{"another Host, with an unknown method", `exec 3<>/dev/tcp/plain.test/PLAIN
			printf 'PURGE / HTTP/1.1\r\nHost: c.test\r\n\r\n' >&3; cat <&3`, ""},
		{"a suffix", `curl -sS -o /dev/null -w '%{http_code}' http://evil-a.test/`, "403"},
		{"a longer name", `curl -sS -o /dev/null -w '%{http_code}' http://a.test.evil/`, "403"},
		{"a redirect",
			`curl -sSL https://a.test:SECURE/redirect?to=http://127.9.9.9/ -o /dev/null -w '%{http_code}'`, "403"},
		{"WebSockets", `curl -sS -H 'Connection: Upgrade' -H 'Upgrade: websocket' http://plain.test:PLAIN/`,
			"WebSockets need TLS"},
	} {
		o := r.run("bash", c.code)
		calls, seen, notes := r.recorded()
		seen = slices.DeleteFunc(seen, func(s string) bool { return strings.Contains(s, "/redirect") })
		if !strings.Contains(string(o.Value), c.want) || len(seen) > 0 {
			t.Errorf("%s: value %s, %+v; decisions %q, the servers saw %q, notes %q; want %q, and nothing seen", c.name,
				o.Value, o.Fail, calls, seen, notes, c.want)
		}
	}
}
