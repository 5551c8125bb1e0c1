package daemon_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestNotices runs a program that needs approval, with a webhook that must hear of it, and sends a
// test.
func TestNotices(t *testing.T) {
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
	all, err := api.Notices{Client: c}.SendTest(t.Context(), "hook")
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
	got := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	t.Cleanup(hook.Close)
	text := "policy: open\nnotify: { a: { webhook: '" + hook.URL + "/first', secret: 0123456789abcdef } }\n"
	d, e := runEdited(t, text)
	sent := func(want ...string) {
		t.Helper()
		all, err := api.Notices{Client: d.Client()}.SendTest(t.Context(), "")
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
	if all, err := (api.Notices{Client: d.Client()}).ListChannels(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the channels are %+v, %v, want none", all, err)
	}
}

// TestExpiryNotices checks that a key that expires soon is in one notice, without its name.
func TestExpiryNotices(t *testing.T) {
	got := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(hook.Close)
	d, stop := run(t, t.TempDir(), "policy: open\nauth: { keys: true }\n"+
		"notify: { hook: { webhook: '"+hook.URL+"', secret: 0123456789abcdef, per_minute: 600 } }")
	defer stop()
	day := 24 * time.Hour
	for name, life := range map[string]time.Duration{"ann": 8 * day, "ben": 20 * day, "short": day} {
		makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}, ExpiresSeconds: int64(life.Seconds())})
	}
	for range 2 {
		d.NoticeExpiries(t.Context(), time.Now().Add(2*day))
	}
	if _, err := (api.Notices{Client: d.Client()}).SendTest(t.Context(), "hook"); err != nil {
		t.Errorf("SendTest: %v", err)
	}
	kinds := map[string]int{}
	for range 2 {
		var n struct{ Kind, Subject, Link string }
		body := <-got
		if err := json.Unmarshal([]byte(body), &n); err != nil || strings.Contains(body, "ann") {
			t.Errorf("the notice is %s, with error %v; want it without a name", body, err)
		}
		if kinds[n.Kind]++; n.Kind == "expiring" && (n.Subject != "1 API key" || !strings.HasSuffix(n.Link, "/keys")) {
			t.Errorf("the notice is %+v, want that of one key", n)
		}
	}
	if kinds["expiring"] != 1 || len(got) > 0 {
		t.Errorf("the notices are %v, and %d more; want one of keys that expire", kinds, len(got))
	}
}

// TestSignInNotices checks that people are told once when the sign-in at an upstream has ended.
func TestSignInNotices(t *testing.T) {
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
