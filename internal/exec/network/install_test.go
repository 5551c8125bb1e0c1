//go:build linux

package network_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// makeWheel returns a wheel of the Python package demo.
func makeWheel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	var record strings.Builder
	add := func(name, text string) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
		sum := sha256.Sum256([]byte(text))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	const info = "demo-1.0.dist-info/"
	add("demo.py", "answer = 42\n")
	add(info+"METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
	add(info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	add(info+"RECORD", record.String()+info+"RECORD,,\n")
	if err := w.Close(); err != nil {
		t.Fatalf("close the wheel: %v", err)
	}
	return b.Bytes()
}

// makeTarball returns a package of npm with the name demo.
func makeTarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range []struct{ name, text string }{
		{"package/package.json", `{"name":"demo","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", "module.exports = 42;\n"},
	} {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))})
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatalf("write %s: %v", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("close the archive: %v", err)
	}
	if err := z.Close(); err != nil {
		t.Fatalf("close the archive: %v", err)
	}
	return b.Bytes()
}

// TestInstall installs packages with pip and npm from an index, through TLS that passes through,
// and through TLS that is opened.
func TestInstall(t *testing.T) {
	r := newRig(t, rule{host: "a.test"}, rule{host: "b.test", method: "GET"})
	wheel, tarball := makeWheel(t), makeTarball(t)
	sum, long := sha256.Sum256(wheel), sha512.Sum512(tarball)
	const file = "demo-1.0-py3-none-any.whl"
	r.files = map[string][]byte{
		"/simple/demo/":  fmt.Appendf(nil, `<a href="/files/%s#sha256=%x">%s</a>`, file, sum, file),
		"/files/" + file: wheel, "/demo.tgz": tarball}
	for _, host := range []string{"a.test", "b.test"} {
		manifest, err := json.Marshal(map[string]any{"name": "demo", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "demo", "version": "1.0.0",
				"dist": map[string]string{"tarball": fmt.Sprintf("https://%s:%d/demo.tgz", host, r.secure),
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(long[:])}}}})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		r.files["/demo"] = manifest
		for _, c := range []struct{ name, needs, code string }{
			{"pip", "python3 -m pip --version", `python3 -m pip install -q --disable-pip-version-check ` +
				`--target /tmp/py --index-url https://HOST:SECURE/simple/ demo && cd /tmp/py && ` +
				`python3 -c 'import sys; sys.path.insert(0, "/tmp/py"); import demo; print(demo.answer)'`},
			{"npm", "npm --version", `mkdir /tmp/js && cd /tmp/js && npm install --no-audit --no-fund ` +
				`--loglevel=error --registry https://HOST:SECURE/ demo && node -p 'require("demo")'`},
		} {
			o := r.run("bash", c.needs+" > /dev/null 2>&1 || echo missing")
			if strings.Contains(string(o.Value), "missing") {
				t.Logf("%s is not installed in /usr: not tried", c.name)
				continue
			}
			o = r.run("bash", strings.ReplaceAll(c.code, "HOST", host))
			if calls, seen, notes := r.recorded(); !o.Done || !strings.Contains(string(o.Value), "42") {
				t.Errorf("%s from %s: value %s, %+v; decisions %q, the servers saw %q, notes %q", c.name, host, o.Value,
					o.Fail, calls, seen, notes)
			}
		}
	}
}

// TestRebinding checks that a name whose address changes is looked up once for each connection, and
// that the address that is connected to was checked.
func TestRebinding(t *testing.T) {
	r := newRig(t, rule{host: "flip.test"}) // whatever its requests are: each is a connection
	for _, next := range []string{"169.254.169.254", "127.9.9.9", "::1"} {
		r.addrs["flip.test"], r.moves = "127.0.0.1", map[string]string{"flip.test": next}
		o := r.run("bash", `for i in 1 2; do curl -sk --noproxy '*' https://flip.test:SECURE/$i; echo; done`)
		_, seen, notes := r.recorded()
		if strings.Count(string(o.Value), "hello from flip.test") != 1 ||
			!strings.Contains(strings.Join(notes, " "), "has no public address") || len(seen) != 1 {
			t.Errorf("to %s: value %s, %+v; the servers saw %q, notes %q", next, o.Value, o.Fail, seen, notes)
		}
	}
}
