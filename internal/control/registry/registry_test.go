package registry

import (
	"context"
	"crypto/ed25519"
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

	"github.com/biplane-dev/biplane/internal/base/wallclock"
)

// newKey returns a key from a file that GenerateKey made.
func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	text, public, err := GenerateKey()
	if err != nil {
		t.Fatalf("GenerateKey: %v", err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	key, err := LoadKey(path)
	if err != nil {
		t.Fatalf("LoadKey: %v", err)
	}
	parsed, err := ParseKey(FormatKey(public))
	if err != nil || !parsed.Equal(key.Public()) {
		t.Fatalf("ParseKey: got %v, %v, want the public key of the private one", parsed, err)
	}
	return key
}

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

const weather = `{"name": "io.github.user/weather", "description": "Weather", "version": "1.0.2", "packages": [
	{"registryType": "npm", "identifier": "weather-mcp", "version": "1.0.2", "transport": {"type": "stdio"}}]}`

// listText returns the text of a list with one server.
func listText(version int, more string) string {
	return fmt.Sprintf(`{"list": "acme", "version": %d, %s "servers": [{"server": %s}]}`, version, more, weather)
}

func signText(t *testing.T, text string, keys ...ed25519.PrivateKey) []byte {
	t.Helper()
	raw := []byte(text)
	for _, k := range keys {
		var err error
		if raw, _, err = SignText(raw, k); err != nil {
			t.Fatalf("SignText: %v", err)
		}
	}
	return raw
}

// A listServer serves a text, which may change, or a status.
type listServer struct {
	text   atomic.Pointer[[]byte]
	status atomic.Int32
	reads  atomic.Int32
	*httptest.Server
}

func newListServer(t *testing.T) *listServer {
	t.Helper()
	s := &listServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reads.Add(1)
		if code := int(s.status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		w.Write(*s.text.Load())
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *listServer) setText(text []byte) { s.text.Store(&text) }

// TestOpen checks what is accepted from an address, in order: each step changes what the server
// answers.
func TestOpenList(t *testing.T) {
	key, other := newKey(t), newKey(t)
	server := newListServer(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	source := Source{Place: server.URL + "/list.json", Keys: []ed25519.PublicKey{publicOf(key)}, Folder: t.TempDir(),
		Refresh: true, Clock: wallclock.At(now)}
	good := signText(t, listText(2, `"expires": "2026-06-01T00:00:00Z",`), key)
	tampered := strings.Replace(string(good), "weather-mcp", "weather-evil", 1)
	steps := []struct {
		name, text string
		version    int64 // that is in force; 0: none
		problem    string
	}{
		{"not signed", listText(1, ""), 0, "it is not signed"},
		{"by another key", string(signText(t, listText(1, ""), other)), 0, "none of its signatures is by a key"},
		{"changed after it was signed", tampered, 0, "its signature is invalid"},
		{"another key in its name", strings.Replace(string(signText(t, listText(1, ""), other)),
			FormatKey(publicOf(other)),
			FormatKey(publicOf(key)), 1), 0, "its signature is invalid"},
		{"not JSON", "<html>", 0, "not a JSON object"},
		{"huge", string(good) + strings.Repeat(" ", maxList), 0, "more than 4 MiB"},
		{"unknown member", string(signText(t, listText(1, ""), key)[:1]) + `"x":1,` +
			string(signText(t, listText(1, ""), key)[1:]), 0, "its signature is invalid"},
		{"good", string(good), 2, ""},
		{"older", string(signText(t, listText(1, ""), key)), 2, "it has version 1, and version 2 was accepted"},
		{"the same version, changed", string(signText(t, listText(2, ""), key)), 2, "a changed list needs a higher"},
		{"changed after it was signed", tampered, 2, "its signature is invalid"},
		{"by two keys, newer", string(signText(t, listText(3, ""), other, key)), 3, ""},
		{"the former one", string(good), 3, "version 3 was accepted before"},
	}
	for _, step := range steps {
		server.setText([]byte(step.text))
		got, err := OpenList(context.Background(), source)
		switch {
		case step.version == 0:
			if err == nil || !strings.Contains(err.Error(), step.problem) {
				t.Errorf("%s: got %v, want an error with %q", step.name, err, step.problem)
			}
		case err != nil || got.Version != step.version || !strings.Contains(got.Problem, step.problem) ||
			(got.Problem == "") != (step.problem == ""):
			t.Errorf("%s: got %+v, %v, want version %d with the problem %q", step.name, got, err, step.version,
				step.problem)
		}
	}
}

// TestOpenOffline checks that the accepted list is used if its address fails, until it expires, and
// that a fresh one is not read again.
func TestOpenOffline(t *testing.T) {
	key := newKey(t)
	server := newListServer(t)
	server.setText(signText(t, listText(5, `"expires": "2026-06-01T00:00:00Z",`), key))
	day := func(month time.Month) *wallclock.Clock {
		return wallclock.At(time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC))
	}
	source := Source{Place: server.URL, Keys: []ed25519.PublicKey{publicOf(key)}, Folder: t.TempDir(), Clock: day(1)}
	for range 3 {
		if _, err := OpenList(context.Background(), source); err != nil {
			t.Fatalf("OpenList: %v", err)
		}
	}
	if n := server.reads.Load(); n != 1 {
		t.Errorf("the address was read %d times, want 1", n)
	}
	server.status.Store(503)
	source.Clock = day(5)
	got, err := OpenList(context.Background(), source)
	if err != nil || got.Version != 5 || !strings.Contains(got.Problem, "status 503") {
		t.Errorf("got %+v, %v, want version 5 and the problem of status 503", got, err)
	}
	server.Close()
	if got, err := OpenList(context.Background(), source); err != nil || got.Problem == "" {
		t.Errorf("without a server: got %+v, %v", got, err)
	}
	source.Clock = day(7)
	if _, err := OpenList(context.Background(), source); err == nil || !strings.Contains(err.Error(),
		"expired on 2026-06-01") {
		t.Errorf("got %v, want an expired list", err)
	}
	source.Clock, source.Keys = day(5), []ed25519.PublicKey{publicOf(newKey(t))}
	if _, err := OpenList(context.Background(), source); err == nil {
		t.Error("the list of a key that the configuration no longer has was accepted")
	}
}

func TestOpenFile(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	path := filepath.Join(dir, "list.json")
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	source := Source{Place: path, Keys: []ed25519.PublicKey{publicOf(key)}, Folder: filepath.Join(dir, "data")}
	write(signText(t, listText(2, ""), key))
	if got, err := OpenList(context.Background(), source); err != nil || got.Signer != FormatKey(publicOf(key)) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		listText(3, ""): "it is not signed", string(signText(t, listText(1, ""), key)): "version 2 was accepted before",
	} {
		write([]byte(text))
		if _, err := OpenList(context.Background(), source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	source = Source{Place: path, Unsigned: true}
	write([]byte(listText(3, "")))
	if got, err := OpenList(context.Background(), source); err != nil || got.Signer != "" {
		t.Errorf("unsigned: got %+v, %v", got, err)
	}
	source.Place = dir
	if _, err := OpenList(context.Background(), source); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: got %v", err)
	}
}

// TestRedirects checks that a redirect leads to no address that isn't public or has no https, and
// that it never ends otherwise.
func TestRedirects(t *testing.T) {
	inner := newListServer(t)
	inner.setText([]byte("secret"))
	var to string
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			w.Write([]byte("end"))
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer outer.Close()
	for _, c := range []struct{ to, want string }{
		{inner.URL, "without https"},
		{strings.Replace(inner.URL, "http:", "https:", 1), "no public address"},
		{"https://10.0.0.1/", "no public address"},
		{"https://[::1]/", "no public address"},
		{"https://169.254.169.254/latest", "no public address"},
		{"file:///etc/passwd", "without https"},
		{"/again", "more than 5 times"},
	} {
		to = c.to
		source := Source{Place: outer.URL, Keys: []ed25519.PublicKey{publicOf(newKey(t))}}
		_, err := OpenList(context.Background(), source)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.to, err, c.want)
		}
	}
	if inner.reads.Load() != 0 {
		t.Error("the inner server was read")
	}
	to = "/end"
	source := Source{Place: outer.URL, Keys: []ed25519.PublicKey{publicOf(newKey(t))}}
	_, err := OpenList(context.Background(), source)
	if err == nil || !strings.Contains(err.Error(), "not a JSON object") {
		t.Errorf("a redirect on the same server: got %v, want the text that it leads to", err)
	}
}

