package daemon_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestNotices runs a program that needs approval, with a webhook that must hear of it, and sends a
// test.
func TestNotices(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Webhook-Signature") == "" {
			t.Error("the notice is not signed")
		}
		got <- string(body)
	}))
	t.Cleanup(hook.Close)
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nmcpServers: { peer: { url: '"+p.URL+"' } }\n"+
		"notify: { hook: { webhook: '"+hook.URL+"/secret-path', secret: 0123456789abcdef, per_minute: 600 } }")
	defer stop()
	c := d.Client()
	x, err := c.Run(t.Context(), api.RunRequest{Code: "await peer.meet({ n: 12345 })", NoWait: true})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	body := <-got
	var n struct{ Kind, Subject, Command string }
	if err := json.Unmarshal([]byte(body), &n); err != nil || n.Kind != "approval" || n.Subject != "peer.meet" ||
		!strings.HasPrefix(n.Command, "biplane approvals show ") {
		t.Errorf("the notice is %s, want that of the call of peer.meet", body)
	}
	if strings.Contains(body, "12345") || strings.Contains(body, "local:") {
		t.Errorf("the notice has arguments or a principal: %s", body)
	}
	all, err := c.Notices().SendTest(t.Context(), "hook")
	if err != nil || len(all) != 1 || all[0].Error != "" || strings.Contains(all[0].Place, "secret-path") {
		t.Errorf("the result of a test is %+v, %v", all, err)
	}
	if body := <-got; !strings.Contains(body, `"kind":"test"`) {
		t.Errorf("the test is %s", body)
	}
	if err := c.StopExecution(t.Context(), x.ID); err != nil {
		t.Errorf("StopExecution: %v", err)
	}
}

// TestNoticesAfterReload changes the address of a channel, and adds one, while the daemon runs.
func TestNoticesAfterReload(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	t.Cleanup(hook.Close)
	text := "policy: open\nnotify: { a: { webhook: '" + hook.URL + "/first', secret: 0123456789abcdef } }\n"
	d, e := runEdited(t, text)
	sent := func(want ...string) {
		t.Helper()
		all, err := d.Client().Notices().SendTest(t.Context(), "")
		if err != nil || len(all) != len(want) {
			t.Fatalf("SendTest: %+v, %v, want %d channels", all, err, len(want))
		}
		for _, path := range want {
			if at := <-got; at != path {
				t.Errorf("the notice arrived at %s, want %s", at, path)
			}
		}
	}
	sent("/first")
	e.change(strings.ReplaceAll(text, "/first'", "/second'"))
	if s := statusOf(t, d); s.Reload == nil || s.Reload.Problem != "" || len(s.Reload.Restart) > 0 {
		t.Fatalf("the reload is %+v, want it in force", s.Reload)
	}
	sent("/second")
	e.change("policy: open\n")
	if all, err := d.Client().Notices().ListChannels(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the channels are %+v, %v, want none", all, err)
	}
}

// newHook returns the configuration of a webhook, and what arrives there.
func newHook(t *testing.T) (config string, got chan string) {
	t.Helper()
	got = make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(hook.Close)
	return "notify: { hook: { webhook: '" + hook.URL + "', secret: 0123456789abcdef, per_minute: 600 } }\n", got
}

// checkExpiring notifies people twice of what expires soon after now. One notice must arrive, of a
// subject and without the name.
func checkExpiring(t *testing.T, d *daemon.Daemon, got chan string, now time.Time, subject, page, name string) {
	t.Helper()
	for range 2 {
		d.NoticeExpiries(t.Context(), now)
	}
	if _, err := d.Client().Notices().SendTest(t.Context(), "hook"); err != nil {
		t.Errorf("SendTest: %v", err)
	}
	kinds := map[string]int{}
	for range 2 {
		var n struct{ Kind, Subject, Link string }
		body := <-got
		if err := json.Unmarshal([]byte(body), &n); err != nil || strings.Contains(body, name) {
			t.Errorf("the notice is %s, with error %v; want it without a name", body, err)
		}
		if kinds[n.Kind]++; n.Kind == "expiring" && (n.Subject != subject || !strings.HasSuffix(n.Link, page)) {
			t.Errorf("the notice is %+v, want one about %s with a link to %s", n, subject, page)
		}
	}
	if kinds["expiring"] != 1 || len(got) > 0 {
		t.Errorf("the notices are %v, and %d more; want one of what expires", kinds, len(got))
	}
}

// TestExpiryNotices checks that a key that expires soon is in one notice, without its name.
func TestExpiryNotices(t *testing.T) {
	t.Parallel()
	hook, got := newHook(t)
	d, stop := run(t, t.TempDir(), "policy: open\nauth: { keys: true }\n"+hook)
	defer stop()
	day := 24 * time.Hour
	for name, life := range map[string]time.Duration{"ann": 8 * day, "ben": 20 * day, "short": day} {
		makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}, ExpiresSeconds: int64(life.Seconds())})
	}
	checkExpiring(t, d, got, time.Now().Add(2*day), "1 API key", "/keys", "ann")
}

// TestCertificateNotices checks that a certificate that expires soon is in one notice, and in
// another one if it was replaced by one that does, too.
func TestCertificateNotices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir) // for an hour
	hook, got := newHook(t)
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "policy: open\nauth: { keys: true }\n"+hook+
		"tls: { cert: cert.pem, key: key.pem }")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	defer stop()
	const subject = "1 certificate of the server"
	d.NoticeExpiries(t.Context(), time.Now().Add(-15*24*time.Hour)) // too early
	checkExpiring(t, d, got, time.Now(), subject, "/", "cert.pem")
	until(t, func() bool { // certificates expire at full seconds
		certificate(t, dir)
		d.NoticeExpiries(t.Context(), time.Now())
		return len(got) > 0
	})
	if body := <-got; !strings.Contains(body, subject) {
		t.Errorf("after another certificate: %s, want another notice", body)
	}
}

// TestSandboxNotices checks that a sandbox that ends soon is in one notice, without its name.
func TestSandboxNotices(t *testing.T) {
	t.Parallel()
	hook, got := newHook(t)
	r, c := newOwnRig(t, "", "auth: { keys: true }\n"+hook)
	for name, hours := range map[string]float64{"ann": 30, "ben": 72, "short": 12, "unlimited": 0} {
		q := api.OwnSandboxRequest{Name: name, TTLSeconds: hours * 3600}
		if _, err := c.CreateSandbox(t.Context(), q); err != nil {
			t.Fatalf("CreateSandbox: %v", err)
		}
	}
	checkExpiring(t, r.d, got, time.Now().Add(10*time.Hour), "1 sandbox", "/sessions", "ann")
}

// TestSignInNotices checks that people are told once when the sign-in at an upstream has ended.
func TestSignInNotices(t *testing.T) {
	t.Parallel()
	e := daemon.NewExpiries()
	for i, c := range []struct {
		state string
		want  bool
	}{{"needs sign-in", false}, {"ready", false}, {"needs sign-in", true}, {"needs sign-in", false}, {"down", false},
		{"ready", false}} {
		if got := e.LostSignIn("github", c.state); got != c.want {
			t.Errorf("state %d, %s: the sign-in is lost: %v, want %v", i, c.state, got, c.want)
		}
	}
}
