package daemon_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// runForPeople runs a daemon at which people sign in at an issuer, with a client secret that the
// configuration refers to. base is its address.
func runForPeople(t *testing.T, dir string) (i *identitytest.Issuer, base string, stop func()) {
	t.Helper()
	i, err := identitytest.NewIssuer()
	if err != nil {
		t.Fatalf("identitytest.NewIssuer: %v", err)
	}
	t.Cleanup(i.Close)
	i.SetPerson("the client's", identitytest.Claims{"groups": []string{"leads"}}, nil)
	port := peertest.Port(t)
	base = "http://127.0.0.1:" + port
	if err := os.WriteFile(filepath.Join(dir, "CLIENT"), []byte("the client's"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "secrets: [{ file: . }]\nauth:\n  keys: false\n"+
		"  resource: '"+base+"/mcp'\n  sign_in:\n    issuer: '"+i.URL+"'\n    client_id: biplane\n"+
		"    client_secret: '${secret:CLIENT}'\n    roles: { auditor: ['group:leads'] }\n")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	_, stop = runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:" + port})
	return i, base, stop
}

// TestPeopleSignIn signs people in to the console at an OpenID provider.
func TestPeopleSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i, base, stop := runForPeople(t, dir)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatalf("cookiejar.New: %v", err)
	}
	c := &http.Client{Jar: jar}
	load := func(path string) (*http.Response, string) {
		t.Helper()
		resp, err := c.Get(base + path)
		if err != nil {
			t.Fatalf("get %s: %v", path, err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		return resp, string(text)
	}
	if _, text := load("/audit"); !strings.Contains(text, `href="/sign-in/begin?next=%2faudit"`) ||
		!strings.Contains(text, `name="key"`) {
		t.Fatalf("the page of the sign-in doesn't offer both ways:\n%s", text)
	}
	resp, text := load("/sign-in/begin?next=%2Faudit")
	if got := resp.Header.Get("Refresh"); resp.StatusCode != 200 || got != "0; url=/audit" {
		t.Fatalf("the browser comes back: %s, Refresh %q, want the page /audit:\n%s", resp.Status, got, text)
	}
	if resp, text := load("/audit"); resp.StatusCode != 200 || !strings.Contains(text, "ann") ||
		strings.Contains(text, `name="key"`) {
		t.Errorf("the page after the sign-in: %s\n%s", resp.Status, text)
	}
	for _, k := range jar.Cookies(resp.Request.URL) {
		if strings.HasPrefix(k.Name, "biplane-sign-in") {
			t.Errorf("the cookie %s is left", k.Name)
		}
	}
	// A person without a role, who signs in with the same browser, is refused.
	i.SetPerson("the client's", identitytest.Claims{"sub": "eve"}, nil)
	if resp, text := load("/sign-in/begin"); resp.StatusCode != 403 || !strings.Contains(text, "you have no role") {
		t.Errorf("a person without a role: %s\n%s", resp.Status, text)
	}
	// The page of a real provider may send hostile texts.
	if resp, text := load("/sign-in/back?state=x&error=%3Cscript%3E"); resp.StatusCode != 401 ||
		strings.Contains(text, "<script>") {
		t.Errorf("an unexpected answer: %s\n%s", resp.Status, text)
	}
	if resp, err := c.PostForm(base+"/sign-out", nil); err != nil {
		t.Errorf("sign out: %v", err)
	} else {
		resp.Body.Close()
	}
	if _, text := load("/audit"); !strings.Contains(text, `name="key"`) {
		t.Errorf("after the sign-out:\n%s", text)
	}
	stop()
	var got []string
	for _, r := range recorded(t, dir, audit.KindSignIn) {
		got = append(got, strings.TrimSpace(r.Decision.Effect+" "+strings.TrimPrefix(r.Principal, i.URL)))
	}
	if len(got) < 3 || got[0] != "allow #ann" {
		t.Errorf("recorded %q, want the sign-in of ann and two refusals", got)
	}
}
