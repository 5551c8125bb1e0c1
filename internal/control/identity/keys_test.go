package identity_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// key creates a key that is valid for MCP and the API.
func (r *rig) key(t *testing.T, k identity.Key) string {
	t.Helper()
	if k.Scopes == nil {
		k.Scopes = []string{"mcp", "api"}
	}
	_, text, err := r.keys.Create(t.Context(), k)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return text
}

func TestKeyLife(t *testing.T) {
	r := newRig(t, nil)
	text := r.key(t, identity.Key{Name: "ci", Person: "ann@example.com", Groups: []string{"leads", "finance", "leads"},
		Expires: r.clock.Now().Add(90 * 24 * time.Hour)})
	if len(text) != 65 || !strings.HasPrefix(text, "bp_") {
		t.Errorf("key %q", text)
	}
	p := r.accepted(t, text, toMCP)
	if p.ID != "key:ci" || p.Agent != "ci" || p.Person != "ann@example.com" ||
		!slices.Equal(p.Roles, []string{"user"}) || !slices.Equal(p.Scopes, []string{"api", "mcp"}) ||
		!slices.Equal(p.Groups, []string{"finance", "leads"}) {
		t.Errorf("p = %+v", p)
	}
	for _, k := range r.store.keys {
		if strings.Contains(string(k.Hash), text[16:30]) || len(k.Hash) != 32 {
			t.Error("the store holds the secret")
		}
		if !k.Used.Equal(r.clock.Now()) {
			t.Errorf("last used %v", k.Used)
		}
	}
	// Last use is written once a minute.
	r.accepted(t, text, toAPI)
	if r.store.used != 1 {
		t.Errorf("written %d times", r.store.used)
	}
	// With a grace period, both secrets are valid for a while.
	_, second, err := r.keys.Rotate(t.Context(), "ci", time.Hour)
	if err != nil || second == text || len(r.revoked) != 0 {
		t.Fatalf("rotate with a grace period: error %v, secret %v, revoked %v, want a new secret, and none revoked",
			err, second, r.revoked)
	}
	r.accepted(t, text, toMCP)
	r.accepted(t, second, toMCP)
	r.clock.Advance(time.Hour)
	r.refused(t, text, toMCP, identity.ReasonUnknown)
	// Without, the old one is refused at once, and its connections must be closed.
	_, third, err := r.keys.Rotate(t.Context(), "ci", 0)
	if err != nil || !slices.Equal(r.revoked, []string{"key:ci"}) {
		t.Fatalf("rotate without a grace period: error %v, revoked %v, want key:ci revoked", err, r.revoked)
	}
	r.refused(t, second, toMCP, identity.ReasonUnknown)
	r.accepted(t, third, toMCP)
	// Keys survive a round trip through the store.
	again, err := identity.OpenKeys(t.Context(), identity.KeysConfig{Store: r.store, Clock: r.clock})
	if err != nil {
		t.Fatalf("identity.OpenKeys: %v", err)
	}
	a := identity.New(identity.AuthenticatorConfig{Keys: again, Clock: r.clock})
	req := httptest.NewRequest("POST", "/mcp", nil)
	req.Header.Set("Authorization", "bearer  "+third)
	if p, err := a.Authenticate(req, toMCP); err != nil || p.ID != "key:ci" {
		t.Errorf("the header with another case and spaces: principal %v, error %v, want key:ci", p, err)
	}
	if _, err := r.keys.Revoke(t.Context(), "ci"); err != nil || len(r.revoked) != 2 {
		t.Fatalf("revoke: error %v, revoked %v, want a second revocation", err, r.revoked)
	}
	r.refused(t, third, toMCP, identity.ReasonRevoked)
	for what, err := range map[string]error{
		"create": second2(r.keys.Create(t.Context(), identity.Key{Name: "ci"})),
		"rotate": second2(r.keys.Rotate(t.Context(), "ci", 0)),
	} {
		if tool.AsError(err).Kind != tool.Conflict || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("what = %s, err = %v, want tool.AsError(err).Kind == tool.Conflict && "+
				"strings.Contains(err.Error(), \"revoked\")", what, err)
		}
	}
	if all := r.keys.List(); len(all) != 1 || all[0].Revoked.IsZero() {
		t.Errorf("keys: %+v, want one, with the time of its revocation", all)
	}
}

func second2(_ *identity.Key, _ string, err error) error { return err }

