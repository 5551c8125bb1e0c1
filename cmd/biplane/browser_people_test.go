package main

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// TestBrowserPeople signs in at an issuer of another site with a real browser, which applies the
// rules for cookies and the policy for content.
func TestBrowserPeople(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browserPath(t)
	t.Parallel()
	i, err := identitytest.NewIssuer()
	if err != nil {
		t.Fatalf("identitytest.NewIssuer: %v", err)
	}
	t.Cleanup(i.Close)
	i.SetPerson("the client's", identitytest.Claims{"groups": []string{"leads"}}, nil)
	dir, port := t.TempDir(), peertest.Port(t)
	base := "http://localhost:" + port // the issuer is at 127.0.0.1
	writeFile(t, filepath.Join(dir, "CLIENT"), "the client's", 0o600)
	serveProcess(t, dir, "secrets: [{ file: . }]\nauth:\n  keys: false\n  resource: '"+base+"/mcp'\n"+
		"  sign_in:\n    issuer: '"+i.URL+"'\n    client_id: biplane\n"+
		"    client_secret: '${secret:CLIENT}'\n    roles: { auditor: ['group:leads'] }\n", "127.0.0.1:"+port)
	c := newChrome(t, base)
	var at string
	c.do(t, c.ctx, chromedp.Navigate(base+"/audit?kind=sign-in"), see("input[name=key]"), click("a.button"),
		see("header .who"), chromedp.Location(&at))
	if at != base+"/audit?kind=sign-in" {
		t.Errorf("after the sign-in the browser is at %s, want the page that was asked for", at)
	}
	c.do(t, c.ctx, chromedp.Submit("form[action='/sign-out']"), see("input[name=key]"))
	c.checkProblems(t)
}