func TestListErrors(t *testing.T) {
	key := newKey(t)
	for _, c := range []struct{ text, want string }{
		{`[]`, "not a JSON object"},
		{`{"list":"a"}`,
			"needs a version"},
		{`{"version":1}`,
			"needs a name"},
		{`{"list":"a\u001b","version":1}`,
			"needs a name"},
		{`{"list":"a","version":1,"servers":[{"server":{"name":"x"}}]}`,
			"invalid name"},
		{`{"list":"a","version":1,"servers":[{"sever":{}}]}`,
			"unknown field"},
		{`{"list":"a","version":1,"servers":[{"server":` + weather + `,"versions":"latest"}]}`,
			"three numbers"},
		{`{"list":"a","version":1,"servers":[{"server":` + weather + `,"arguments":"all"}]}`,
			`"listed" or "any"`},
		{`{"list":"a","version":1,"servers":[{"server":` + weather + `},{"server":` + weather + `}]}`,
			"listed twice"},
		{`{"list":"a","version":1,"servers":[{"server":` + weather + `,"commands":[[]]}]}`,
			"a command is empty"},
		{`{"list":"a","version":1,"apis":["ftp://x"]}`,
			"apis"},
		{`{"list":"a","version":1.5}`,
			"malformed"},
		{`{"list":"a","version":1,"servers":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
			"depth"},
	} {
		text, want := c.text, c.want
		if _, _, err := SignText([]byte(text), key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", text, err, want)
		}
	}
}

// TestSignText checks that a signature covers the values, not their formatting, and that it changes
// nothing else of the file.
func TestSignText(t *testing.T) {
	key := newKey(t)
	signed := signText(t, listText(1, `"expires": "2030-01-01T00:00:00Z",`), key)
	var compact map[string]json.RawMessage
	if err := json.Unmarshal(signed, &compact); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	reordered, err := json.Marshal(compact)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	source := Source{Keys: []ed25519.PublicKey{publicOf(key)}}
	for _, text := range [][]byte{signed, reordered, append([]byte("\ufeff"), signed...), signText(t, string(signed),
		key)} {
		if _, err := source.verifyText(text); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	// Of a member that is there twice, the signed one is read.
	twice := strings.Replace(string(signed), `"version": 1,`, `"version": 9, "version": 1,`, 1)
	got, err := source.verifyText([]byte(twice))
	if err != nil || got.accepted.Version != 1 {
		t.Errorf("got %+v, %v, want version 1", got, err)
	}
	if !strings.HasPrefix(string(signed), "{\n  \"list\": \"acme\",\n  \"version\": 1,\n  \"expires\"") {
		t.Errorf("the order has changed: %.100s", signed)
	}
	changed, list, err := ApproveServer(signed, "x", Entry{Server: Server{Name: "a/b"}})
	if err != nil || list.Version != 2 || list.Name != "acme" || strings.Contains(string(changed), "signatures") {
		t.Errorf("ApproveServer: got %s, %v", changed, err)
	}
}

// TestPublic checks the requests to a registry and what is accepted of its answers.
func TestPublic(t *testing.T) {
	var paths []string
	answer := `{"server": ` + weather + `, "_meta": {}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		if strings.Contains(r.URL.Path, "missing") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	r, err := NewRegistry(server.URL + "/base/")
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	s, err := r.FetchServer(context.Background(), "io.github.user/weather", "")
	if err != nil || s.Packages[0].Identifier != "weather-mcp" {
		t.Errorf("FetchServer: got %+v, %v", s, err)
	}
	for name, want := range map[string]string{"io.github.user/other": "instead of",
		"a/missing": "has no server a/missing",
		"../x":      "not the name of a server", "weather": "not the name", "a/b?c": "not the name"} {
		if _, err := r.FetchServer(context.Background(), name, "1.0.0"); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	answer = `{"servers": [{"server": {"name": "\u001b[31m"}}, {"server": ` + weather + `},
		{"server": {"name":"a/gone"}, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}}]}`
	all, err := r.SearchServers(context.Background(), "w&limit=9")
	if err != nil || len(all) != 1 || all[0].Name != "io.github.user/weather" {
		t.Errorf("SearchServers: got %v, %v, want one server", all, err)
	}
	want := []string{"/base/v0.1/servers/io.github.user%2Fweather/versions/latest?"}
	last := paths[len(paths)-1]
	if paths[0] != want[0] || !strings.Contains(last, "search=w%26limit%3D9&version=latest") {
		t.Errorf("requests: %q, %q", paths[0], last)
	}
	answer = strings.Repeat(" ", maxAnswer+1)
	if _, err := r.SearchServers(context.Background(), "x"); err == nil || !strings.Contains(err.Error(),
		"more than 8 MiB") {
		t.Errorf("a huge answer: got %v", err)
	}
	if _, err := NewRegistry("http://registry.example.com"); err == nil {
		t.Error("a registry without https was accepted")
	}
}