func TestKeyExpires(t *testing.T) {
	r := newRig(t, nil)
	text := r.key(t, identity.Key{Name: "ci", Expires: r.clock.Now().Add(time.Hour)})
	r.accepted(t, text, toMCP)
	r.clock.Advance(time.Hour)
	r.refused(t, text, toMCP, identity.ReasonExpired)
	if err := second2(r.keys.Rotate(t.Context(), "ci", 0)); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("rotate an expired key: error %v, want kind conflict", err)
	}
}

func TestBadKeys(t *testing.T) {
	r := newRig(t, nil)
	text := r.key(t, identity.Key{Name: "ci", Scopes: []string{"mcp"}})
	flip := func(i int) string {
		b := []byte(text)
		if b[i] = 'a'; text[i] == 'a' {
			b[i] = 'b'
		}
		return string(b)
	}
	for name, tt := range map[string]struct{ key, reason string }{
		"mistyped":         {flip(40), identity.ReasonMalformed},
		"wrong checksum":   {flip(64), identity.ReasonMalformed},
		"cut":              {text[:60], identity.ReasonMalformed},
		"longer":           {text + "0", identity.ReasonMalformed},
		"prefix only":      {"bp_", identity.ReasonMalformed},
		"unknown id":       {identity.KeyText("000000000000", strings.Repeat("0", 43)), identity.ReasonUnknown},
		"another secret":   {identity.KeyText(text[3:15], strings.Repeat("0", 43)), identity.ReasonUnknown},
		"no credential":    {"", identity.ReasonMissing},
		"control in it":    {text[:20] + "\x01" + text[21:], identity.ReasonMalformed},
		"something longer": {"bp_" + strings.Repeat("x", 30_000), identity.ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			no := r.refused(t, tt.key, toMCP, tt.reason)
			if no.Status != 401 || !strings.HasPrefix(no.Challenge, "Bearer ") ||
				strings.Contains(no.Challenge, "error") == (tt.key == "") {
				t.Errorf("no = %+v", no)
			}
		})
	}
	no := r.refused(t, text, toAPI, identity.ReasonScope)
	if no.Status != 403 || !strings.Contains(no.Challenge, `error="insufficient_scope"`) ||
		!strings.Contains(no.Challenge, `scope="api"`) {
		t.Errorf("no = %+v", no)
	}
	for header, reason := range map[string]string{"Basic " + text: identity.ReasonMalformed,
		"Bearer": identity.ReasonMalformed, text: identity.ReasonMalformed} {
		req := httptest.NewRequest("POST", "/mcp", nil)
		req.Header.Set("Authorization", header)
		if _, no := r.askFor(req, toMCP); no == nil || no.Reason != reason {
			t.Errorf("header = %s, no = %v, want no != nil && no.Reason == reason", header, no)
		}
	}
	twice := httptest.NewRequest("POST", "/mcp", nil)
	twice.Header["Authorization"] = []string{"Bearer " + text, "Bearer " + text}
	if _, no := r.askFor(twice, toMCP); no == nil || no.Reason != identity.ReasonMalformed {
		t.Errorf("two credentials: refusal %v, want reason malformed", no)
	}
	inAddress := httptest.NewRequest("POST", "/mcp?access_token="+text, nil)
	if _, no := r.askFor(inAddress, toMCP); no == nil || no.Reason != identity.ReasonMissing {
		t.Errorf("a credential in the address: refusal %v, want reason missing", no)
	}
	// If keys are not accepted, even a valid one is refused.
	r.Authenticator = identity.New(identity.AuthenticatorConfig{Issuers: []identity.Issuer{{Issuer: r.issuer.URL}},
		Resource: resource})
	if _, no := r.ask(text, toMCP); no == nil || no.Reason != identity.ReasonUnknown {
		t.Errorf("a key without a key store: refusal %v, want reason unknown", no)
	}
}

