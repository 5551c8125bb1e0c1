//go:build unix

package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// A purse is an mcp.Auth with tokens set by a test.
type purse struct {
	mu      sync.Mutex
	token   string
	next    string // the token after a renewal; "": none
	err     error
	refused []string
	renewed int
	changed chan struct{}
}

func newPurse(token string) *purse { return &purse{token: token, changed: make(chan struct{}, 1)} }

func (p *purse) Token(_ context.Context, renew bool) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if renew {
		p.renewed++
		if slices.Contains(p.refused, p.token) {
			p.token, p.next = p.next, ""
		}
	}
	return p.token, p.err
}

func (p *purse) RecordRefusal(token string, _ int, _ http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, token)
}

func (p *purse) Changes() <-chan struct{} { return p.changed }

func (p *purse) Redact(s string) string {
	return strings.NewReplacer("one", "[redacted]", "two", "[redacted]").Replace(s)
}

func (p *purse) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// A door is a server that accepts only its token.
type door struct {
	mu    sync.Mutex
	token string
	scope bool // tools/call is answered with 403
	calls int
}

func (d *door) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *door) gate(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+d.token {
		http.Error(w, "not with "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}
}

func (d *door) echo(w http.ResponseWriter, _ *http.Request, m rawMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.scope {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	d.calls++
	(&rawWeb{asJSON: true}).answer(w, []byte(rawAnswer(m)))
}

func guardedWeb(token string) (*rawWeb, *door) {
	d := &door{token: token}
	return &rawWeb{gate: d.gate,
		special: map[string]func(http.ResponseWriter, *http.Request, rawMessage){"echo": d.echo}}, d
}

// TestToken checks that every request carries the token. A request whose token is refused is sent
// again once, with a renewed one.
func TestToken(t *testing.T) {
	p, d := guardedWeb("one")
	a := newPurse("one")
	r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: a}))
	r.Ready(t)
	d.set(func() { d.token = "two" })
	a.set(func() { a.next = "two" })
	if _, err := r.Do(t.Context(), "echo", `{}`); err != nil {
		t.Fatalf("Do: %v", err)
	}
	p.mu.Lock()
	for _, q := range p.requests {
		if !strings.HasPrefix(q.Header.Get("Authorization"), "Bearer ") {
			t.Errorf("%s without a token", q.Method)
		}
	}
	p.mu.Unlock()
	a.set(func() {
		if d.calls != 1 || a.renewed == 0 || a.refused[0] != "one" {
			t.Errorf("%d calls, %d renewals, refused %v", d.calls, a.renewed, a.refused)
		}
	})
}

// TestTokenEnds checks that an upstream whose token can't be renewed explains what to do. It
// reconnects after a sign-in, by this process or another.
func TestTokenEnds(t *testing.T) {
	for _, here := range []bool{true, false} {
		p, d := guardedWeb("one")
		a := newPurse("one")
		r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: a}))
		r.Ready(t)
		d.set(func() { d.token = "two" })
		if _, err := r.Do(t.Context(), "echo", `{}`); kindOf(err) != tool.Unavailable ||
			!strings.Contains(err.Error(), "run biplane connect peer") || strings.Contains(err.Error(), "Bearer one") {
			t.Errorf("got %v", err)
		}
		s := r.Wait(t, "needs sign-in", func(s upstream.Snapshot) bool { return s.Health.State == tool.NeedsSignIn })
		if strings.Contains(s.Health.Reason, "one") && !strings.Contains(s.Health.Reason, "[redacted]") {
			t.Errorf("shows the token: %s", s.Health.Reason)
		}
		a.set(func() { a.token = "two" })
		if here {
			a.changed <- struct{}{}
		}
		r.Ready(t)
		if _, err := r.Do(t.Context(), "echo", `{}`); err != nil {
			t.Errorf("Do: %v", err)
		}
		if here { // a user signs out: it notices without a call
			a.set(func() { a.token = "" })
			a.changed <- struct{}{}
			r.Wait(t, "signed out", func(s upstream.Snapshot) bool { return s.Health.State == tool.NeedsSignIn })
		}
		r.Close(t)
	}
}

// TestScope checks that a call with insufficient rights fails alone.
func TestScope(t *testing.T) {
	p, d := guardedWeb("one")
	a := newPurse("one")
	r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: a}))
	r.Ready(t)
	d.set(func() { d.scope = true })
	if _, err := r.Do(t.Context(), "echo", `{}`); kindOf(err) != tool.Denied ||
		!strings.Contains(err.Error(), "requires more rights") ||
		!strings.Contains(err.Error(), "run biplane connect peer") {
		t.Errorf("got %v", err)
	}
	d.set(func() { d.scope = false })
	if _, err := r.Do(t.Context(), "echo", `{}`); err != nil {
		t.Errorf("Do: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions != 1 || a.renewed != 0 {
		t.Errorf("%d sessions, %d renewals", p.sessions, a.renewed)
	}
}

// TestTokenUnknown checks that an upstream is down, not waiting for a sign-in, while its token is
// unknown.
func TestTokenUnknown(t *testing.T) {
	p, _ := guardedWeb("one")
	a := newPurse("")
	a.err = errors.New("the authorization server is away")
	r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: a}))
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if !strings.Contains(s.Health.Reason, "is away") {
		t.Errorf("reason %q", s.Health.Reason)
	}
	a.set(func() { a.token, a.err = "one", nil })
	r.Ready(t)
}

// TestTokenStays checks that a token is sent to no other server, and that an Authorization header
// in the configuration replaces the token.
func TestTokenStays(t *testing.T) {
	stranger := &rawWeb{}
	elsewhere := stranger.serve(t)
	p := &rawWeb{gate: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}}
	r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: newPurse("one")}))
	r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	r.Close(t)
	stranger.mu.Lock()
	if len(stranger.requests) > 0 {
		t.Errorf("%d requests elsewhere", len(stranger.requests))
	}
	stranger.mu.Unlock()

	p, _ = guardedWeb("one")
	a := newPurse("one")
	r = start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "http", Auth: a,
		Headers: map[string]string{"authorization": "Bearer mine"}}))
	s := r.Wait(t, "needs sign-in", func(s upstream.Snapshot) bool { return s.Health.State == tool.NeedsSignIn })
	if !strings.Contains(s.Health.Reason, "configured Authorization header") || len(a.refused) > 0 || a.renewed > 0 {
		t.Errorf("reason %q, refused %v", s.Health.Reason, a.refused)
	}
}