func TestKeysThatAreNotMade(t *testing.T) {
	r := newRig(t, nil)
	for want, k := range map[string]identity.Key{
		"name":       {Name: ""},
		"beginning":  {Name: "-x"},
		"characters": {Name: "a/b"},
		"role":       {Name: "a", Roles: []string{"root"}},
		"scope":      {Name: "a", Scopes: []string{"all"}},
		"pattern":    {Name: "a", Tools: []string{"github"}},
		"github.*":   {Name: "a", Tools: []string{"a b.*"}},
		"expiry":     {Name: "a", Expires: r.clock.Now()},
		"ten years":  {Name: "a", Expires: r.clock.Now().Add(200_000 * time.Hour)},
		"person":     {Name: "a", Person: "a\nb"},
		"group":      {Name: "a", Groups: []string{"leads, all"}},
		"bytes":      {Name: "a", Groups: []string{" leads"}},
		"at most":    {Name: "a", Groups: manyGroups()},
	} {
		err := second2(r.keys.Create(t.Context(), k))
		if tool.AsError(err).Kind != tool.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("want = %s, err = %v, want tool.AsError(err).Kind == tool.Invalid && "+
				"strings.Contains(err.Error(), want)", want, err)
		}
	}
	r.store.fail = errors.New("disk full")
	if err := second2(r.keys.Create(t.Context(), identity.Key{Name: "a"})); err == nil || len(r.keys.List()) != 0 {
		t.Error("a key counts that is not on the disk", err)
	}
	r.store.fail = nil
	r.key(t, identity.Key{Name: "a"})
	if err := second2(r.keys.Create(t.Context(), identity.Key{Name: "a"})); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("a second key of the same name: error %v, want kind conflict", err)
	}
	// A revocation that can't be written has no effect, and fails.
	r.store.fail = errors.New("disk full")
	if _, err := r.keys.Revoke(t.Context(), "a"); err == nil || len(r.revoked) != 0 {
		t.Errorf("a revocation that can't be stored: error %v, want one, and nothing revoked", err)
	}
	if _, err := r.keys.Revoke(t.Context(), "b"); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("revoke an unknown key: error %v, want kind not_found", err)
	}
}

func TestKeyReaches(t *testing.T) {
	r := newRig(t, nil)
	p := r.accepted(t, r.key(t, identity.Key{Name: "ci", Tools: []string{"github.list_*", "jira.search"},
		Expires: r.clock.Now().Add(time.Hour)}), toMCP)
	at := func(upstream, name string) *tool.Tool { return &tool.Tool{Upstream: upstream, Name: name} }
	for path, barred := range map[*tool.Tool]bool{
		at("github", "list_issues"): false, at("github", "create_issue"): true, at("jira", "search"): false,
		at("jira", "search2"):        true,
		at("xgithub", "list_issues"): true, at("biplane", "execute"): false, at("biplane", "search"): false,
		at("biplane", "resume"): false,
		at("biplane", "fetch"):  true, at("biplane", "send"): true, at("biplane", "later"): true,
	} {
		if why := r.keys.ExplainDenial(p, path); (why != "") != barred {
			t.Errorf(`path.Path() = %s, why = %q, want (why != "") == barred`, path.Path(), why)
		}
	}
	// A key without patterns may reach hosts, subject to policy. So may one whose patterns name
	// them.
	for name, tools := range map[string][]string{"whole": nil, "reads": {"github.*", "biplane.fetch"}} {
		p := r.accepted(t, r.key(t, identity.Key{Name: name, Tools: tools}), toMCP)
		if why := r.keys.ExplainDenial(p, at("biplane", "fetch")); why != "" {
			t.Errorf(`%s, why = %s, want ""`, name, why)
		}
		if why := r.keys.ExplainDenial(p, at("biplane", "send")); (why != "") != (name == "reads") {
			t.Errorf(`%s, why = %q, want (why != "") == (name == "reads")`, name, why)
		}
	}
	if why := r.keys.ExplainDenial(tool.Principal{ID: "local:ann"}, at("a", "b")); why != "" {
		t.Errorf("ExplainDenial = %q, want no reason", why)
	}
	if why := r.keys.ExplainDenial(tool.Principal{ID: "key:nobody"}, at("a", "b")); why == "" {
		t.Error("an unknown key reaches a tool")
	}
	r.clock.Advance(time.Hour)
	if why := r.keys.ExplainDenial(p, at("biplane", "execute")); !strings.Contains(why, "expired") {
		t.Errorf("ExplainDenial = %q, want a reason with \"expired\"", why)
	}
	q := r.accepted(t, r.key(t, identity.Key{Name: "b"}), toMCP)
	if _, err := r.keys.Revoke(t.Context(), "b"); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	if why := r.keys.ExplainDenial(q, at("biplane", "search")); !strings.Contains(why, "revoked") {
		t.Errorf("ExplainDenial = %q, want a reason with \"revoked\"", why)
	}
}

// TestMatches compares with a matcher that is too simple to be wrong.
func TestMatches(t *testing.T) {
	var simple func(p, s string) bool
	simple = func(p, s string) bool {
		switch {
		case p == "":
			return s == ""
		case p[0] == '*':
			return simple(p[1:], s) || s != "" && simple(p, s[1:])
		}
		return s != "" && (p[0] == '?' || p[0] == s[0]) && simple(p[1:], s[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab.*?]{0,8}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[ab.*]{0,8}`).Draw(t, "text")
		if got, want := identity.MatchesAny([]string{p}, s), simple(p, s); got != want {
			t.Fatalf("p = %q, s = %q, got = %v, want want", p, s, got)
		}
	})
	if identity.MatchesAny([]string{strings.Repeat("*a", 90)}, strings.Repeat("a", 20_000)+"b") {
		t.Error("matches")
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	text := r.key(t, identity.Key{Name: "ci"})
	for range 10 {
		r.accepted(t, text, toMCP)
	}
	if evs := r.take(); len(evs) != 1 || !evs[0].Accepted || evs[0].Principal.ID != "key:ci" || evs[0].Method != "key" {
		t.Errorf("evs = %+v, want len(evs) == 1 && evs[0].Accepted && evs[0].Principal.ID == \"key:ci\" "+
			"&& evs[0].Method == \"key\"", evs)
	}
	r.clock.Advance(time.Hour)
	r.accepted(t, text, toMCP)
	if evs := r.take(); len(evs) != 1 {
		t.Errorf("events after an hour: %+v, want one", evs)
	}
	for range 500 {
		r.ask("nonsense", toMCP)
	}
	if evs := r.take(); len(evs) != 60 {
		t.Errorf("%d events", len(evs))
	}
	r.clock.Advance(time.Minute)
	r.ask("nonsense", toMCP)
	if evs := r.take(); len(evs) != 1 || evs[0].More != 440 {
		t.Errorf("events after a minute: %+v, want one that counts 440 more", evs)
	}
}

// TestKeysAtOnce uses, rotates and revokes a key concurrently.
func TestKeysAtOnce(t *testing.T) {
	r := newRig(t, nil)
	text := r.key(t, identity.Key{Name: "ci"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r.ask(text, toMCP)
				r.clock.Advance(10 * time.Second)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := second2(r.keys.Rotate(t.Context(), "ci", time.Hour)); err != nil {
				t.Errorf("second2: %v", err)
			}
			r.keys.List()
		}
		if _, err := r.keys.Revoke(t.Context(), "ci"); err != nil {
			t.Errorf("Revoke: %v", err)
		}
	})
	wg.Wait()
	r.refused(t, text, toMCP, r.reasonNow(text))
	if k := r.keys.List()[0]; k.Revoked.IsZero() {
		t.Error("a use brought a revoked key back")
	}
}

// reasonNow returns the reason why a rotated and revoked key is refused.
func (r *rig) reasonNow(text string) string {
	_, no := r.ask(text, toMCP)
	if no == nil || no.Reason != identity.ReasonRevoked && no.Reason != identity.ReasonUnknown {
		return "none"
	}
	return no.Reason
}

func FuzzKey(f *testing.F) {
	f.Add(identity.KeyText("000000000000", strings.Repeat("0", 43)))
	f.Add("bp__")
	f.Fuzz(func(t *testing.T, s string) {
		if id, secret, ok := identity.SplitKey(s); ok && identity.KeyText(id, secret) != s {
			t.Errorf("%q is read as %q, %q", s, id, secret)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	store := &memory{keys: map[string]identity.Key{}}
	keys, err := identity.OpenKeys(b.Context(), identity.KeysConfig{Store: store})
	if err != nil {
		b.Fatalf("identity.OpenKeys: %v", err)
	}
	_, text, err := keys.Create(b.Context(), identity.Key{Name: "ci"})
	if err != nil {
		b.Fatalf("Create: %v", err)
	}
	a := identity.New(identity.AuthenticatorConfig{Keys: keys})
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	for b.Loop() {
		if _, err := a.Authenticate(r, toMCP); err != nil {
			b.Fatalf("Authenticate: %v", err)
		}
	}
}

// manyGroups returns one group more than a key may have.
func manyGroups() (out []string) {
	for i := range 101 {
		out = append(out, fmt.Sprint("g", i))
	}
	return out
}
